package vhost_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestTranscripts plays the scripts in testdata/session. A line that begins
// with ">" is a message ("!" after its name asks for an acknowledgement, fd=
// lists descriptors); "fail TEXT" makes the next pending action fail; the lines
// below are the actions that came of it. Pending actions are done at once.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/session/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d transcripts: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(string(want), got); d != "" && !*update {
				t.Errorf("want - got +:\n%s", d)
			}
		})
	}
}

// player is a session with an executor that writes down what it is told.
type player struct {
	t    *testing.T
	s    *vhost.Session
	out  strings.Builder
	fail string
}

// transcriptFeatures is the device's offer in transcripts, which do not change
// with what the device learns.
const transcriptFeatures virtio.Features = 0x1_70ef_bbaf

func play(t *testing.T, script string) string {
	offer := vhost.ProtocolOffer
	switch {
	case strings.HasPrefix(script, "# in-band:"):
		offer = vhost.InbandOffer
	case strings.HasPrefix(script, "# post-copy:"):
		offer = vhost.PostcopyOffer
	case strings.HasPrefix(script, "# basic:"):
		offer = vhost.InbandOffer &^ wire.ProtocolInband
	}
	features := transcriptFeatures
	if strings.HasPrefix(script, "# translated:") {
		features |= virtio.FeatureAccessPlatform
	}
	p := &player{t: t, s: vhost.NewSession(vhost.SessionConfig{
		QueuePairs: 2, Features: features, Protocol: offer,
		ConfigSpace: func() []byte { return []byte{0x52, 0x54, 0, 0x12, 0x34, 0x56, 1, 0, 2, 0, 0xdc, 5} },
	})}
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "#") || line == "":
			fmt.Fprintln(&p.out, line)
		case strings.HasPrefix(line, "fail "):
			fmt.Fprintln(&p.out, line)
			p.fail = line[5:]
		case strings.HasPrefix(line, "> "):
			fmt.Fprintln(&p.out, line)
			m, fds := parseMessage(t, line[2:])
			p.perform(p.s.Handle(m, fds, nil))
		}
	}
	return p.out.String()
}

func (p *player) perform(actions []vhost.Action) {
	for len(actions) > 0 {
		a := actions[0]
		actions = actions[1:]
		text, token := describe(a)
		fmt.Fprintln(&p.out, "\t"+text)
		if token == 0 {
			continue
		}
		r := vhost.Result{Base: 7, FD: 99}
		if a, ok := a.(vhost.MapRegions); ok {
			r.UVAs = []uint64{0x1234000, 0x5678000}[:len(a.IDs)]
		}
		if p.fail != "" {
			r.Err, p.fail = errors.New(p.fail), ""
		}
		actions = append(actions, p.s.Done(token, r)...)
	}
}

// describe writes an action as one line, and returns its token.
func describe(a vhost.Action) (string, vhost.Token) {
	switch a := a.(type) {
	case vhost.Reply:
		if len(a.FDs) > 0 {
			return fmt.Sprintf("%v with %v", a.Message, a.FDs), 0
		}
		return a.Message.String(), 0
	case vhost.CloseFDs:
		return fmt.Sprintf("close %v", a.FDs), 0
	case vhost.MapRegions:
		return fmt.Sprintf("map %v from %v as %v", a.Regions, a.FDs, a.IDs), a.Token
	case vhost.SetMemory:
		return fmt.Sprintf("memory %v", a.IDs), 0
	case vhost.SetFeatures:
		return fmt.Sprintf("features %v", a.Acked), a.Token
	case vhost.StartRing:
		c, wake := a.Config, ""
		if a.Wake {
			wake = ", call the guest"
		}
		if a.Log.On {
			wake += fmt.Sprintf(", log %+v", a.Log)
		}
		if a.Inflight {
			wake += ", recorded"
		}
		return fmt.Sprintf("start ring %d as %v of pair %d: size %d base %d desc %#x avail %#x used %#x enabled %v%s",
			a.Ring, a.Role.Dir, a.Role.Pair, c.Size, c.Base, c.Desc, c.Avail, c.Used, a.Enabled, wake), a.Token
	case vhost.StopRing:
		if a.Leave {
			return fmt.Sprintf("stop ring %d, chains may stay in flight", a.Ring), a.Token
		}
		return fmt.Sprintf("stop ring %d", a.Ring), a.Token
	case vhost.EnableRing:
		return fmt.Sprintf("enable ring %d: %v", a.Ring, a.On), 0
	case vhost.KickRing:
		return fmt.Sprintf("kick ring %d, %v of pair %d", a.Ring, a.Role.Dir, a.Role.Pair), 0
	case vhost.SetFD:
		return fmt.Sprintf("ring %d: %v descriptor %d", a.Ring, a.Kind, a.FD), a.Token
	case vhost.SetBackendFD:
		return fmt.Sprintf("back-end socket %d", a.FD), a.Token
	case vhost.ResetDevice:
		return "reset device", 0
	case vhost.NotifyConfig:
		return "notify config", 0
	case vhost.End:
		return fmt.Sprintf("end: %v", a.Reason), 0
	}
	return describeShared(a)
}

// describeShared is describe for the actions of migration, translation and shared
// memory.
func describeShared(a vhost.Action) (string, vhost.Token) {
	switch a := a.(type) {
	case vhost.MakeUserfault:
		return "make a descriptor for missing pages", a.Token
	case vhost.WatchMemory:
		return "watch memory", a.Token
	case vhost.EndUserfault:
		return "end the watch", 0
	case vhost.SetTranslations:
		return fmt.Sprintf("translations %+v", a.List), 0
	case vhost.AskTranslation:
		return fmt.Sprintf("ask for the translation of %#x, permission %d", a.IOVA, a.Perm), 0
	case vhost.MapLog:
		return fmt.Sprintf("log from %d: %#x bytes at %#x", a.FD, a.Size, a.Offset), a.Token
	case vhost.LogRing:
		return fmt.Sprintf("ring %d: log %+v", a.Ring, a.Log), 0
	case vhost.SetLogFD:
		return fmt.Sprintf("log descriptor %d", a.FD), a.Token
	case vhost.MakeInflight:
		return fmt.Sprintf("make a record of %d bytes", a.Size), a.Token
	case vhost.MapInflight:
		return fmt.Sprintf("record from %d at %#x: %d rings of %d bytes", a.FD, a.Offset, a.Rings, a.Stride), a.Token
	case vhost.SendRARP:
		return fmt.Sprintf("send RARP of %x", a.MAC), 0
	case vhost.SetMTU:
		return fmt.Sprintf("MTU %d", a.MTU), a.Token
	case vhost.SetMAC:
		return fmt.Sprintf("MAC %x", a.MAC), a.Token
	case vhost.TransferState:
		return fmt.Sprintf("transfer state over %d, load %v", a.FD, a.Load), a.Token
	case vhost.CheckState:
		return "check state", a.Token
	}
	return fmt.Sprintf("%T", a), 0
}

var requestByName = func() map[string]wire.Request {
	m := make(map[string]wire.Request)
	for r := wire.GetFeatures; r <= wire.GetVringBaseSkipDrain; r++ {
		m[r.String()] = r
	}
	return m
}()

// parseMessage reads "NAME[!] numbers… [nofd] [fd=N,N…]".
func parseMessage(t *testing.T, line string) (m wire.Message, fds []int) {
	words := strings.Fields(line)
	name, need := strings.CutSuffix(words[0], "!")
	r, ok := requestByName[name]
	if !ok {
		t.Fatalf("no request %q", name)
	}
	m.Request = r
	if need {
		m.Flags = wire.FlagNeedReply
	}
	var n []uint64
	noFD := false
	for _, w := range words[1:] {
		if list, ok := strings.CutPrefix(w, "fd="); ok {
			for f := range strings.SplitSeq(list, ",") {
				fd, _ := strconv.Atoi(f)
				fds = append(fds, fd)
			}
			continue
		}
		if w == "nofd" {
			noFD = true
			continue
		}
		v, err := strconv.ParseUint(w, 0, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		n = append(n, v)
	}
	m.Payload = payloadOf(r, n, noFD)
	return m, fds
}

func payloadOf(r wire.Request, n []uint64, noFD bool) wire.Payload {
	switch r {
	case wire.SetFeatures, wire.SetProtocolFeatures, wire.SetStatus, wire.NetSetMTU, wire.SendRARP:
		return wire.U64(n[0])
	case wire.SetVringNum, wire.SetVringBase, wire.SetVringEnable:
		return wire.VringState{Index: uint32(n[0]), Num: uint32(n[1])}
	case wire.GetVringBase, wire.GetVringBaseSkipDrain, wire.VringKick:
		return wire.VringState{Index: uint32(n[0])}
	case wire.SetVringAddr:
		v := wire.VringAddr{Index: uint32(n[0]), Desc: n[1], Avail: n[2], Used: n[3]}
		if len(n) > 4 {
			v.Flags, v.Log = 1, n[4]
		}
		return v
	case wire.SetVringKick, wire.SetVringCall, wire.SetVringErr:
		return wire.VringFD{Index: uint8(n[0]), NoFD: noFD}
	case wire.SetMemTable:
		var t wire.MemTable
		for ; len(n) >= 4; n = n[4:] {
			t.Regions = append(t.Regions, regionOf(n))
		}
		return t
	case wire.AddMemReg, wire.RemMemReg:
		return wire.MemRegion{Region: regionOf(n)}
	case wire.SetLogBase:
		return wire.LogArea{Size: n[0], Offset: n[1]}
	case wire.GetInflightFD, wire.SetInflightFD:
		return inflightOf(n)
	case wire.IOTLBMsg:
		if len(n) == 0 {
			break
		}
		return wire.IOTLB{IOVA: n[0], Size: n[1], UVA: n[2], Perm: 3, Type: uint8(n[3])}
	case wire.SetDeviceStateFD:
		return wire.StateTransfer{Direction: uint32(n[0]), Phase: uint32(n[1])}
	case wire.SetConfig:
		return setConfigOf(n)
	case wire.GetConfig:
		return wire.Config{Offset: uint32(n[0]), Data: make([]byte, n[1])}
	}
	return wire.Empty{}
}

// inflightOf reads rings and entries, and where the record is if that comes too.
func inflightOf(n []uint64) wire.Inflight {
	var v wire.Inflight
	if len(n) >= 2 {
		v.NumQueues, v.QueueSize = uint16(n[0]), uint16(n[1])
	}
	if len(n) >= 4 {
		v.MapSize, v.MapOffset = n[2], n[3]
	}
	return v
}

// setConfigOf reads the offset, the flags and the bytes.
func setConfigOf(n []uint64) wire.Config {
	c := wire.Config{Offset: uint32(n[0]), Flags: uint32(n[1])}
	for _, b := range n[2:] {
		c.Data = append(c.Data, byte(b))
	}
	return c
}

func regionOf(n []uint64) wire.Region {
	return wire.Region{GPA: n[0], Size: n[1], UVA: n[2], Offset: n[3]}
}

// TestMessagesWaitBehindAPendingAction sends three messages while a region is
// being mapped.
func TestMessagesWaitBehindAPendingAction(t *testing.T) {
	s := vhost.NewSession(vhost.SessionConfig{QueuePairs: 1, Features: netdev.DefaultFeatures})
	tell := func(line string) []vhost.Action {
		m, fds := parseMessage(t, line)
		return s.Handle(m, fds, nil)
	}
	got := tell("SET_MEM_TABLE 0 0x1000 0x7000 0 fd=9")
	m, ok := got[0].(vhost.MapRegions)
	if !ok || len(got) != 1 {
		t.Fatalf("actions %v", got)
	}
	for _, line := range []string{"GET_FEATURES", "SET_VRING_NUM 0 3", "GET_FEATURES"} {
		if got := tell(line); len(got) != 0 {
			t.Errorf("%s was handled early: %v", line, got)
		}
	}
	var kinds []string
	for _, a := range s.Done(m.Token, vhost.Result{}) {
		text, _ := describe(a)
		kinds = append(kinds, strings.Fields(text)[0])
	}
	if got, want := strings.Join(kinds, " "), "memory GET_FEATURES end:"; got != want {
		t.Errorf("then came %q, want %q", got, want)
	}
	if got := tell("SET_VRING_KICK 0 fd=3"); len(got) != 1 {
		t.Errorf("after the end: %v", got)
	}
}

func TestFloodEndsTheSession(t *testing.T) {
	s := vhost.NewSession(vhost.SessionConfig{QueuePairs: 1})
	m, fds := parseMessage(t, "SET_VRING_CALL 0 fd=9")
	closed := 0
	for i := range 100 {
		for _, a := range s.Handle(m, fds, nil) {
			switch a := a.(type) {
			case vhost.CloseFDs:
				closed += len(a.FDs)
			case vhost.End:
				if !errors.Is(a.Reason, vhost.ErrFlood) {
					t.Errorf("ended with %v", a.Reason)
				}
				if i < 64 {
					t.Errorf("ended after %d messages", i)
				}
			}
		}
	}
	if closed != 99 { // the first one is with the executor
		t.Errorf("%d descriptors closed, want 99", closed)
	}
}

func TestDoneWithAWrongTokenPanics(t *testing.T) {
	s := vhost.NewSession(vhost.SessionConfig{QueuePairs: 1})
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	s.Done(1, vhost.Result{})
}
