package frontend_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// backend answers as a back-end would that offers everything and does nothing.
type backend struct {
	out strings.Builder
}

func (b *backend) play(t *testing.T, f *frontend.Front) {
	t.Helper()
	for {
		o, ok := f.Next()
		if !ok {
			return
		}
		need := ""
		if o.Message.NeedReply() {
			need = " (to be acknowledged)"
		}
		fds := ""
		if len(o.FDs) > 0 {
			fds = fmt.Sprintf(" with %v", o.FDs)
		}
		if o.Pad > 0 {
			fds += fmt.Sprintf(" and %d bytes of padding", o.Pad)
		}
		fmt.Fprintf(&b.out, "%v%s%s\n", o.Message, fds, need)
		if !o.Answered {
			continue
		}
		if err := f.Answer(o.Message.Reply(answer(o.Message))); err != nil {
			t.Fatal(err)
		}
	}
}

func answer(m wire.Message) wire.Payload {
	switch m.Request {
	case wire.GetFeatures:
		return wire.U64(virtio.FeatureVersion1 | virtio.FeatureEventIdx | virtio.FeatureMQ | virtio.FeatureCtrlVQ |
			virtio.FeatureRingPacked | virtio.FeatureInOrder | wire.FeatureProtocol | wire.FeatureLogAll)
	case wire.GetProtocolFeatures:
		return wire.U64(1<<24 - 1)
	case wire.GetQueueNum:
		return wire.U64(2)
	case wire.GetMaxMemSlots:
		return wire.U64(509)
	case wire.GetConfig:
		return m.Payload
	case wire.GetVringBase:
		return wire.VringState{Index: m.Payload.(wire.VringState).Index, Num: 7}
	}
	return wire.U64(0)
}

func newFront(p *frontend.Profile) *frontend.Front {
	f := &frontend.Front{
		Profile: p, Want: ^virtio.Features(0), Pairs: 2, BackendFD: 9,
		Regions: []wire.Region{{GPA: 0, Size: 0x100000, UVA: 0x70000000}}, RegionFDs: []int{8},
	}
	if p.MaxPairs > 0 {
		f.Pairs = p.MaxPairs
	}
	for i := range 2 * f.Pairs {
		at := 0x70000000 + uint64(i)<<16
		f.Rings = append(f.Rings, frontend.RingInfo{Index: i, Size: 256, Base: 0,
			Addr: wire.VringAddr{Index: uint32(i), Desc: at, Avail: at + 0x1000, Used: at + 0x2000},
			Kick: 10 + i, Call: 20 + i, Err: 30 + i})
	}
	return f
}

// TestProfiles holds what each front-end says, from the first message to the last,
// against testdata: their differences are there to be read.
func TestProfiles(t *testing.T) {
	for _, p := range frontend.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			f, b := newFront(p), &backend{}
			for _, phase := range []struct {
				name string
				line func()
			}{{"open", f.Open}, {"start", f.Start}, {"stop", f.Stop}} {
				fmt.Fprintf(&b.out, "# %s\n", phase.name)
				phase.line()
				b.play(t, f)
			}
			file := filepath.Join("testdata", strings.ToLower(strings.ReplaceAll(p.Name, " ", "-"))+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(b.out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.out.String()); d != "" {
				t.Errorf("want - got +:\n%s", d)
			}
		})
	}
}

// TestWrongAnswers has a back-end answer something else than was asked.
func TestWrongAnswers(t *testing.T) {
	for name, wrong := range map[string]wire.Message{
		"of another request": {Request: wire.GetQueueNum, Flags: wire.FlagReply, Payload: wire.U64(1)},
		"without the flag":   {Request: wire.GetFeatures, Payload: wire.U64(1)},
		"with one too many":  {Request: wire.GetFeatures, Flags: wire.FlagReply | wire.FlagNeedReply, Payload: wire.U64(1)},
		"of another form":    {Request: wire.GetFeatures, Flags: wire.FlagReply, Payload: wire.Empty{}},
	} {
		f := newFront(frontend.QEMU10())
		f.Open()
		if o, ok := f.Next(); !ok || !o.Answered || o.Message.Request != wire.GetFeatures {
			t.Fatalf("first message %v", o.Message)
		}
		if err := f.Answer(wrong); err == nil {
			t.Errorf("an answer %s is taken", name)
		}
	}
	f := newFront(frontend.CloudHypervisor())
	f.Open()
	(&backend{}).play(t, f)
	f.Start()
	o, _ := f.Next()
	if err := f.Answer(o.Message.Reply(wire.U64(1))); !errors.Is(err, frontend.ErrRefused) {
		t.Errorf("a refusal of %v is %v", o.Message.Request, err)
	}
}
