package netdev_test

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// ackWorld is a world whose policy thins ACKs, with flow 0 well under way.
type ackWorld struct {
	*world
	ack frame.Seq
	ts  uint32
}

const thinFor = 100 * time.Microsecond

func newACKWorld(t *testing.T) *ackWorld {
	w := &ackWorld{world: newWorld(t, setup{cfg: netdev.Config{Policy: netdev.Policy{ThinTime: thinFor}}}), ack: 1000, ts: 5}
	w.offer(0, 200, 2000)
	for range 8 {
		w.give(w.next(0))
	}
	if got := len(w.take()); got != 8 {
		t.Fatalf("of the first 8 ACKs of a flow %d came at once", got)
	}
	return w
}

// next is an ACK of the flow that acknowledges 1448 bytes more.
func (w *ackWorld) next(flow int) frame.TCPSpec {
	w.ack += 1448
	s := toGuest(flow, 0)
	s.Flags, s.Seq, s.Ack, s.TSVal, s.Window = frame.TCPAck, 1, w.ack, w.ts, 500
	return s
}

// give delivers a frame without a turn of the worker's.
func (w *ackWorld) give(s frame.TCPSpec) { w.giveFrame(build(s)) }

func (w *ackWorld) giveFrame(f []byte) {
	w.t.Helper()
	if d := w.dev.Pair(0).RX.Deliver(w.now, &virtio.NetHdr{Flags: virtio.HdrDataValid}, f); d != netdev.DropNone {
		w.t.Fatal(d)
	}
}

// take polls and returns the acknowledgements of the frames that the guest got.
func (w *ackWorld) take() (acks []frame.Seq) {
	w.t.Helper()
	w.pollRX(0)
	for _, r := range w.receive(0) {
		var in frame.Info
		frame.Parse(r.frame, &in)
		acks = append(acks, in.Ack)
	}
	return acks
}

func (w *ackWorld) expect(what string, want ...frame.Seq) {
	w.t.Helper()
	got := w.take()
	if len(got) != len(want) {
		w.t.Fatalf("%s: the guest got ACKs %v, want %v", what, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			w.t.Fatalf("%s: the guest got ACKs %v, want %v", what, got, want)
		}
	}
}

// Plain ACKs wait until the time of the first is over, and the newest of the flow
// is delivered then, with its timestamp.
func TestThinACKs(t *testing.T) {
	w := newACKWorld(t)
	start := w.now
	for range 5 {
		w.ts++
		w.give(w.next(0))
		w.now += 10000
		w.expect("before the time")
	}
	rx := w.dev.Pair(0).RX
	if at := rx.Next(w.now); at != start.Add(thinFor) || rx.Held() != 1 {
		t.Fatalf("deadline %v for %d ACKs, want %v for 1", at, rx.Held(), start.Add(thinFor))
	}
	w.now = start.Add(thinFor)
	w.pollRX(0)
	all := w.receive(0)
	if len(all) != 1 {
		t.Fatalf("the guest got %d frames, want the newest ACK", len(all))
	}
	var in frame.Info
	frame.Parse(all[0].frame, &in)
	var o frame.Options
	frame.ParseOptions(frame.TCP(all[0].frame[in.L4:in.Payload]).Options(), &o)
	if in.Ack != w.ack || o.TSVal != w.ts {
		t.Errorf("the guest got ACK %d with timestamp %d, want %d with %d", in.Ack, o.TSVal, w.ack, w.ts)
	}
	if s := rx.Snapshot(); s.Thinned != 4 || rx.Held() != 0 || rx.Next(w.now) != vtime.Never {
		t.Errorf("thinned %d, held %d, next %v", s.Thinned, rx.Held(), rx.Next(w.now))
	}
}

// What says more than an acknowledgement goes at once, and takes the waiting one
// along, before it.
func TestThinACKsNews(t *testing.T) {
	for name, change := range map[string]func(*frame.TCPSpec){
		"data":           func(s *frame.TCPSpec) { s.Payload = []byte{1} },
		"SACK":           func(s *frame.TCPSpec) { s.SACK = []frame.SACKBlock{{Start: 90000, End: 91000}} },
		"closed window":  func(s *frame.TCPSpec) { s.Window = 0 },
		"ECE":            func(s *frame.TCPSpec) { s.Flags |= frame.TCPEce },
		"CWR":            func(s *frame.TCPSpec) { s.Flags |= frame.TCPCwr },
		"PSH":            func(s *frame.TCPSpec) { s.Flags |= frame.TCPPsh },
		"URG":            func(s *frame.TCPSpec) { s.Flags |= frame.TCPUrg },
		"FIN":            func(s *frame.TCPSpec) { s.Flags |= frame.TCPFin },
		"RST":            func(s *frame.TCPSpec) { s.Flags |= frame.TCPRst },
		"SYN":            func(s *frame.TCPSpec) { s.Flags |= frame.TCPSyn },
		"duplicate":      func(s *frame.TCPSpec) { s.Ack -= 1448 },
		"older":          func(s *frame.TCPSpec) { s.Ack -= 3 * 1448 },
		"window update":  func(s *frame.TCPSpec) { s.Ack -= 1448; s.Window = 900 },
		"no timestamp":   func(s *frame.TCPSpec) { s.Timestamps = false },
		"time goes back": func(s *frame.TCPSpec) { s.TSVal -= 2 },
		"unknown option": func(s *frame.TCPSpec) { s.MSS = 1460 },
	} {
		w := newACKWorld(t)
		first := w.next(0)
		w.give(first)
		w.expect(name + ": one ACK")
		news := w.next(0)
		change(&news)
		w.give(news)
		w.expect(name, first.Ack, news.Ack)
		if n := w.dev.Pair(0).RX.Held(); n != 0 {
			t.Errorf("%s: %d ACKs are held", name, n)
		}
	}
}

// After a window was closed, or ECN bits were set, the first ACK without goes at
// once: it changes something.
func TestThinACKsChangeBack(t *testing.T) {
	for name, change := range map[string]func(*frame.TCPSpec){
		"window opens": func(s *frame.TCPSpec) { s.Window = 0 },
		"ECE ends":     func(s *frame.TCPSpec) { s.Flags |= frame.TCPEce },
	} {
		w := newACKWorld(t)
		news := w.next(0)
		change(&news)
		w.give(news)
		w.expect(name, news.Ack)
		back := w.next(0)
		w.give(back)
		w.expect(name, back.Ack)
		w.give(w.next(0))
		w.expect(name + ", later")
	}
}

// Only the flow's own ACK is taken along; others wait on.
func TestThinACKsOtherFlows(t *testing.T) {
	w := newACKWorld(t)
	for range 8 {
		w.give(w.next(1))
	}
	w.take()
	mine := w.next(0)
	w.give(mine)
	other := w.next(1)
	w.give(other)
	news := w.next(0)
	news.Payload = []byte{1}
	w.give(news)
	w.expect("news of flow 0", mine.Ack, news.Ack)
	w.now = w.now.Add(thinFor)
	w.expect("flow 1", other.Ack)
}

// After a pause the flow has to begin anew.
func TestThinACKsAfterPause(t *testing.T) {
	w := newACKWorld(t)
	w.now = w.now.Add(time.Millisecond)
	for range 8 {
		s := w.next(0)
		w.give(s)
		w.expect("after a pause", s.Ack)
	}
	w.give(w.next(0))
	w.expect("later")
}

// Frames that are not plain TCP are not looked at: VLAN tags, fragments.
func TestThinACKsLeavesOthersAlone(t *testing.T) {
	w := newACKWorld(t)
	tagged := w.next(0)
	tagged.VLAN = 7
	w.give(tagged)
	w.expect("a tagged ACK", tagged.Ack)
	f := build(w.next(0))
	ip := frame.IPv4(f[frame.EthernetLen:])
	ip[6] |= 0x20 // more fragments
	ip.UpdateCSum()
	w.giveFrame(f)
	w.pollRX(0)
	if n := len(w.receive(0)); n != 1 {
		t.Errorf("%d frames after a fragment, want 1", n)
	}
}

// The table of flows is bounded: any number of flows costs the same memory, and
// none of their ACKs is lost.
func TestThinACKsManyFlows(t *testing.T) {
	w := newACKWorld(t)
	var want, got int
	for round := range 12 {
		for flow := range 600 {
			s := w.next(0)
			s.SrcPort, s.DstPort = 5001, uint16(1000+flow)
			w.give(s)
			want++
			got += len(w.take())
			w.offer(0, w.rx[0].Free(), 300)
		}
		if round == 11 {
			w.now = w.now.Add(thinFor)
			got += len(w.take())
		}
	}
	if s := w.dev.Pair(0).RX.Snapshot(); got+int(s.Thinned) != want {
		t.Errorf("%d of %d ACKs came, %d were replaced", got, want, s.Thinned)
	}
}

// A large frame that is committed where it lies does not overtake the waiting ACK
// of its flow.
func TestThinACKsBeforeCommit(t *testing.T) {
	w := newACKWorld(t)
	ack := w.next(0)
	w.give(ack)
	news := w.next(0)
	news.Payload = make([]byte, 3000)
	f := build(news)
	rx := w.dev.Pair(0).RX
	iov, ok := rx.Reserve(4000)
	if !ok {
		t.Fatal("no room")
	}
	fill(t, iov, f, 4000)
	h := virtio.NetHdr{Flags: virtio.HdrNeedsCSum, GSOType: virtio.GSOTCPv4, GSOSize: 1448, CSumStart: uint16(news.L4()), CSumOffset: frame.TCPCSumOffset}
	if d := rx.Commit(len(f), &h); d != netdev.DropNone {
		t.Fatal(d)
	}
	w.expect("a commit", ack.Ack, news.Ack)
}

// A stop delivers what waits; a reset drops and counts it.
func TestThinACKsStop(t *testing.T) {
	w := newACKWorld(t)
	ack := w.next(0)
	w.give(ack)
	if _, call := w.dev.Pair(0).DetachRX(w.now); !call.Needed {
		t.Error("no call for what a stop delivered")
	}
	if all := w.receive(0); len(all) != 1 {
		t.Errorf("%d frames after a stop, want the ACK", len(all))
	}
	w = newACKWorld(t)
	w.give(w.next(0))
	w.dev.Reset()
	if d := w.dev.Pair(0).RX.Snapshot().Drops[netdev.DropStopped]; d != 1 {
		t.Errorf("%d drops after a reset, want 1", d)
	}
}
