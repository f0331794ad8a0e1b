package cc_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/vnetbench/vnetbench/guest/tcp/cc"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// bbrPath is a path of a bandwidth and a round trip, and BBR's view of it: the
// test says how many segments an ACK delivers and when.
type bbrPath struct {
	c      cc.RateController
	w      cc.Window
	s      cc.Sample
	segs   int64 // segments that the path delivers ...
	us     int64 // ... in so many µs
	rounds bool  // every ACK is the end of a round
}

// modernBBR is BBR of v5.1 and later in a UML build.
var modernBBR = cc.BBROptions{MaxHdr: 192, HeaderBytes: 52, GSORoom: 65343, GSOSegs: 65535,
	RTTStrict: true, IdleExit: true, EDT: true, PlusTwo: true, Aggregate: true}

func newPath(t testing.TB, o cc.BBROptions, bytesPerSec, rttUs int64) *bbrPath {
	c, err := cc.New("bbr", cc.Options{HZ: 100, BBR: o})
	if err != nil {
		t.Fatal(err)
	}
	p := &bbrPath{c: c.(cc.RateController), segs: bytesPerSec, us: 1448 * 1_000_000,
		w: cc.Window{Cwnd: 10, Clamp: 1 << 30, Pacing: 1<<64 - 1}}
	p.s = cc.Sample{Now: 1e9, Jiffies: 100, RTT: rttUs, SRTT: uint32(rttUs) * 8, RTTMin: uint32(rttUs), MSS: 1448,
		MaxPacing: 1<<64 - 1, DeliveredAll: 1}
	p.c.Init(&p.w, &p.s)
	return p
}

// ack delivers n segments, as fast as the path is.
func (p *bbrPath) ack(n uint32) {
	us := int64(n)*p.us/p.segs + 1
	p.s.Now += vtime.Time(us * 1000)
	p.s.Jiffies = uint32(p.s.Now / 1e7)
	p.s.DeliveredAll += uint64(n)
	p.s.DeliveredAt = int64(p.s.Now) / 1000
	p.s.Acked = n
	p.s.Rate = cc.RateSample{Delivered: p.segs, Interval: p.us}
	if p.rounds {
		p.s.Rate.PriorDelivered = p.s.DeliveredAll
	}
	p.s.PacingRate = p.w.Pacing
	p.c.OnRate(&p.w, &p.s)
}

func (p *bbrPath) model() cc.Model {
	p.s.PacingRate = p.w.Pacing
	return p.c.Model(&p.s)
}

// TestBBRInitialPacing: the rate before the first ACK, as a real kernel set it
// after a handshake of 10006 µs.
func TestBBRInitialPacing(t *testing.T) {
	p := newPath(t, modernBBR, 11_956_000, 10006)
	if p.w.Pacing != 4135649 || p.w.Ssthresh != cc.InfiniteSsthresh {
		t.Errorf("pacing %d, threshold %d", p.w.Pacing, p.w.Ssthresh)
	}
	old := modernBBR
	old.EDT = false // whole packets, and no margin
	if p = newPath(t, old, 11_956_000, 10006); p.w.Pacing != 4135649*1500/1448*100/99+1 {
		t.Errorf("before departure times: pacing %d, want 1500/1448/0.99 of it", p.w.Pacing)
	}
}

// TestBBRStartup: in STARTUP the window stops at its target, 102 segments at
// 10 Mbit/s and 40 ms in a real kernel.
func TestBBRStartup(t *testing.T) {
	p := newPath(t, modernBBR, 1_195_600, 40006)
	for range 300 {
		p.ack(1)
	}
	if m := p.model(); p.w.Cwnd != 102 || m.Mode != "startup" || m.BDP != 34 {
		t.Errorf("window %d, %+v", p.w.Cwnd, m)
	}
}

// TestBBRCycle: 100 Mbit/s and 10 ms. The threshold that DRAIN starts with, the
// windows and rates of the phases, and the packets that follow from them, as in
// a real kernel, where ACKs come 22 segments at a time.
func TestBBRCycle(t *testing.T) {
	o := modernBBR
	o.Phase = 1
	p := newPath(t, o, 11_956_000, 10006)
	p.rounds, p.s.InFlight, p.s.PriorFlight = true, 500, 500
	for range 20 {
		p.ack(22)
	}
	if m := p.model(); m.Mode != "drain" || p.w.Ssthresh != 152 || m.BDP != 83 || m.Goal != 2 {
		t.Fatalf("threshold %d, %+v", p.w.Ssthresh, m)
	}
	p.s.InFlight = 80
	p.ack(22)
	want := []struct {
		cwnd, segs uint32
		rate       uint64
	}{{218, 9, 14_795_454}, {204, 5, 8_877_272}, {210, 7, 11_836_363}}
	for i := range 40 {
		m := p.model()
		w := want[min(m.Phase, 2)]
		segs := uint32(p.w.Pacing >> 10 / 1448)
		if p.w.Cwnd != w.cwnd || segs != w.segs || p.w.Pacing != w.rate || m.Aggregation != 22 {
			t.Fatalf("ack %d: window %d, packets of %d segments at %d B/s, want %+v; %+v", i, p.w.Cwnd, segs, p.w.Pacing, w, m)
		}
		if p.ack(22); p.model().Phase != m.Phase && p.model().Phase != (m.Phase+1)%8 {
			t.Fatalf("ack %d: phase %d after %d", i, p.model().Phase, m.Phase)
		}
	}
	if m := p.model(); m.Phase == 0 || m.Mode != "probe_bw" {
		t.Errorf("%+v", m)
	}
}

// TestBBRPolicer: two lossy intervals of the same rate tell of a policer; its
// rate is then used for 48 rounds, without probing.
func TestBBRPolicer(t *testing.T) {
	p := newPath(t, modernBBR, 11_956_000, 10006)
	p.rounds, p.s.InFlight, p.s.PriorFlight = true, 10, 10
	for range 20 {
		p.ack(22)
	}
	p.segs = 5_978_000
	used, last := 0, false
	for range 120 {
		p.s.Losses, p.s.LostAll = 6, p.s.LostAll+6
		p.ack(22)
		m := p.model()
		if last = m.PacingGain == 256 && m.Bandwidth < 7_000_000; last {
			used++
		}
	}
	if used < 48 {
		t.Errorf("half the rate was used in %d rounds", used)
	}
}

// TestBBRRecovery: the first round of a recovery sends what is delivered, and
// its end brings the window back.
func TestBBRRecovery(t *testing.T) {
	p := newPath(t, modernBBR, 11_956_000, 10006)
	p.rounds, p.s.InFlight, p.s.PriorFlight = true, 100, 100
	for range 30 {
		p.ack(22)
	}
	before := p.w.Cwnd
	p.rounds = false
	p.c.Ssthresh(&p.w, &p.s)
	p.s.State, p.s.Losses, p.s.InFlight = cc.Recovery, 5, 60
	if p.ack(2); p.w.Cwnd != 62 {
		t.Errorf("window %d in recovery, want what is in flight and delivered", p.w.Cwnd)
	}
	p.s.State, p.s.Losses = cc.Open, 0
	if p.ack(2); p.w.Cwnd < before-20 {
		t.Errorf("window %d after recovery, %d before", p.w.Cwnd, before)
	}
	p.c.OnState(&p.w, &p.s, cc.Loss)
	p.s.State = cc.Loss
	p.w.Cwnd = 1
	if p.ack(2); p.w.Cwnd < 4 {
		t.Errorf("window %d after a timeout", p.w.Cwnd)
	}
}

// TestBBRRandom: no sequence of events moves window or rate out of its bounds.
func TestBBRRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bit := func(n string) bool { return rapid.Bool().Draw(rt, n) }
		o := cc.BBROptions{MaxHdr: 320, HeaderBytes: 52, GSORoom: rapid.Uint32().Draw(rt, "room"), GSOSegs: 64,
			StoredGoal: bit("goal"), GSOUnaware: bit("unaware"), RTTStrict: bit("strict"), IdleExit: bit("exit"),
			EDT: bit("edt"), PlusTwo: bit("two"), Aggregate: bit("aggregate"), Seed: 1}
		p := newPath(t, o, rapid.Int64Range(1000, 1e11).Draw(rt, "rate"), rapid.Int64Range(1, 1e6).Draw(rt, "rtt"))
		p.s.MaxPacing = rapid.Uint64Range(1000, 1<<40).Draw(rt, "max")
		p.w.Pacing = min(p.w.Pacing, p.s.MaxPacing)
		for range rapid.IntRange(1, 200).Draw(rt, "n") {
			p.rounds = bit("round")
			p.s.RTT = rapid.Int64Range(-1, 1e6).Draw(rt, "rtt")
			p.s.InFlight = rapid.Uint32Range(0, 1000).Draw(rt, "flight")
			p.s.PriorFlight, p.s.Ahead = p.s.InFlight, rapid.Int64Range(0, 1e5).Draw(rt, "ahead")
			p.s.Losses = rapid.Uint32Range(0, 3).Draw(rt, "losses")
			p.s.LostAll += uint64(p.s.Losses)
			p.s.State = cc.State(rapid.IntRange(0, 4).Draw(rt, "state"))
			p.s.Now += vtime.Time(rapid.SampledFrom([]int64{0, 1e6, 1e9}).Draw(rt, "pause"))
			switch rapid.IntRange(0, 9).Draw(rt, "event") {
			case 0:
				p.c.OnEvent(&p.w, &p.s, cc.TxStart)
			case 1:
				p.w.Ssthresh = p.c.Ssthresh(&p.w, &p.s)
				p.c.OnState(&p.w, &p.s, cc.Loss)
				p.w.Cwnd = 1
			default:
				p.ack(rapid.Uint32Range(0, 500).Draw(rt, "acked"))
			}
			m := p.model()
			if p.w.Cwnd < 1 || p.w.Cwnd > p.w.Clamp || p.w.Pacing > p.s.MaxPacing || m.Goal > 127 || m.Phase > 7 {
				rt.Fatalf("%+v, %+v", p.w, m)
			}
		}
	})
}
