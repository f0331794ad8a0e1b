package netdev_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt with what the device does")

// TestTranscripts plays the files of testdata: a command a line, then "----",
// then all that it answers, up to an empty line. Times are nanoseconds since
// the start.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("transcript differs (-file +device); -update rewrites it:\n%s", d)
			}
			if again := play(t, string(text)); again != got {
				t.Errorf("the second run answers differently:\n%s", cmp.Diff(got, again))
			}
		})
	}
}

// play answers every command of a transcript; comment lines stay.
func play(t *testing.T, text string) string {
	var out strings.Builder
	a := &actor{t: t}
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		cmds, _, isCmd := strings.Cut(block, "\n----")
		if !isCmd {
			fmt.Fprintf(&out, "%s\n\n", block)
			continue
		}
		fmt.Fprintf(&out, "%s\n----\n", cmds)
		for line := range strings.SplitSeq(cmds, "\n") {
			out.WriteString(a.do(strings.Fields(line)))
		}
		out.WriteString("\n")
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// actor is the world that a transcript drives: one TX queue.
type actor struct {
	t     *testing.T
	w     *world
	start vtime.Time
}

func (a *actor) do(f []string) string {
	if f[0] == "world" {
		return a.world(f[1:])
	}
	tx := a.w.dev.Pair(0).TX
	switch f[0] {
	case "send":
		return a.send(f[1:])
	case "at":
		a.w.now = a.start + vtime.Time(a.num(f[1]))
	case "kick":
		a.w.dev.Pair(0).Kick(a.w.now, netdev.DirTX, uint64(a.num(f[1])))
	case "wire":
		return a.wire(f[1:])
	case "poll":
		return a.poll(f[1:])
	case "next":
		return a.time(tx.Next(a.w.now)) + "\n"
	case "rearm":
		return fmt.Sprintf("more=%v\n", tx.Rearm())
	case "complete":
		tx.Complete(a.w.wire.tokens[a.num(f[1])], a.w.now)
	case "writable":
		a.w.wire.room = 0
		tx.Writable(a.w.now)
	case "reap":
		return fmt.Sprintf("used=%d\n", a.w.reap(a.w.tx[0]))
	case "policy":
		p, err := netdev.ParsePolicy(f[1])
		if err == nil {
			err = a.w.dev.Pair(0).SetPolicy(p)
		}
		if err != nil {
			a.t.Fatal(err)
		}
	case "stats":
		return a.stats(tx.Snapshot(), f[1:])
	default:
		a.t.Fatalf("unknown command %q", f)
	}
	return ""
}

func (a *actor) num(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

func (a *actor) world(opts []string) string {
	s := setup{}
	for _, o := range opts {
		if o == "flags" {
			s.off = virtio.FeatureEventIdx
		}
	}
	a.w = newWorld(a.t, s)
	a.start = a.w.now
	return ""
}

// send queues frames of the payload lengths given, publishes each alone, and
// says which need a kick.
func (a *actor) send(lens []string) string {
	var kicks []string
	for _, l := range lens {
		n := a.num(l)
		h, f := virtio.NetHdr{}, build(fromGuest(0, n))
		if n > 1448 {
			h, f = gso(fromGuest(0, n), 1448)
		}
		need := a.w.queueTX(0, append(a.w.encode(h), f...))
		kicks = append(kicks, strconv.FormatBool(need))
	}
	return "kick needed: " + strings.Join(kicks, " ") + "\n"
}

func (a *actor) wire(opts []string) string {
	p := a.w.wire
	for _, o := range opts {
		key, val, _ := strings.Cut(o, "=")
		switch key {
		case "delay":
			p.delay = vtime.Time(a.num(val))
		case "room":
			p.room = p.sent + a.num(val)
		case "later":
			p.result = netdev.Later
		case "sent":
			p.result = netdev.Sent
		default:
			a.t.Fatalf("wire has no option %q", o)
		}
	}
	return ""
}

func (a *actor) poll(opts []string) string {
	var b netdev.Budget
	if len(opts) > 0 {
		b.Packets = a.num(opts[0])
	}
	w, c := a.w.pollTX(0, b)
	return fmt.Sprintf("packets=%d payload=%d segs=%d dropped=%d completed=%d call=%v reason=%v in-flight=%d\n",
		w.Packets, w.Payload, w.Segs, w.Dropped, w.Completed, c.Needed, c.Reason, a.w.dev.Pair(0).TX.InFlight())
}

func (a *actor) time(t vtime.Time) string {
	switch t {
	case vtime.Never:
		return "never"
	case a.w.now:
		return "now"
	}
	return strconv.Itoa(int(t - a.start))
}

// stats prints a group of counters.
func (a *actor) stats(s netdev.Stats, groups []string) string {
	var b strings.Builder
	for _, g := range groups {
		switch g {
		case "kicks":
			fmt.Fprintf(&b, "kicks=%d wakes=%d coalesced=%d empty=%d suppressed=%d batches=%d per-kick=%s\n",
				s.Kicks, s.Wakes, s.KicksCoalesced, s.KicksEmpty, s.KicksSuppressed, s.SuppressedBatches, a.json(s.PacketsPerKick))
		case "calls":
			fmt.Fprintf(&b, "calls=%d failed=%d suppressed=%s per-call=%s\n",
				s.Calls, s.CallsFailed, a.json(s.CallsSuppressed), a.json(s.PacketsPerCall))
		case "packets":
			fmt.Fprintf(&b, "packets=%d payload=%d segs=%d gso=%d/%d big=%d sizes=%s\n",
				s.Packets, s.PayloadBytes, s.Segs, s.GSOPackets, s.GSOSegs, s.BigBytes, a.json(s.GSOSize))
		case "latency":
			fmt.Fprintf(&b, "kick-to-used=%s used-to-call=%s\n", a.json(s.KickToUsed), a.json(s.UsedToCall))
		case "full":
			fmt.Fprintf(&b, "full=%d stale=%d\n", s.FullStops, s.StaleTokens)
		default:
			a.t.Fatalf("no group of counters %q", g)
		}
	}
	return b.String()
}

func (a *actor) json(m interface{ MarshalJSON() ([]byte, error) }) string {
	b, err := m.MarshalJSON()
	if err != nil {
		a.t.Fatal(err)
	}
	return string(b)
}
