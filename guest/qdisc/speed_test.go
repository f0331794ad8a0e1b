package qdisc_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// speedSpecs are the disciplines whose cost is measured, on 64 flows that send
// 78 Gbit/s together, in packets of ten segments.
var speedSpecs = []string{
	"pfifo_fast", "fq", "fq:maxrate=2G", "fq_codel", "tbf:rate=100G,burst=71680,limit=20971520",
	"netem:delay=1ms,rate=100G,limit=100000",
}

// load is a steady stream through a discipline.
type load struct {
	d    qdisc.Disc
	pool skb.Pool
	now  vtime.Time
	seq  uint32
	sent int
}

func newLoad(tb testing.TB, text string) *load {
	l := &load{now: 1}
	d, err := qdisc.NewDisc(mustParse(tb, text).For(6, 12), nil, &l.pool)
	if err != nil {
		tb.Fatal(err)
	}
	l.d = d
	for range 20_000 {
		l.packet()
	}
	return l
}

// packet puts one in, whose time is within 50 µs for fq, and lets go what may.
func (l *load) packet() {
	l.now += 1562
	l.seq++
	p := l.pool.Get()
	p.Len, p.Segs, p.GSOSize, p.HdrLen, p.TrueSize = 14480, 10, 1448, 66, 15000
	p.Flow, p.Hash = int32(l.seq%64), l.seq%64*67108864
	p.Tstamp = l.now + vtime.Time(l.seq%7)*7000
	l.d.Enqueue(l.now, p)
	for at := l.d.Next(); at <= l.now; at = l.d.Next() {
		l.take(at)
	}
	l.take(l.now)
}

func (l *load) take(now vtime.Time) {
	for p, ok := l.d.Dequeue(now); ok; p, ok = l.d.Dequeue(now) {
		l.sent++
		p.Free()
	}
}

func TestDisciplinesAllocateNothing(t *testing.T) {
	for _, text := range speedSpecs {
		l := newLoad(t, text)
		if n := testing.AllocsPerRun(5000, l.packet); n != 0 {
			t.Errorf("%s: %v allocations per packet", text, n)
		}
		if l.sent < 20_000 {
			t.Errorf("%s: %d packets left of %d", text, l.sent, l.seq)
		}
	}
}

// BenchmarkDisc is the cost of a packet that goes through a discipline.
func BenchmarkDisc(b *testing.B) {
	for _, text := range speedSpecs {
		b.Run(text, func(b *testing.B) {
			l := newLoad(b, text)
			b.ReportAllocs()
			for b.Loop() {
				l.packet()
			}
		})
	}
}
