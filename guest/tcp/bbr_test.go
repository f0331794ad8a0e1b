package tcp_test

import (
	"errors"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/guest/tcp"
)

// gsoOff is report 003's flow: BBR without tso and gso, MSS 1448, a round trip
// of 15 µs. A packet takes at least period, for the timer and the stack.
func gsoOff(t *testing.T, unaware string, period time.Duration, mods ...func(*tcp.Config)) *world {
	mods = append([]func(*tcp.Config){func(c *tcp.Config) {
		c.CC, c.CanGSO, c.HZ = "bbr", false, 1000
		if err := c.Switches.Set("tcp.bbr_gso_unaware", unaware); err != nil {
			t.Fatal(err)
		}
	}}, mods...)
	w := newWorld(t, "4.15", mods...)
	w.rtt, w.period = 15*us, vt(int64(period))
	return w.open().write(40_000_000, 65536).run(300 * ms)
}

// TestReport003: the window settles at 6 segments before the patch and at 386
// after it, and stays between 384 and 388 when the costs vary by a fifth. The
// periods are the report's, 691 and 1733 Mbit/s of payload.
func TestReport003(t *testing.T) {
	const before, after = 16_800 * time.Nanosecond, 6_680 * time.Nanosecond
	for _, c := range []struct {
		unaware string
		period  time.Duration
		lo, hi  uint32
	}{
		{"off", before, 6, 6}, {"on", after, 386, 386},
		{"on", after * 8 / 10, 384, 388}, {"on", after * 12 / 10, 384, 388},
		{"off", before * 8 / 10, 6, 6}, {"off", before * 12 / 10, 6, 6},
	} {
		w := gsoOff(t, c.unaware, c.period)
		i := w.s.Info()
		if i.Cwnd < c.lo || i.Cwnd > c.hi || i.Model.Mode != "probe_bw" {
			t.Errorf("bbr_gso_unaware=%s, %v per packet: window %d, want %d to %d; %+v", c.unaware, c.period, i.Cwnd, c.lo, c.hi, i.Model)
		}
		if i.MinRTTUs != 15 || i.Counters.Segs != i.Counters.Packets {
			t.Errorf("round trip %d µs, %d packets of %d segments", i.MinRTTUs, i.Counters.Packets, i.Counters.Segs)
		}
		// one packet in flight at a time is delivered in a round trip, not in a period
		bw := 1448 * 1e9 / float64(min(c.period, 15*us).Nanoseconds())
		if got := float64(i.Model.Bandwidth); got < bw*0.98 || got > bw*1.1 {
			t.Errorf("bandwidth %v, want %v", got, bw)
		}
	}
}

// TestReport003TwoSegments: the report's other device, which takes two segments
// at most. Packets have two before and after, and the window has room for them,
// or for what the rate alone would fill.
func TestReport003TwoSegments(t *testing.T) {
	two := func(c *tcp.Config) { c.CanGSO, c.GSOMaxSegs = true, 2 }
	for unaware, goal := range map[string]uint32{"off": 2, "on": 45} {
		w := gsoOff(t, unaware, 6680*time.Nanosecond, two)
		i := w.s.Info()
		if want := i.Model.BDP*2 + 3*goal; i.Model.Goal != goal || i.Cwnd < want-3 || i.Cwnd > want+2 {
			t.Errorf("bbr_gso_unaware=%s: window %d, goal %d, want %d and %d", unaware, i.Cwnd, i.Model.Goal, want, goal)
		}
		for _, p := range w.sent[len(w.sent)/2 : len(w.sent)-2] {
			if p.segs > 2 {
				t.Fatalf("bbr_gso_unaware=%s: a packet of %d segments", unaware, p.segs)
			}
		}
	}
}

// TestBBRPath: on a path of 100 Mbit/s and 10 ms BBR finds bandwidth and round
// trip, paces by TCP's own timer, and sends packets of 9, 5 and 7 segments in
// the phases of its cycle.
func TestBBRPath(t *testing.T) {
	for _, k := range []string{"6.1", "6.12"} {
		w := newWorld(t, k, func(c *tcp.Config) { c.CC, c.HZ, c.MaxHdr, c.BBRPhase = "bbr", 100, 192, 1 })
		w.rtt, w.rate = 10*ms, 11_956_000
		w.open().write(60_000_000, 65536).run(500 * ms)
		w.sent = w.sent[:0]
		seen := map[int32]int{}
		for range 400 {
			w.run(ms)
			m := w.s.Info().Model
			if m.Mode != "probe_bw" || m.Bandwidth < 11_900_000 || m.Bandwidth > 12_200_000 || m.MinRTTUs > 11_000 {
				t.Fatalf("%s: %+v", k, m)
			}
		}
		for _, p := range w.sent {
			seen[p.segs]++
		}
		if seen[9] < 20 || seen[5] < 20 || seen[7] < 200 {
			t.Errorf("%s: packets by segments %v", k, seen)
		}
	}
}

// TestBBRProbeRTT: after ten seconds without a lower round trip the window is
// four segments for 200 ms, and then what it was.
func TestBBRProbeRTT(t *testing.T) {
	w := newWorld(t, "6.12", func(c *tcp.Config) { c.CC, c.HZ = "bbr", 1000 })
	w.rtt, w.rate, w.quiet = 20*ms, 1_250_000, true
	w.open().write(30_000_000, 65536)
	var start, low time.Duration
	before := uint32(0)
	for at := time.Duration(0); at < 12*time.Second; at += 5 * ms {
		w.run(5 * ms)
		i := w.s.Info()
		switch {
		case i.Model.Mode == "probe_rtt":
			if start == 0 {
				start = at
			}
			if i.Cwnd == 4 {
				low += 5 * ms
			}
		case start == 0:
			before = i.Cwnd
		case i.Cwnd < before-8 || i.Cwnd > before+8:
			t.Fatalf("after %v: window %d, before %d", at, i.Cwnd, before)
		}
	}
	if start < 10*time.Second || low < 200*ms || low > 280*ms {
		t.Errorf("started at %v, low for %v", start, low)
	}
}

// TestBBRPhases: each of the seven phases that the cycle can start in is chosen
// by configuration, and the seed chooses one of them.
func TestBBRPhases(t *testing.T) {
	start := func(phase uint8, seed uint64) uint8 {
		w := newWorld(t, "6.12", func(c *tcp.Config) { c.CC, c.BBRPhase, c.Seed = "bbr", phase, seed })
		w.rtt, w.rate = 10*ms, 11_956_000
		w.open().write(60_000_000, 65536)
		for range 10_000 {
			if w.run(100 * us); w.s.Info().Model.Mode == "probe_bw" {
				return w.s.Info().Model.Phase
			}
		}
		t.Fatal("no cycle")
		return 0
	}
	for p, want := range []uint8{1: 0, 2: 7, 3: 6, 4: 5, 5: 4, 6: 3, 7: 2} {
		if p > 0 && start(uint8(p), 0) != want {
			t.Errorf("BBRPhase %d does not start in phase %d", p, want)
		}
	}
	seen := map[uint8]bool{}
	for seed := range uint64(20) {
		p := start(0, seed)
		if p != start(0, seed) || p == 1 {
			t.Errorf("seed %d: phase %d", seed, p)
		}
		seen[p] = true
	}
	if len(seen) < 4 {
		t.Errorf("20 seeds start in phases %v", seen)
	}
}

// TestBBRRelease: kernels before v4.9 have no BBR.
func TestBBRRelease(t *testing.T) {
	for _, name := range tcp.Releases() {
		k, _ := tcp.Release(name)
		c := k.Config()
		c.CC = "bbr"
		if err := c.Validate(); errors.Is(err, tcp.ErrConfig) == k.Switches.BBR {
			t.Errorf("%s: %v", name, err)
		}
	}
}
