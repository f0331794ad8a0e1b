package cc_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/guest/tcp/cc"
)

// TestDCTCPAlpha: the average of the share of marked segments moves by a
// sixteenth per round trip, and half of it comes off the window.
func TestDCTCPAlpha(t *testing.T) {
	c := modern(t, "dctcp").(cc.DeliveryController)
	w := cc.Window{Cwnd: 100, Ssthresh: cc.InfiniteSsthresh, Clamp: 1 << 30}
	s := cc.Sample{ECN: true, SndNxt: 1000, DeliveredAll: 1}
	c.Init(&w, &s)
	round := func(delivered, marked uint64) uint32 {
		s.SndUna, s.SndNxt = s.SndNxt, s.SndNxt+1000
		s.DeliveredAll += delivered
		s.MarkedAll += marked
		c.OnDelivered(&w, &s)
		return c.Ssthresh(&w, &s)
	}
	for i, st := range []struct {
		delivered, marked uint64
		want              uint32
	}{
		{100, 100, 50}, // all marked, as assumed at the start: alpha 1024
		{100, 0, 54},   // 960
		{100, 0, 57},   // 900
		{100, 50, 58},  // 844 + 32
		{0, 0, 60},     // nothing delivered: 822
	} {
		if got := round(st.delivered, st.marked); got != st.want {
			t.Errorf("round %d: threshold %d, want %d", i, got, st.want)
		}
	}
	for range 200 {
		round(100, 0)
	}
	if got := c.Ssthresh(&w, &s); got != 100 {
		t.Errorf("threshold %d after 200 round trips without marks", got)
	}
	s.State = cc.Disorder
	if c.OnState(&w, &s, cc.Recovery); w.Ssthresh != 50 {
		t.Errorf("threshold %d after a loss", w.Ssthresh)
	}
	w.Cwnd = 30
	if got := c.Undo(&w, &s); got != 100 {
		t.Errorf("window %d after the loss was a mistake", got)
	}
}
