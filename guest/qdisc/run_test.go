package qdisc_test

import (
	"errors"
	"testing"

	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"pgregory.net/rapid"
)

// TestEveryPacketIsSentOrDropped sends from two CPUs through a driver that
// stops and wakes, and counts.
func TestEveryPacketIsSentOrDropped(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := new(world)
		dev := &fakeDev{room: 3, bulk: 4000}
		w.q = qdisc.New(dev, &w.ops, &w.pool, qdisc.Config{
			Kind:  rapid.SampledFrom([]qdisc.Kind{qdisc.PFIFOFast, qdisc.NoQueue}).Draw(rt, "kind"),
			Limit: 5, Quota: 2,
			Bulk:     rapid.Bool().Draw(rt, "bulk"),
			SoftGSO:  rapid.Bool().Draw(rt, "soft gso"),
			NoBypass: rapid.Bool().Draw(rt, "no bypass"),
		})
		now, given := vtime.Time(0), 0
		var drive func(o qdisc.Outcome)
		drive = func(o qdisc.Outcome) {
			for o.More {
				now++
				o = w.q.Run(now)
			}
			w.q.Release(now)
			if o.Resched {
				drive(w.q.Restart(now, 0))
			}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now++
			switch rapid.IntRange(0, 3).Draw(rt, "action") {
			case 0:
				dev.room = rapid.IntRange(0, 6).Draw(rt, "room")
				drive(w.q.Restart(now, 0))
			case 1: // a CPU that comes while the other is inside
				w.q.Release(now + 10)
				given++
				w.q.Xmit(now, 1, w.packet(t, args{}))
				now += 10
			default:
				given++
				drive(w.q.Xmit(now, 0, w.packet(t, args{"segs": "2"})))
			}
		}
		for w.q.Len() > 0 {
			now += 20
			dev.room = 10
			drive(w.q.Restart(now, 0))
		}
		s := w.q.Stats
		sent := int(s.Packets) - int(s.Segmented) // each cut packet makes two
		if sent+int(s.Dropped) != given || w.pool.Live != 0 || int(w.ops[vcpu.OpQdisc]) != given {
			rt.Fatalf("given %d, %d live, %+v, counted %d", given, w.pool.Live, s, w.ops[vcpu.OpQdisc])
		}
	})
}

func TestKindNames(t *testing.T) {
	for _, name := range []string{"pfifo_fast", "noqueue"} {
		if k, err := qdisc.ParseKind(name); err != nil || k.String() != name {
			t.Errorf("%s: %v, %v", name, k, err)
		}
	}
	if _, err := qdisc.ParseKind("red"); !errors.Is(err, qdisc.ErrUnknownKind) {
		t.Error(err)
	}
}

// once sends one packet of two segments through an idle queue.
func once(w *world, cut bool) {
	p := w.pool.Get()
	p.Len, p.Segs, p.GSOSize, p.HdrLen = 2896, 2, 1448, 66
	if !cut {
		p.Segs = 1
	}
	p.NFrags, p.Frags[0] = 1, skb.Frag{Len: 2896}
	for o := w.q.Xmit(1, 0, p); o.More; {
		o = w.q.Run(1)
	}
	w.q.Release(1)
}

func newIdle() *world {
	w := new(world)
	w.q = qdisc.New(&fakeDev{room: 1 << 40}, &w.ops, &w.pool, qdisc.Config{Bulk: true, SoftGSO: true})
	return w
}

func TestPacketsAllocateNothing(t *testing.T) {
	w := newIdle()
	once(w, true)
	if n := testing.AllocsPerRun(200, func() { once(w, false); once(w, true) }); n != 0 {
		t.Fatalf("%v allocations per packet", n)
	}
}

// BenchmarkSimQdisc is the cost of a packet that bypasses an empty queue.
func BenchmarkSimQdisc(b *testing.B) {
	w := newIdle()
	b.ReportAllocs()
	for b.Loop() {
		once(w, false)
	}
}
