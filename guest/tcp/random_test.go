package tcp_test

import (
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/tcp/cc"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// scene is a drawn scenario; build makes a world of it, always the same.
type scene struct {
	kernel  string
	cfg     func(*tcp.Config)
	rtt     time.Duration
	window  uint32
	napi    time.Duration
	rate    int64
	clockNs int64
	loss    float64
	refuse  float64
	seed    uint64
	total   int
	write   int
	segs    bool // losses and acknowledgements are per segment
	noSack  bool
	preempt bool
	every   int
	dsack   bool
	stamps  bool
	jitter  float64 // share of packets that others overtake
	windows bool    // the receiver's window varies, down to nothing
	mss     uint32
}

// drawScene draws a whole scenario: kernel, switches, link, losses, writer.
func drawScene(t *rapid.T) scene {
	c := scene{
		kernel:  rapid.SampledFrom(tcp.Releases()).Draw(t, "kernel"),
		rtt:     time.Duration(rapid.Int64Range(10_000, 50_000_000).Draw(t, "rtt")),
		napi:    time.Duration(rapid.SampledFrom([]int64{0, 0, 5_000, 300_000}).Draw(t, "napi")),
		rate:    rapid.SampledFrom([]int64{0, 1_000_000, 125_000_000}).Draw(t, "wire"),
		clockNs: rapid.SampledFrom([]int64{0, 256}).Draw(t, "clock"),
		loss:    rapid.SampledFrom([]float64{0, 0, 0.01, 0.1}).Draw(t, "loss"),
		refuse:  rapid.SampledFrom([]float64{0, 0, 0.02}).Draw(t, "refuse"),
		seed:    rapid.Uint64().Draw(t, "seed"),
		total:   rapid.IntRange(1, 400_000).Draw(t, "total"),
		write:   rapid.IntRange(1, 100_000).Draw(t, "write"),
		segs:    rapid.Bool().Draw(t, "wire segments"),
		noSack:  rapid.Float64().Draw(t, "nosack") < 0.2,
		preempt: rapid.Bool().Draw(t, "preempt"),
		dsack:   rapid.Bool().Draw(t, "dsack"),
		stamps:  rapid.Bool().Draw(t, "stamps"),
		jitter:  rapid.SampledFrom([]float64{0, 0, 0.05}).Draw(t, "jitter"),
		every:   rapid.IntRange(0, 5).Draw(t, "ack every"),
		windows: rapid.Float64().Draw(t, "windows") < 0.3,
		mss:     rapid.Uint32Range(100, 9000).Draw(t, "mss"),
	}
	mss := c.mss
	c.window = rapid.Uint32Range(10*mss, 4<<20).Draw(t, "window")
	c.cfg = drawConfig(t, mss)
	return c
}

func drawConfig(t *rapid.T, mss uint32) func(*tcp.Config) {
	alg := rapid.SampledFrom(cc.Names()).Draw(t, "cc")
	hz := rapid.SampledFrom([]uint32{100, 250, 300, 1000}).Draw(t, "hz")
	v6, nodelay := rapid.Bool().Draw(t, "ipv6"), rapid.Bool().Draw(t, "nodelay")
	gso := rapid.Float64().Draw(t, "gso") < 0.8
	segs := rapid.SampledFrom([]uint32{65535, 64, 2}).Draw(t, "segs")
	pacing := rapid.SampledFrom([]tcp.Pacing{tcp.PacingNone, tcp.PacingNeeded, tcp.PacingFQ}).Draw(t, "pacing")
	rate := rapid.SampledFrom([]uint64{0, 100_000, 5_000_000, 1 << 30}).Draw(t, "rate")
	iss := rapid.SampledFrom([]uint32{1, 0xffff_fff0, 0x7fff_0000}).Draw(t, "iss")
	type toggle struct{ name, value string }
	var toggles []toggle
	for range rapid.IntRange(0, 3).Draw(t, "toggles") {
		name := rapid.SampledFrom(tcp.SwitchNames()).Draw(t, "switch")
		toggles = append(toggles, toggle{name, rapid.SampledFrom(tcp.SwitchValues(name)).Draw(t, "value")})
	}
	return func(c *tcp.Config) {
		c.CC, c.MSS, c.HZ, c.IPv6, c.NoDelay = alg, mss, hz, v6, nodelay
		c.CanGSO, c.GSOMaxSegs, c.Pacing, c.MaxPacingRate, c.ISS = gso, segs, pacing, rate, iss
		for _, g := range toggles {
			if err := c.Switches.Set(g.name, g.value); err != nil {
				t.Fatal(err)
			}
		}
		c.Switches.BBR = c.Switches.BBR || alg == "bbr" // older kernels cannot do it, the model can
	}
}

func (c *scene) build(tb testing.TB) *world {
	w := newWorld(tb, c.kernel, c.cfg)
	w.rtt, w.window, w.napi, w.rate, w.clockNs = c.rtt, c.window, c.napi, c.rate, vt(c.clockNs)
	r := rand.New(rand.NewPCG(c.seed, 1))
	w.lose = func(int, *skb.SKB) bool { return r.Float64() < c.loss }
	w.refuse = func(int) bool { return r.Float64() < c.refuse }
	w.loseAck = func() bool { return r.Float64() < c.loss }
	w.late = func() vtime.Time {
		if r.Float64() >= c.jitter {
			return 0
		}
		return vtime.Time(r.Float64() * float64(c.rtt) * 2)
	}
	w.dsack, w.stamps = c.dsack, c.stamps
	w.noSack, w.preempt, w.ackEvery = c.noSack, c.preempt, c.every
	if c.segs {
		w.mss = int32(c.mss)
	}
	if c.windows {
		w.wnd = func() uint32 { return uint32(max(0, r.Float64()*1.3-0.3) * float64(c.window)) }
	}
	return w
}

// check looks at the invariants between two events.
func (w *world) check(t *rapid.T) {
	una, nxt, write, end := w.s.Seqs()
	unsent, unacked := w.s.Lists()
	at := una
	for i, r := range unacked {
		if r.Start != at && (i > 0 || int32(r.Start-at) > 0) {
			t.Fatalf("hole in the retransmit queue: %v, left edge %d", unacked, una)
		}
		at = r.End
	}
	if len(unacked) > 0 && at != nxt {
		t.Fatalf("retransmit queue ends at %d, sent up to %d", at, nxt)
	}
	at = nxt
	for _, r := range unsent {
		if r.Start != at {
			t.Fatalf("hole in the write queue: %v, sent up to %d", unsent, nxt)
		}
		at = r.End
	}
	if at != write {
		t.Fatalf("queues end at %d, written up to %d", at, write)
	}
	if int32(nxt-end) > 1 { // a FIN may stand beyond the window by one
		t.Fatalf("sent up to %d, window ends at %d", nxt, end)
	}
	o1, s1, l1, r1, m1 := w.s.Counts()
	o2, s2, l2, r2, m2 := w.s.CountSegs()
	if o1 != o2 || (s1 != s2 && !w.noSack) || l1 != l2 || r1 != r2 || m1 != m2 {
		t.Fatalf("counts %d %d %d %d %d, recounted %d %d %d %d %d", o1, s1, l1, r1, m1, o2, s2, l2, r2, m2)
	}
}

// play runs a world to its end with a FIN, checking now and then, and returns a
// hash of what was sent.
func play(t *rapid.T, w *world, total, size int) uint64 {
	w.open()
	w.write(total, size)
	for i := 0; i < 20000 && w.writer > 0; i++ {
		w.run(max(w.rtt/2, 50*time.Microsecond))
		w.check(t)
		if i > 200 {
			w.run(100 * time.Millisecond)
		}
	}
	w.s.Close()
	w.softirq()
	for i := 0; i < 5000 && !w.s.Done(); i++ {
		w.run(time.Second)
		w.check(t)
	}
	if !w.s.Done() {
		t.Fatalf("not done after %v: %+v", w.now, w.s.Info())
	}
	w.run(time.Second)
	if w.got != int64(total)+1 {
		t.Fatalf("receiver has %d bytes and FIN, want %d", w.got, total+1)
	}
	if w.pool.Live != 0 {
		t.Fatalf("%d packets not freed", w.pool.Live)
	}
	i := w.s.Info()
	if i.WmemQueued != 0 || i.WmemAlloc != 0 || i.InFlight != 0 {
		t.Fatalf("left over: %+v", i)
	}
	h := fnv.New64a()
	for _, p := range w.sent {
		if p.fragSz != int64(p.len) {
			t.Fatalf("packet of %d bytes has %d bytes of payload runs", p.len, p.fragSz)
		}
		var b [24]byte
		put := func(o int, v uint64) {
			for k := range 8 {
				b[o+k] = byte(v >> (8 * k))
			}
		}
		put(0, uint64(p.t))
		put(8, uint64(p.seq))
		put(16, uint64(p.len))
		_, _ = h.Write(b[:])
	}
	return h.Sum64()
}

// TestRandomWorlds: whatever the kernel, the switches, the link and the writer,
// every byte arrives once, the queues have no holes, the scoreboard adds up, and
// nothing is left over; and the same world twice sends the same packets at the
// same times.
func TestRandomWorlds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawScene(rt)
		a := play(rt, c.build(t), c.total, c.write)
		if b := play(rt, c.build(t), c.total, c.write); a != b {
			rt.Fatalf("hash %x, then %x", a, b)
		}
	})
}
