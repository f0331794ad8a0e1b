package tcp_test

import (
	"slices"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/vcpu"
)

// TestPSH: since v5.4 every packet of several segments carries PSH; one of a
// single segment only if it ends what was written.
func TestPSH(t *testing.T) {
	for k, all := range map[string]bool{"4.17": false, "6.12": true} {
		w := newWorld(t, k)
		w.noAck = true
		w.open().write(100_000, 100_000)
		first := w.sent[0]
		if got := first.flags&skb.PSH != 0; got != all {
			t.Errorf("%s: PSH on %d segments: %v", k, first.segs, got)
		}
		w = newWorld(t, k, func(c *tcp.Config) { c.NoDelay, c.GSOMaxSegs = true, 1 })
		w.noAck = true
		w.open().write(1448+100, 1448+100)
		if len(w.sent) != 2 || w.sent[0].flags&skb.PSH != 0 || w.sent[1].flags&skb.PSH == 0 {
			t.Errorf("%s: %+v", k, w.sent)
		}
	}
}

// TestTSQ: two packets of the size of the next may be below TCP, or a millisecond's
// worth if that is more; the exception for a nearly empty retransmit queue lets
// the first ones pass.
func TestTSQ(t *testing.T) {
	for _, c := range []struct {
		kernel string
		rate   uint64
		want   int
	}{
		{"6.1", 50_000_000, 2}, {"6.12", 50_000_000, 2}, {"6.12", 140_000_000, 3}, {"5.18", 50_000_000, 2},
	} {
		w := newWorld(t, c.kernel, func(f *tcp.Config) {
			f.Sndbuf, f.MaxPacingRate = 1<<22, c.rate
		})
		w.noAck, w.napi, w.rtt = true, time.Second, 100*us
		w.open()
		w.s.SetCwnd(1000, 1<<30)
		w.write(1<<20, 1<<20)
		if len(w.sent) != c.want {
			t.Errorf("%s at %d B/s: %d packets below TCP, want %d", c.kernel, c.rate, len(w.sent), c.want)
		}
		if w.s.Info().Counters.Stops[tcp.StopTSQ] == 0 {
			t.Errorf("%s: TSQ did not stop the loop", c.kernel)
		}
		n := len(w.sent)
		w.run(1100 * ms) // completions wake the socket
		if len(w.sent) <= n || w.s.Info().Counters.TSQRuns == 0 {
			t.Errorf("%s: no packet after a completion", c.kernel)
		}
	}
}

// TestTSQFixed: before v3.12 the limit is 128 KB, and an orphaning driver never
// meets it.
func TestTSQFixed(t *testing.T) {
	big := func(c *tcp.Config) { c.Sndbuf = 1 << 22 }
	w := newWorld(t, "3.8", big)
	w.noAck, w.napi = true, time.Second
	w.open()
	w.s.SetCwnd(1000, 1<<30)
	w.write(1<<20, 1<<20)
	if a := w.s.Info().WmemAlloc; a < 131072 || a > 131072+70000 {
		t.Errorf("%d bytes below TCP, want 128 KB and the packet that passed them", a)
	}
	w = newWorld(t, "3.8", big)
	w.noAck = true
	w.open()
	w.s.SetCwnd(1000, 1<<30)
	w.write(1<<20, 1<<20)
	if n := w.s.Info().Counters.Stops[tcp.StopTSQ]; n != 0 {
		t.Errorf("TSQ stopped %d times although packets were orphaned", n)
	}
}

// TestAutocork: small writes wait for completions if the driver reports them,
// and never if it orphans.
func TestAutocork(t *testing.T) {
	for _, c := range []struct {
		kernel string
		napi   time.Duration
		corks  bool
	}{{"6.12", 0, false}, {"6.12", 50 * us, true}, {"3.14", 50 * us, true}, {"3.8", 50 * us, false}} {
		w := newWorld(t, c.kernel)
		w.napi = c.napi
		w.open()
		for range 100 {
			w.send(1024, 0)
			w.run(2 * us)
		}
		w.drain()
		if n := w.s.Info().Counters.Autocork; (n > 0) != c.corks {
			t.Errorf("%s with completions after %v: autocork %d times", c.kernel, c.napi, n)
		}
	}
}

// TestIdleHalving: the window halves for every timeout that passed idle, and the
// threshold stays infinite.
func TestIdleHalving(t *testing.T) {
	for idle, want := range map[time.Duration]uint32{980 * ms: 13, 280 * ms: 109} {
		w := newWorld(t, "6.1")
		w.rtt = 10 * ms
		w.open().write(1<<20, 65536).drain()
		w.s.SetCwnd(218, 0x7fffffff)
		last := w.sent[len(w.sent)-1].t
		w.pass(time.Duration(last-w.now) + idle)
		w.noAck = true
		w.write(1448, 1448)
		if got := w.s.Info(); got.Cwnd != want || got.Ssthresh != 0x7fffffff {
			t.Errorf("after %v: window %d, threshold %d, want %d", idle, got.Cwnd, got.Ssthresh, want)
		}
	}
}

// TestClockReads: a write on an open window reads the clock once, one that
// autocorking leaves alone not at all.
func TestClockReads(t *testing.T) {
	w := newWorld(t, "6.12")
	w.clockNs, w.noAck, w.napi = 256, true, time.Second
	w.open()
	reads := func() int64 {
		before := w.now
		w.send(1024, 0)
		return int64(w.now-before) / 256
	}
	if n := reads(); n != 1 {
		t.Errorf("first write: %d clock reads, want 1", n)
	}
	if n := reads(); n != 0 {
		t.Errorf("write left to a completion: %d clock reads, want 0", n)
	}
	w.sent = w.sent[:0]
	w.s.SetCwnd(200, 1<<30)
	before := w.now
	w.send(200_000, 0) // several full entries: one pass for each, and the push at the end
	if n := int64(w.now-before) / 256; n < 2 || n > 5 {
		t.Errorf("write of three entries: %d clock reads", n)
	}
}

// TestQuietClock: what a timer left to the process that uses the socket is done
// at the end of that use with softirqs off, where a reading costs nothing.
func TestQuietClock(t *testing.T) {
	c := &ticking{world: newWorld(t, "6.12")}
	k, _ := tcp.Release("6.12")
	cfg := k.Config()
	cfg.MaxPacingRate, cfg.Pacing = 1_000_000, tcp.PacingNeeded
	c.s, _ = tcp.NewSock(0, cfg, c, &c.pool)
	c.noAck, c.clockNs = true, 256
	c.open()
	c.s.SetCwnd(100, 100)
	c.send(60_000, 0)
	if c.s.Next() > c.now+vt(int64(time.Second)) {
		t.Fatal("not paced")
	}
	c.now = c.s.Next() + 1
	before, packets := c.now, c.packets
	c.due = true
	c.process = true
	c.s.Write(1, tcp.More)
	c.process = false
	if c.due || c.packets == packets || c.now-before != 256 {
		t.Errorf("timer ran %v, %d packets, %d ns of readings, want one", !c.due, c.packets-packets, c.now-before)
	}
}

// ticking is a world in which the pacing timer runs out during a write.
type ticking struct {
	*world
	due bool
}

func (c *ticking) Charge(op vcpu.Op, _ int64) {
	if c.due && op == vcpu.OpCopyByte {
		c.due = false
		c.s.Timer(c.now)
	}
}

// TestCwndFreeze: a paced flow whose packet takes longer than the round trip has
// one packet in flight, which ends slow start; half the window then fixes the
// size. Packets as a real 6.1 and 6.12 sent them, start included.
func TestCwndFreeze(t *testing.T) {
	for _, c := range []struct {
		kernel string
		rtt    time.Duration
		want   []int32 // segments, in turn
	}{
		{"6.1", 300 * us, []int32{16, 16, 13}}, {"6.12", 300 * us, []int32{10}},
		{"6.1", ms, []int32{30, 15}}, {"6.12", ms, []int32{18}},
	} {
		w := newWorld(t, c.kernel, func(f *tcp.Config) {
			f.HZ, f.MaxHdr, f.TruesizeOverhead = 100, 192, 0
			f.Sysctl.Wmem = [3]int64{4096, 65536, 32 << 20}
			f.MaxPacingRate, f.Pacing = 12_500_000, tcp.PacingNeeded
		})
		w.rtt, w.clockNs, w.first = c.rtt, 256, 65160
		w.wnd = func() uint32 { return min(6<<20, 65160+2*uint32(w.got)) }
		w.open().write(4_000_000, 65536).drain()
		var segs []int32
		for _, p := range w.sent[40 : len(w.sent)-5] {
			segs = append(segs, p.segs)
		}
		off := slices.Index(segs, c.want[0])
		if len(c.want) == 3 && off >= 0 && segs[off+1] != c.want[1] {
			off++
			for segs[off] != c.want[0] {
				off++
			}
		}
		for i := off; i < len(segs); i++ {
			if off < 0 || segs[i] != c.want[(i-off)%len(c.want)] {
				t.Fatalf("%s, round trip %v: %v, want %v in turn", c.kernel, c.rtt, segs, c.want)
			}
		}
	}
}
