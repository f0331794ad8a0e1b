package tcp_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/guest/tcp"
)

const us = time.Microsecond

// bigTCP is report 000's flow on a UML kernel: IPv6, MSS 4096, paced.
func bigTCP(rate uint64) func(*tcp.Config) {
	return func(c *tcp.Config) {
		c.IPv6, c.MSS, c.GSOMaxSize, c.MaxHdr, c.HZ = true, 4096, 181000, 192, 100
		c.TruesizeOverhead = 0
		c.MaxPacingRate, c.Pacing = rate, tcp.PacingNeeded
	}
}

// settled is the lengths of the packets after the start of the connection, in
// segments, without the last few.
func settled(w *world, mss int32) map[int32]int {
	h := map[int32]int{}
	for _, p := range w.sent[len(w.sent)/4 : len(w.sent)-3] {
		h[(p.len+mss-1)/mss]++
	}
	return h
}

// TestLock is S1 and S2: the era D kernel cuts 42 segments off every entry of 44
// and sends the other 2 alone; the era E kernel sends 42 throughout.
func TestLock(t *testing.T) {
	for _, c := range []struct {
		kernel string
		want   []int32
	}{{"6.1", []int32{172032, 8192}}, {"6.12", []int32{172032}}} {
		t.Run(c.kernel, func(t *testing.T) {
			w := newWorld(t, c.kernel, bigTCP(85_700_000)).open().write(30_000_000, 1<<20).drain()
			lens := w.lens()
			body := lens[len(lens)/4 : len(lens)-3]
			if c.want[0] != body[0] {
				body = body[1:]
			}
			for i, l := range body {
				if l != c.want[i%len(c.want)] {
					t.Fatalf("packet %d is %d bytes, want %v in turn: %v", i, l, c.want, body)
				}
			}
		})
	}
}

// TestGrowAlone: the one patch on the older kernel ends the lock.
func TestGrowAlone(t *testing.T) {
	w := newWorld(t, "6.1", bigTCP(85_700_000), func(c *tcp.Config) {
		if err := c.Switches.Set("tcp.grow", "on"); err != nil {
			t.Fatal(err)
		}
	}).open().write(30_000_000, 1<<20).drain()
	if h := settled(w, 4096); len(h) != 1 || h[42] == 0 {
		t.Errorf("segments per packet %v, want 42 only", h)
	}
}

// TestAutosizeBoundaries: the rates, round trips and device limits at which the
// packet size of real 6.1 and 6.12 kernels changes.
func TestAutosizeBoundaries(t *testing.T) {
	v6 := func(mss, gso uint32) func(*tcp.Config) {
		return func(c *tcp.Config) { c.IPv6, c.MSS, c.GSOMaxSize, c.MaxHdr = true, mss, gso, 192 }
	}
	v4 := func(c *tcp.Config) { c.MaxHdr = 320 }
	for _, c := range []struct {
		mod  func(*tcp.Config)
		rate uint64
		rtt  uint32
		want uint32
	}{
		{v6(4096, 181000), 83588095, 1000, 41}, {v6(4096, 181000), 83588096, 1000, 42},
		{v6(4096, 181000), 87782399, 1000, 42}, {v6(4096, 181000), 87782400, 1000, 43},
		{v6(1428, 65536), 49089535, 2800, 34}, {v6(1428, 65536), 49089536, 2800, 35},
		{v6(1428, 65536), 50551807, 2800, 35}, {v6(1428, 65536), 50551808, 2800, 36},
		{v6(4096, 181000), 85700000, 1023, 42}, {v6(4096, 181000), 85700000, 1024, 31},
		{v4, 12_500_000, 40000, 8}, {v4, 12_500_000, 1000, 30}, {v4, 12_500_000, 300, 45},
		{v4, 125_000_000, 40000, 45}, {v4, 125_000, 40000, 2}, {v4, tcp.Unlimited, 1 << 30, 45},
	} {
		for _, k := range []string{"6.1", "6.12"} {
			w := newWorld(t, k, c.mod).open()
			w.s.SetRate(c.rate, c.rtt)
			if got := w.s.Info().TSOSegs; got != c.want {
				t.Errorf("%s: %d segments at %d B/s and %d µs, want %d", k, got, c.rate, c.rtt, c.want)
			}
		}
	}
	for gso, want := range map[uint32]uint32{61633: 15, 61632: 14} {
		w := newWorld(t, "6.1", v6(4096, gso)).open()
		w.s.SetRate(tcp.Unlimited, 100)
		if got := w.s.Info().TSOSegs; got != want {
			t.Errorf("gso_max_size %d: %d segments, want %d", gso, got, want)
		}
	}
}

// TestAutosizeOld is the formula before the round trip term, and before
// autosizing.
func TestAutosizeOld(t *testing.T) {
	for _, c := range []struct {
		kernel string
		rate   uint64
		want   uint32
	}{
		{"5.0", 12_500_000, 8}, {"4.1", 12_500_000, 8}, {"4.17", 125_000_000, 45}, {"4.16", 1000, 2}, {"3.14", 1000, 0},
	} {
		w := newWorld(t, c.kernel).open()
		w.s.SetRate(c.rate, 1000)
		if got := w.s.Info().TSOSegs; got != c.want {
			t.Errorf("%s at %d B/s: %d segments, want %d", c.kernel, c.rate, got, c.want)
		}
	}
}

// TestGSOOff is what report 003 ran into: with gso_max_segs 1 packets are one
// segment, and the goal before the clamp wraps around.
func TestGSOOff(t *testing.T) {
	for _, k := range []string{"4.15", "4.16", "3.8", "4.17"} {
		w := newWorld(t, k, func(c *tcp.Config) { c.CanGSO = false }).open()
		w.s.SetRate(216_600_000, 15)
		w.write(1<<20, 65536).drain()
		longest := slices.Max(w.lens())
		if want := map[string]int32{"4.17": 65160}[k]; want == 0 && longest != 1448 {
			t.Errorf("%s without GSO: packet of %d bytes", k, longest)
		} else if want != 0 && longest <= 1448 {
			t.Errorf("%s segments in software, but the longest packet is %d bytes", k, longest)
		}
	}
}

// TestInitialBurst is the first window: cut in half since v3.19, and smaller
// still where autosizing is (corrections a of the specification).
func TestInitialBurst(t *testing.T) {
	for _, c := range []struct {
		kernel string
		rtt    time.Duration
		want   []int32 // segments
	}{
		{"3.8", ms, []int32{10}}, {"3.12", ms, []int32{10}}, {"6.1", ms, []int32{5, 5}}, {"6.12", ms, []int32{5, 5}},
		{"6.1", 5 * ms, []int32{3, 3, 3, 1}}, {"6.12", 10 * ms, []int32{2, 2, 2, 2, 2}},
	} {
		w := newWorld(t, c.kernel)
		w.rtt, w.noAck = c.rtt, true
		w.open().write(100_000, 100_000)
		var segs []int32
		for _, p := range w.sent {
			segs = append(segs, p.segs)
		}
		if d := cmp.Diff(c.want, segs); d != "" {
			t.Errorf("%s, %v: %s", c.kernel, c.rtt, d)
		}
	}
}

// TestHalfWindow: no packet takes more than half the window.
func TestHalfWindow(t *testing.T) {
	for cwnd, want := range map[uint32]int32{20: 10, 32: 16, 37: 18, 2: 1, 3: 1} {
		for _, k := range []string{"4.1", "6.1", "6.12"} {
			w := newWorld(t, k, func(c *tcp.Config) { c.Sndbuf = 1 << 22 })
			w.noAck, w.rtt = true, 100*us
			w.open()
			w.s.SetCwnd(cwnd, cwnd)
			w.write(1<<17, 1<<17)
			if got := w.sent[0].segs; got != want {
				t.Errorf("%s, window %d: first packet of %d segments, want %d", k, cwnd, got, want)
			}
		}
	}
}

// TestOpenWindow2013 is mechanism b of report 002: small writes on an open window
// leave as packets of one segment, because the cut drops what is shorter.
func TestOpenWindow2013(t *testing.T) {
	w := newWorld(t, "3.8")
	w.noAck = true
	w.open()
	w.s.SetCwnd(10000, 1<<30)
	want := [][]int32{{1024}, nil, {1448}, {1448}, nil, {1448}, {1448}, nil, {1448}}
	for i := range want {
		w.send(1024, 0)
		if d := cmp.Diff(want[i], w.lens()); d != "" {
			t.Fatalf("write %d: %s", i, d)
		}
	}
	for range 3000 {
		w.send(1024, 0)
	}
	for _, l := range w.lens() {
		if l != 1448 {
			t.Fatalf("packet of %d bytes", l)
		}
	}
}

// TestKeepTail: before v3.14 a cut always drops the rest shorter than a segment;
// since then it goes along where Nagle has nothing against it.
func TestKeepTail(t *testing.T) {
	for k, want := range map[string][]int32{"3.8": {1448, 552}, "3.12": {1448, 552}, "3.14": {2000}, "6.12": {2000}} {
		w := newWorld(t, k).open()
		w.send(2000, 0)
		if d := cmp.Diff(want, w.lens()); d != "" {
			t.Errorf("%s: %s", k, d)
		}
	}
}

// TestClosedWindow2013 is mechanism c: writes pile up behind a full window to
// the size goal of 45 segments, and leave whole when it opens.
func TestClosedWindow2013(t *testing.T) {
	w := newWorld(t, "3.8", func(c *tcp.Config) { c.Sndbuf = 1 << 22 })
	w.noAck = true
	w.open()
	w.s.SetCwnd(200, 100)
	for range 1000 {
		w.send(1024, 0)
	}
	w.sent = w.sent[:0]
	_, nxt, _, _ := w.s.Seqs()
	w.ack(nxt)
	l := w.lens()
	if len(l) < 4 || l[0] != 65160 || l[1] != 65160 || l[2] != 65160 {
		t.Errorf("lengths %v, want 65160 thrice at first", l)
	}
}

// TestRemedies2013 is mechanism e: with both changes of report 002 small writes
// on an open window wait for the full size.
func TestRemedies2013(t *testing.T) {
	run := func(mods ...func(*tcp.Config)) map[int32]int {
		w := newWorld(t, "3.8", append(mods, func(c *tcp.Config) { c.Sndbuf = 1 << 22 })...)
		w.noAck, w.rtt = true, 100*us
		w.open()
		w.s.SetCwnd(10000, 1<<30)
		h := map[int32]int{}
		for range 2000 {
			w.send(1024, 0)
			w.pass(2 * us)
		}
		for _, l := range w.lens() {
			h[l]++
		}
		return h
	}
	full := func(c *tcp.Config) { _ = c.Switches.Set("defer_full_size_test", "off") }
	if h := run(); h[1448] < 1000 {
		t.Errorf("without a remedy: %v", h)
	}
	if h := run(full, sysctl("tcp_tso_win_divisor", "1")); h[65160] < 25 || h[1448] > 2 {
		t.Errorf("with both: %v", h)
	}
}

// TestDeferETA is D6: a packet waits only if the next ACK is due within half a
// round trip, and a millisecond at most.
func TestDeferETA(t *testing.T) {
	for _, c := range []struct {
		rtt, due time.Duration
		waits    bool
	}{
		{1200 * us, 550 * us, true}, {1200 * us, 650 * us, false},
		{600 * us, 250 * us, true}, {600 * us, 350 * us, false},
		{5 * ms, 900 * us, true}, {5 * ms, 1100 * us, false},
		{20 * ms, 900 * us, true}, {20 * ms, 1100 * us, false},
	} {
		for _, k := range []string{"6.1", "6.12", "6.18"} {
			w := newWorld(t, k, func(c *tcp.Config) { c.NoDelay = true })
			w.rtt, w.noAck = c.rtt, true
			w.open()
			w.s.SetRate(1<<40, uint32(c.rtt.Microseconds())) // autosizing does not interfere
			for range 6 {
				w.send(1448, 0)
			}
			w.run(c.rtt - c.due - min(100*us, c.rtt-c.due))
			w.send(1448, 0) // the last transmission is recent
			w.run(min(100*us, c.rtt-c.due))
			w.sent = w.sent[:0]
			w.send(3*1448, 0)
			if got := len(w.sent) == 0; got != c.waits {
				t.Errorf("%s, round trip %v, ACK due in %v: waits %v, want %v", k, c.rtt, c.due, got, c.waits)
			}
			if n := w.s.Info().Counters.Stops[tcp.StopDefer]; (n > 0) != c.waits {
				t.Errorf("%s: deferred %d times", k, n)
			}
		}
	}
}

// TestDeferStale: nothing waits if the last transmission is more than 1 ms old.
func TestDeferStale(t *testing.T) {
	w := newWorld(t, "6.12", func(c *tcp.Config) { c.NoDelay = true })
	w.rtt, w.noAck = 20*ms, true
	w.open()
	w.s.SetRate(1<<40, 20000)
	for range 7 {
		w.send(1448, 0)
	}
	w.run(19100 * us) // the ACK is due in 0.9 ms
	w.sent = w.sent[:0]
	w.send(3*1448, 0)
	if len(w.sent) == 0 {
		t.Error("deferred")
	}
}

// TestEDT: with departure times packets are payload/rate apart, exactly; after
// idle time the first gap is half.
func TestEDT(t *testing.T) {
	w := newWorld(t, "6.12", func(c *tcp.Config) {
		c.IPv6, c.MSS, c.MaxHdr = true, 1428, 192
		c.MaxPacingRate, c.Pacing = 50_000_000, tcp.PacingFQ
	})
	w.rtt = 2800 * us
	w.open().write(10_000_000, 65536).drain()
	p := w.sent[len(w.sent)/2 : len(w.sent)-3]
	for i := 1; i < len(p); i++ {
		if d := p[i].t - p[i-1].t; p[i].len != 49980 || d != 999600 {
			t.Fatalf("%d bytes after %d ns, want 49980 after 999600", p[i].len, d)
		}
	}
	w.sent = w.sent[:0]
	w.run(50 * ms)
	w.noAck = true
	w.write(3*37128, 3*37128)
	if d := w.sent[1].t - w.sent[0].t; d != vt(int64(w.sent[0].len)*20/2) {
		t.Errorf("first gap after idle %d ns for %d bytes, want half of %d", d, w.sent[0].len, w.sent[0].len*20)
	}
}

// TestCapLock35 is the report's second capture: 35 segments of 1428 in era E, and
// 35 and 10 in turn in era D.
func TestCapLock35(t *testing.T) {
	for k, want := range map[string][]int32{"6.1": {35, 10}, "6.12": {35}} {
		w := newWorld(t, k, func(c *tcp.Config) {
			c.IPv6, c.MSS, c.MaxHdr = true, 1428, 192
			c.MaxPacingRate, c.Pacing = 50_000_000, tcp.PacingNeeded
		})
		w.rtt = 2800 * us
		w.open().write(20_000_000, 65536).drain()
		h := settled(w, 1428)
		if len(h) != len(want) || h[want[0]] == 0 || h[want[len(want)-1]] == 0 {
			t.Errorf("%s: segments per packet %v, want %v", k, h, want)
		}
	}
}
