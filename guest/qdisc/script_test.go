package qdisc_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// counts is a meter that only counts.
type counts [vcpu.NumOps]int64

func (c *counts) Charge(op vcpu.Op, n int64) { c[op] += n }

// fakeDev is a driver's queue with room for so many packets; it wants a kick for
// every packet that no other follows.
type fakeDev struct {
	room  int
	bulk  int64
	quiet bool // wants no kick
	log   *strings.Builder
	sent  []*skb.SKB
}

func (d *fakeDev) Stopped() bool    { return d.room == 0 }
func (d *fakeDev) BulkBytes() int64 { return d.bulk }

func (d *fakeDev) Xmit(now vtime.Time, p *skb.SKB, more bool) qdisc.Verdict {
	if d.room == 0 {
		return qdisc.Verdict{Busy: true}
	}
	d.room--
	if d.log != nil {
		fmt.Fprintf(d.log, "  %d dev: seq %d len %d flags %02x more %v\n", now, p.Seq, p.Len, p.Flags, more)
		d.sent = append(d.sent, p)
		return qdisc.Verdict{Kick: !d.quiet && (!more || d.room == 0)}
	}
	p.Free()
	return qdisc.Verdict{Kick: !d.quiet && !more}
}

// world is a queue, its driver and a log.
type world struct {
	q    *qdisc.TxQ
	dev  *fakeDev
	pool skb.Pool
	ops  counts
	log  strings.Builder
	seq  uint32
}

// args are the key=value words of a command.
type args map[string]string

func parse(line string) (string, args) {
	f := strings.Fields(line)
	a := args{}
	for _, w := range f[1:] {
		k, v, _ := strings.Cut(w, "=")
		a[k] = v
	}
	return f[0], a
}

func (a args) num(t *testing.T, key string, def int) int {
	v, ok := a[key]
	if !ok {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s=%s: %v", key, v, err)
	}
	return n
}

func (w *world) reset(t *testing.T, a args) {
	kind, err := qdisc.ParseKind(a["kind"])
	if err != nil && a["spec"] == "" {
		t.Fatal(err)
	}
	w.dev = &fakeDev{room: a.num(t, "room", 100), bulk: int64(a.num(t, "bulkbytes", 0)), log: &w.log}
	cfg := qdisc.Config{
		Kind: kind, Limit: a.num(t, "limit", 0), Quota: a.num(t, "quota", 0),
		Bulk: a["bulk"] == "on", SoftGSO: a["gso"] == "off", NoBypass: a["bypass"] == "off",
	}
	w.q = qdisc.New(w.dev, &w.ops, &w.pool, cfg)
	if text, ok := a["spec"]; ok {
		spec := mustParse(t, text).For(6, a.num(t, "minor", 12))
		if w.q, err = qdisc.NewFrom(w.dev, &w.ops, &w.pool, cfg, spec); err != nil {
			t.Fatal(err)
		}
	}
}

// watchdog does what a composer does with the watchdog, up to until.
func (w *world) watchdog(until vtime.Time) {
	for at := w.q.Next(); at <= until; at = w.q.Next() {
		fmt.Fprintf(&w.log, "  %d watchdog\n", at)
		w.drive(at, w.q.Restart(at, 0))
	}
	if at := w.q.Next(); at != vtime.Never {
		fmt.Fprintf(&w.log, "  next %d\n", at)
	}
}

// packet makes a packet of so many segments of 1448 bytes; tos is its TOS byte.
func (w *world) packet(t *testing.T, a args) *skb.SKB {
	p := w.pool.Get()
	segs := a.num(t, "segs", 1)
	p.Len, p.Segs, p.Seq, p.Flags = int32(1448*segs), int32(segs), w.seq, skb.ACK|skb.PSH
	if segs > 1 {
		p.GSOSize = 1448
	}
	p.Tstamp, p.Flow, p.Hash = vtime.Time(a.num(t, "ts", 0)), int32(a.num(t, "flow", 0)), uint32(a.num(t, "hash", 0))
	p.HdrLen = 66
	p.Hdr[12], p.Hdr[13], p.Hdr[14], p.Hdr[15] = 8, 0, 0x45, byte(a.num(t, "tos", 0))
	p.NFrags, p.Frags[0] = 1, skb.Frag{Addr: uint64(w.seq), Len: uint32(p.Len)}
	w.seq += uint32(p.Len)
	return p
}

// drive does what a composer does with outcomes.
func (w *world) drive(now vtime.Time, o qdisc.Outcome) {
	for {
		fmt.Fprintf(&w.log, "  sent %d%s\n", o.Sent, words(o))
		if !o.More {
			break
		}
		now++ // the step took a nanosecond
		o = w.q.Run(now)
	}
	w.q.Release(now)
}

func words(o qdisc.Outcome) string {
	var s strings.Builder
	for _, f := range []struct {
		on   bool
		name string
	}{{o.Kick, "kick"}, {o.Dropped, "dropped"}, {o.Congested, "congested"}, {o.More, "more"}, {o.Resched, "resched"}} {
		if f.on {
			s.WriteString(" " + f.name)
		}
	}
	if o.Handoff {
		s.WriteString(fmt.Sprintf(" handoff to cpu %d at %d", o.Holder, o.Until))
	}
	return s.String()
}

func (w *world) do(t *testing.T, line string) {
	cmd, a := parse(line)
	now, cpu := vtime.Time(a.num(t, "now", 0)), a.num(t, "cpu", 0)
	switch cmd {
	case "new":
		w.reset(t, a)
	case "xmit":
		for range a.num(t, "n", 1) {
			o := w.q.Xmit(now, cpu, w.packet(t, a))
			if o.Handoff || o.Dropped {
				fmt.Fprintf(&w.log, "  sent %d%s\n", o.Sent, words(o))
				continue
			}
			w.drive(now, o)
		}
	case "room":
		w.dev.room = a.num(t, "n", 0)
	case "restart":
		w.drive(now, w.q.Restart(now, cpu))
	case "watchdog":
		w.watchdog(vtime.Time(a.num(t, "until", 0)))
	case "fire":
		fmt.Fprintf(&w.log, "  %v\n", w.q.Fire(now))
	case "hold":
		w.q.Release(now)
	case "stats":
		fmt.Fprintf(&w.log, "  len %d %+v\n", w.q.Len(), w.q.Stats)
		fmt.Fprintf(&w.log, "  ops qdisc %d segment %d\n", w.ops[vcpu.OpQdisc], w.ops[vcpu.OpSegment])
	default:
		t.Fatalf("unknown command %q", line)
	}
}

// TestTranscripts runs the commands of every file in testdata: lines up to
// "----" are commands, the rest is what happened.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			script, want, _ := strings.Cut(string(text), "----\n")
			w := new(world)
			for line := range strings.Lines(script) {
				line = strings.TrimSpace(line)
				if line == "" || line[0] == '#' {
					continue
				}
				fmt.Fprintf(&w.log, "%s\n", line)
				w.do(t, line)
			}
			if *update {
				if err := os.WriteFile(name, []byte(script+"----\n"+w.log.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(want, w.log.String()); d != "" {
				t.Errorf("(-want +got; -update rewrites)\n%s", d)
			}
		})
	}
}
