package link_test

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// newProcess is a receiver whose composer reads, with a buffer of 6 MiB.
func newProcess(t *testing.T, major, minor int) *link.Receiver {
	t.Helper()
	rules, _ := link.RulesOf(major, minor)
	r, err := link.NewReceiver(link.ReceiverConfig{
		ISS: 1, InitialWindow: 65160, WindowScale: 10, Rules: rules, Process: true,
		Buffer: link.BufferConfig{Size: 6 << 20, Measured: major*1000+minor >= 6006},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// gso is a packet of so many segments of 1448 bytes.
func gso(seq uint32, segs int32) *link.Segment {
	n := segs * 1448
	return &link.Segment{Seq: seq, Len: n, MSS: 1448, PSH: true, TSVal: 1, TrueSize: n + 832, Frags: 1}
}

// pops returns the acknowledgements that wait.
func pops(r *link.Receiver) (acks []link.Ack) {
	var a link.Ack
	for r.Pop(&a) {
		acks = append(acks, a)
	}
	return acks
}

// What comes while a process reads is merged in the backlog, and answered when it
// is processed: by one acknowledgement, which v6.7 puts off to the callback.
func TestBacklogOfARead(t *testing.T) {
	for _, minor := range []int{1, 12} {
		r := newProcess(t, 6, minor)
		now := vtime.Time(time.Millisecond)
		r.Receive(now, gso(1, 2))
		if n := len(pops(r)); n != 1 || !r.Readable() {
			t.Fatalf("6.%d: %d acknowledgements of the first packet, readable %v", minor, n, r.Readable())
		}
		r.Lock()
		for r.Take() {
			r.Eat(0)
		}
		r.Receive(now, gso(2897, 3))
		r.Receive(now, gso(2897+4344, 3))
		if !r.Backlogged() || len(pops(r)) != 0 {
			t.Fatalf("6.%d: packets during a read did not wait", minor)
		}
		r.Backlog(now)
		inBacklog := pops(r)
		if r.Backlogged() {
			t.Errorf("6.%d: two packets in a row did not become one", minor)
		}
		r.Callback(now)
		after := pops(r)
		if want := map[int][2]int{1: {1, 0}, 12: {0, 1}}[minor]; len(inBacklog) != want[0] || len(after) != want[1] {
			t.Errorf("6.%d: %d acknowledgements from the backlog and %d from the callback, want %v", minor, len(inBacklog), len(after), want)
		}
		for _, a := range append(inBacklog, after...) {
			if a.Ack != 2897+2*4344 {
				t.Errorf("6.%d: acknowledges %d", minor, a.Ack)
			}
		}
		r.Unlock()
	}
}

// A packet that comes while the backlog is processed is not merged with it.
func TestSplicedBacklog(t *testing.T) {
	r := newProcess(t, 6, 1)
	r.Lock()
	r.Receive(0, gso(1, 2))
	r.Backlog(0) // it is taken, and merged with nothing any more
	r.Receive(0, gso(2897, 2))
	r.Receive(0, gso(2897+2896, 2))
	n := 0
	for ; r.Backlogged(); n++ {
		r.Backlog(0)
	}
	if n != 1 || r.Expected() != 1+3*2896 {
		t.Errorf("%d steps until %d", n, r.Expected())
	}
}

// The window follows the buffer. Up to v6.5 half of it is payload and the window
// starts at what the handshake offered; since v6.6 the share is that of the first
// packet: 198/256 of 6 MiB, seen in a real 6.12.117 as a window clamp of 4866048.
func TestBufferWindow(t *testing.T) {
	for _, c := range []struct {
		minor       int
		first, last uint32
	}{
		{1, 70 << 10, 3071 << 10}, // 65160 and twice the packet, rounded up; 3 MiB less a segment
		{12, 3077 << 10, 4750 << 10},
	} {
		r := newProcess(t, 6, c.minor)
		var wnds []uint32
		seq := uint32(1)
		for range 600 {
			r.Receive(0, gso(seq, 2))
			seq += 2896
			for _, a := range pops(r) {
				wnds = append(wnds, a.Wnd)
			}
			r.Lock()
			for r.Take() {
				r.Eat(0)
			}
			r.CleanUp(0)
			r.Unlock()
		}
		if first, last := wnds[0], wnds[len(wnds)-1]; first != c.first || last != c.last {
			t.Errorf("6.%d: window from %d to %d KiB, want %d to %d", c.minor, first>>10, last>>10, c.first>>10, c.last>>10)
		}
	}
}

// A buffer that fills up without being read closes the window and ends quick
// acknowledgements; the window never shrinks.
func TestBufferFull(t *testing.T) {
	r := newProcess(t, 6, 1)
	seq, edge := uint32(1), uint32(0)
	for range 200 {
		r.Receive(0, gso(seq, 40))
		seq += 40 * 1448
		for _, a := range pops(r) {
			if int32(a.Ack+a.Wnd-edge) < 0 {
				t.Fatalf("the right edge went back from %d to %d", edge, a.Ack+a.Wnd)
			}
			edge = a.Ack + a.Wnd
		}
	}
	if used := r.Expected() - 1; used > 6<<20 || r.Stats.Overrun == 0 {
		t.Errorf("%d bytes fit in a buffer of 6 MiB, %d packets were refused", used, r.Stats.Overrun)
	}
}

// Packets ahead of a gap are answered at once as long as acknowledgements are
// quick, also after the third; then they are put off by a twentieth of the round
// trip and the timer's slack (seen in a real 6.1.192).
func TestDuplicateAcksPutOff(t *testing.T) {
	r := newProcess(t, 6, 1)
	r.SetRTT(10 * time.Millisecond)
	r.Receive(0, gso(1, 2))
	pops(r)
	seq, quick := uint32(1+2*2896), 0
	for ; ; quick++ {
		at := vtime.Time(quick) * vtime.Time(time.Microsecond)
		r.Receive(at, &link.Segment{Seq: seq, Len: 100, TSVal: 1, TrueSize: 868})
		seq += 100
		if len(pops(r)) > 0 {
			continue
		}
		if d := r.Next().Sub(at); d != 600*time.Microsecond {
			t.Errorf("it waits %v, want a twentieth of 10 ms and 100 us", d)
		}
		break
	}
	if quick < 16 {
		t.Errorf("only %d duplicate acknowledgements went at once, want the 16 quick ones and 3", quick)
	}
}
