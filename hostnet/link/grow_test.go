package link_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/hostnet/link"
)

// A packet that takes much more memory than its payload makes the window grow, and
// is acknowledged at once for that, only while the window is small
// (__tcp_grow_window, v6.1).
func TestWastefulPacketsStopGrowing(t *testing.T) {
	for _, c := range []struct {
		buffer uint32 // half of it is the window, but for the start
		n      int32
		acked  bool
	}{
		{8 << 20, 1448, true}, // its fragment is twice its payload
		{8 << 20, 200, true},  // 640 to 200 of payload: below 4 MiB
		{8 << 20, 136, false}, // below 2 MiB only
		{4 << 20, 136, true},
	} {
		r, err := link.NewReceiver(link.ReceiverConfig{
			ISS: 1, WindowScale: 10, InitialWindow: 65160, Process: true,
			Buffer: link.BufferConfig{Size: c.buffer, Max: 32 << 20},
		})
		if err != nil {
			t.Fatal(err)
		}
		seq := uint32(1)
		give := func(n int32) bool {
			s := link.Segment{Seq: seq, Len: n, TrueSize: 1280}
			if n > 572 {
				s.TrueSize, s.HeadSize, s.Frags = 2816, 1280, 1
			}
			seq += uint32(n)
			before := r.Stats.Acks
			r.Receive(0, &s)
			return r.Stats.Acks > before
		}
		read := func() {
			r.Lock()
			for r.Take() {
				r.Eat(0)
			}
			r.CleanUp(0)
			r.Unlock()
		}
		for r.Stats.Packets < 20 || windowOf(r) < c.buffer/2-200_000 && r.Stats.Packets < 10_000 {
			give(1448)
			read()
		}
		grown := windowOf(r)
		for range 40 { // uses up what is left of quick acknowledgements, unless it grows
			give(c.n)
			read()
		}
		if got := windowOf(r) > grown; got != c.acked {
			t.Errorf("buffer %d, packets of %d bytes: the window grew from %d to %d, want growth: %v", c.buffer, c.n, grown, windowOf(r), c.acked)
		}
	}
}

// windowOf is the window of the last acknowledgement.
func windowOf(r *link.Receiver) (w uint32) {
	var a link.Ack
	for r.Pop(&a) {
		lastWindow[r] = a.Wnd
	}
	return lastWindow[r]
}

var lastWindow = map[*link.Receiver]uint32{}
