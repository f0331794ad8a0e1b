package driver_test

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/guest/driver"
	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio"
	"pgregory.net/rapid"
)

// TestNoPacketIsLostOrForgotten runs a driver behind its qdisc against a device
// that takes, completes and sleeps at random, and interrupts it as it asks. What
// is sent must arrive, in order, and every buffer must come back. A device that
// sleeps without a kick, or a queue that stays stopped, would end the run short.
func TestNoPacketIsLostOrForgotten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(driver.Releases()).Draw(rt, "release")
		cfg := release(t, name)
		cfg.NAPI = cfg.Switches.HasNAPI && rapid.Bool().Draw(rt, "napi")
		cfg.RingSize = 32
		if rapid.Bool().Draw(rt, "no indirect") {
			cfg.Features = driver.DefaultFeatures &^ virtio.FeatureIndirectDesc
		}
		if rapid.Bool().Draw(rt, "no event idx") {
			cfg.Features = (driver.DefaultFeatures | cfg.Features) &^ virtio.FeatureEventIdx
		}
		c := newCourse(newWorld(t, cfg), cfg.Switches.XmitMore)
		n := rapid.IntRange(1, 150).Draw(rt, "packets")
		for range n {
			c.send(int32(rapid.IntRange(1, 3).Draw(rt, "segs")))
			c.device(rapid.IntRange(0, 6).Draw(rt, "take"), rapid.IntRange(0, 6).Draw(rt, "complete"))
			c.softirq(rapid.Bool().Draw(rt, "poll"))
		}
		for range 4*n + 20 {
			c.device(4, 4)
			c.softirq(true)
		}
		c.check(rt, uint64(n))
	})
}

// course is a world with a qdisc and pending events.
type course struct {
	*world
	q       *qdisc.TxQ
	asleep  bool // the device waits for a kick
	poll    bool // a TX poll is scheduled
	wake    bool // the transmit softirq is raised
	arrived uint64
	bytes   uint64
	seqs    []uint32 // as the device saw them
}

func newCourse(w *world, bulk bool) *course {
	return &course{world: w, asleep: true, q: qdisc.New(w.tx, &w.ops, &w.pool, qdisc.Config{Bulk: bulk})}
}

func (c *course) send(segs int32) { c.drive(c.q.Xmit(c.now, 0, c.packet(segs))) }

// drive does what a composer does with outcomes.
func (c *course) drive(o qdisc.Outcome) {
	for {
		c.asleep = c.asleep && !o.Kick
		c.poll = c.poll || o.Poll
		if !o.More {
			break
		}
		o = c.q.Run(c.now)
	}
	c.q.Release(c.now)
	c.wake = c.wake || o.Resched
}

// device runs the device, if it is awake: it takes and completes packets, calls
// the guest, and sleeps if it finds the ring empty.
func (c *course) device(take, complete int) {
	c.now = c.now.Add(time.Microsecond)
	if !c.asleep {
		for range take {
			if c.take(1) == 0 {
				c.asleep = !c.dtx.EnableKicks()
				break
			}
			c.arrived++
			c.bytes += uint64(c.chain.OutLen) - virtio.NetHdrLen
			hdr := c.got[0][virtio.NetHdrLen:]
			if len(c.got[0]) == virtio.NetHdrLen {
				hdr = c.got[1]
			}
			c.seqs = append(c.seqs, uint32(hdr[38])<<24|uint32(hdr[39])<<16|uint32(hdr[40])<<8|uint32(hdr[41]))
		}
	}
	if _, calls := c.complete(complete); calls > 0 {
		e := c.tx.Interrupt()
		c.poll, c.wake = c.poll || e.Poll, c.wake || e.Wake
	}
}

// softirq runs what was raised.
func (c *course) softirq(poll bool) {
	if c.poll && poll {
		e := c.tx.Poll(c.now)
		c.poll, c.wake = e.Poll, c.wake || e.Wake
	}
	if c.wake {
		c.wake = false
		c.drive(c.q.Restart(c.now, 0))
	}
}

func (c *course) check(t *rapid.T, n uint64) {
	if c.arrived != n || c.q.Len() != 0 || c.q.Stats.Packets != n || c.bytes != c.q.Stats.Bytes {
		t.Fatalf("sent %d, arrived %d with %d bytes, %d left, stats %+v", n, c.arrived, c.bytes, c.q.Len(), c.q.Stats)
	}
	for i := 1; i < len(c.seqs); i++ {
		if c.seqs[i] <= c.seqs[i-1] {
			t.Fatalf("sequence %d after %d", c.seqs[i], c.seqs[i-1])
		}
	}
	if got := c.tx.Stats.Packets + uint64(c.tx.Outstanding()); got != n || c.tx.Err() != nil {
		t.Fatalf("reaped and outstanding %d of %d: %+v, error %v", got, n, c.tx.Stats, c.tx.Err())
	}
	if c.pool.Live != c.tx.Outstanding() {
		t.Fatalf("%d buffers live, %d in the ring", c.pool.Live, c.tx.Outstanding())
	}
	if c.ops[vcpu.OpDriverXmit] != int64(n) || c.ops[vcpu.OpTxFree] != int64(c.tx.Stats.Packets) {
		t.Fatalf("work counted: %v", c.ops)
	}
}

// TestNetHeader checks what the device is told about a packet.
func TestNetHeader(t *testing.T) {
	for _, c := range []struct {
		name string
		segs int32
		cwr  bool
		want virtio.NetHdr
	}{
		{"one segment", 1, false, virtio.NetHdr{Flags: 1, CSumStart: 34, CSumOffset: 16}},
		{"GSO", 3, false, virtio.NetHdr{Flags: 1, GSOType: virtio.GSOTCPv4, GSOSize: 1448, HdrLen: 66, CSumStart: 34, CSumOffset: 16}},
		{"GSO with CWR", 3, true, virtio.NetHdr{Flags: 1, GSOType: virtio.GSOTCPv4 | virtio.GSOECN, GSOSize: 1448, HdrLen: 66, CSumStart: 34, CSumOffset: 16}},
	} {
		w := newWorld(t, release(t, "6.12"))
		p := w.packet(c.segs)
		if c.cwr {
			p.Flags |= skb.CWR
		}
		w.tx.Xmit(0, p, false)
		w.take(1)
		var h virtio.NetHdr
		if !h.Decode(w.got[0][:virtio.NetHdrLen]) || h != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, h, c.want)
		}
	}
}

// TestFullRingDropsInsteadOfPanicking sends past the stop, which a qdisc does
// not do.
func TestFullRingDropsInsteadOfPanicking(t *testing.T) {
	cfg := release(t, "6.1")
	cfg.RingSize = 32
	w := newWorld(t, cfg)
	for range 40 {
		w.tx.Xmit(0, w.packet(1), false)
	}
	if w.tx.Stats.Drops != 8 || w.pool.Live != 32 || w.freed != 40 {
		t.Fatalf("stats %+v, %d live, %d freed", w.tx.Stats, w.pool.Live, w.freed)
	}
}

// TestDeviceThatBreaksTheRingIsReported completes a packet that is not out.
func TestDeviceThatBreaksTheRingIsReported(t *testing.T) {
	w := newWorld(t, release(t, "6.1"))
	w.tx.Xmit(0, w.packet(1), false)
	w.take(1)
	w.dtx.Push(77, 0)
	w.dtx.Publish()
	w.tx.Xmit(0, w.packet(1), false)
	if w.tx.Err() == nil {
		t.Fatal("no error")
	}
}

// step is one packet through driver, ring and device and back.
func (w *world) step(p *skb.SKB) {
	hdr, frags, n := p.HdrLen, p.NFrags, p.Len
	w.tx.Xmit(w.now, p, false)
	ok, err := w.dtx.Next(&w.chain)
	if !ok || err != nil {
		w.t.Fatal("the device got nothing", err)
	}
	w.dtx.Push(w.chain.Head, 0)
	w.dtx.Publish()
	if need, _ := w.dtx.NeedCall(); need {
		w.tx.Interrupt()
		w.tx.Poll(w.now)
	}
	p.HdrLen, p.NFrags, p.Len = hdr, frags, n
}

func TestPacketsAllocateNothing(t *testing.T) {
	for _, napi := range []bool{false, true} {
		cfg := release(t, "6.1")
		cfg.NAPI = napi
		w := newWorld(t, cfg)
		for _, segs := range []int32{1, 45} {
			next := w.generator(segs)
			for range 600 {
				w.step(next())
			}
			if n := testing.AllocsPerRun(500, func() { w.step(next()) }); n != 0 {
				t.Errorf("napi %v, %d segments: %v allocations per packet", napi, segs, n)
			}
		}
	}
}

// generator returns a maker of equal packets that costs little itself.
func (w *world) generator(segs int32) func() *skb.SKB {
	like := *w.packet(segs)
	return func() *skb.SKB {
		p := w.pool.Get()
		p.Len, p.Segs, p.GSOSize, p.HdrLen, p.NFrags = like.Len, like.Segs, like.GSOSize, like.HdrLen, like.NFrags
		p.Hdr, p.Frags = like.Hdr, like.Frags
		return p
	}
}

// BenchmarkDriverXmit is a packet of one segment through driver, ring and device
// and back, with an interrupt and a poll in napi mode.
func BenchmarkDriverXmit(b *testing.B) {
	for _, c := range []struct {
		name string
		napi bool
		segs int32
	}{{"orphan", false, 1}, {"napi", true, 1}, {"orphan64K", false, 45}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := release(b, "6.1")
			cfg.NAPI = c.napi
			w := newWorld(b, cfg)
			next := w.generator(c.segs)
			b.ReportAllocs()
			for b.Loop() {
				w.step(next())
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packets/s")
		})
	}
}
