package link_test

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// newTuned is the receiver of a kernel with the default limits, after a handshake at
// 10.006 ms.
func newTuned(t *testing.T, major, minor int) *link.Receiver {
	t.Helper()
	rules, _ := link.RulesOf(major, minor)
	r, err := link.NewReceiver(link.ReceiverConfig{
		ISS: 1, InitialWindow: 65160, WindowScale: 7, Rules: rules, Process: true,
		Buffer: link.BufferConfig{Size: 131072, Max: 6 << 20, Measured: major*1000+minor >= 6006},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Established(10_006_000)
	r.SetRTT(10006 * time.Microsecond)
	return r
}

// page is a packet of n bytes in segments of 1448, in buffers of a page-fragment
// driver.
func page(seq uint32, n int32, echo uint32) *link.Segment {
	s := &link.Segment{Seq: seq, Len: n, PSH: true, TSVal: 1, TSEcr: echo, HeadSize: 1280, Frags: 1}
	if n > 1448 {
		s.MSS = 1448
	}
	s.TrueSize = 1280 + (n+78+1535)/1536*1536
	return s
}

// readAll is a program's read of all there is.
func readAll(r *link.Receiver, now vtime.Time) {
	r.Lock()
	for r.Take() {
		r.Eat(now)
	}
	r.CleanUp(now)
	r.Unlock()
}

// What a real 6.1.192 offered to a sender that starts slowly over
// 100 Mbit/s and 10 ms: the time of a packet's arrival after the SYN's, what it
// brought, and the window of its acknowledgement.
func TestTunedWindow(t *testing.T) {
	type step struct {
		us   int64
		n    int32
		wnd  uint32
		echo uint32
		hole int32 // at the end of the page that its last buffer is in
	}
	steps := []step{
		{15276, 2896, 63360, 5, 0}, {15522, 2896, 63360, 5, 0}, {15768, 2896, 63360, 5, 0}, {16014, 2896, 63360, 5, 0}, {16261, 2896, 63360, 5, 0},
		{25534, 2896, 63360, 15, 0}, {25780, 2896, 69888, 15, 0}, {26026, 2896, 75776, 15, 0}, {26272, 2896, 81408, 15, 0}, {26642, 4344, 80384, 15, 512},
		{27011, 4344, 80640, 16, 0}, {27380, 4344, 80640, 16, 0}, {27503, 1448, 82176, 16, 0}, {27749, 2896, 81408, 16, 0},
		{36038, 5792, 79872, 25, 0}, {36531, 5792, 93824, 25, 0}, {37023, 5792, 105344, 26, 0}, {37638, 7240, 119808, 26, 0}, {38253, 7240, 134272, 27, 0},
		{38991, 8688, 151680, 27, 0},
	}
	r := newTuned(t, 6, 1)
	seq := uint32(1)
	for i, s := range steps {
		now := vtime.Time(s.us) * 1000
		p := page(seq, s.n, s.echo)
		p.TrueSize += s.hole
		r.Receive(now, p)
		seq += uint32(s.n)
		acks := pops(r)
		if len(acks) != 1 || acks[0].Wnd != s.wnd {
			t.Errorf("packet %d: %+v, want a window of %d", i, acks, s.wnd)
		}
		readAll(r, now+256)
		if n := len(pops(r)); n != 0 {
			t.Errorf("packet %d: %d acknowledgements of the read", i, n)
		}
	}
}

// Packets ahead of a gap take memory, and lose their heads when they become one: the
// window gets smaller by that. When the gap is filled and all was read, nothing is
// left of it.
func TestHeldPacketsTakeMemory(t *testing.T) {
	r := newTuned(t, 6, 1)
	now := vtime.Time(20_000_000)
	r.Receive(now, page(1, 2896, 10))
	readAll(r, now)
	free := pops(r)[0].Wnd
	for i := range uint32(30) {
		r.Receive(now, page(1+2896+1448*(1+i), 1448, 10))
	}
	acks := pops(r)
	r.Receive(now, page(1+2896, 1448, 10))
	fill := pops(r)
	if len(fill) != 1 || fill[0].Ack != 1+2896+31*1448 || fill[0].NSacks != 0 {
		t.Fatalf("the gap is filled: %+v", fill)
	}
	// All is one packet and a second one, since 17 fragments fit: two heads of 1280
	// and 31 fragments of 1536.
	if w, most := fill[0].Wnd, uint32((131072-2*1280-31*1536)/2); w > (most+127)&^127 || w+1280 < most {
		t.Errorf("window %d with %d of memory left for payload, %d before", w, most, free)
	}
	if n := len(acks); n < 16 || n == 30 {
		t.Errorf("%d acknowledgements of 30 packets ahead of a gap, want the quick ones and not all", n)
	}
	readAll(r, now)
	r.Receive(now, page(r.Expected(), 2896, 10))
	if a := pops(r); len(a) != 1 || a[0].Wnd < free {
		t.Errorf("after all was read: %+v, want a window of %d at least", a, free)
	}
}

// A third block ends what was put off: the acknowledgement goes as things were before
// (seen in a real 6.1.192).
func TestThirdBlockIsNotPutOff(t *testing.T) {
	w := steady(t, link.ReceiverConfig{Rules: link.AckRules{CompressSACK: true}})
	for _, i := range []uint32{2, 4, 5, 6, 7} {
		w.data(i*1000, 1000)
	}
	w.acks = nil
	w.data(9000, 1000)
	if len(w.acks) != 1 || w.acks[0].NSacks != 2 || w.acks[0].Sacks[0] != (link.Range{Start: 4000, End: 8000}) {
		t.Errorf("%+v", w.acks)
	}
	w.acks = nil
	w.data(11000, 1000)
	w.data(10000, 1000)
	w.until(w.now + 2*ms)
	if len(w.acks) == 0 {
		t.Fatal("what was put off did not go")
	}
	want := [link.MaxSACK]link.Range{{9000, 12000}, {4000, 8000}, {2000, 3000}}
	if a := w.acks[len(w.acks)-1]; a.NSacks != 3 || a.Sacks != want {
		t.Errorf("%+v", a)
	}
}
