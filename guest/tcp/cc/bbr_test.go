package cc_test

import (
	"testing"

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
