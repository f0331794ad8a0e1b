package simguest

import (
	"slices"
	"testing"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// extWorld is a world of a UML guest with devices and an outside calendar, with no
// flow under way.
func extWorld(t *testing.T, kernel string) *world {
	t.Helper()
	s := vmtest.Default()
	for _, set := range [][2]string{{"kernel", kernel}, {"vcpus", "1"}, {"queue_pairs", "1"}, {"flows", "2"}, {"guest_cpu", "uml"}, {"receiver.kind", "kernel"}} {
		if err := s.Set(set[0], set[1]); err != nil {
			t.Fatal(err)
		}
	}
	w, err := newWorld(s, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range w.conns {
		k.start.Stop()
	}
	return w
}

// clockUser is a process that reads the clock, or an interrupt that notes its time.
type clockUser struct {
	reads int
	at    *[]vtime.Time
}

func (r clockUser) Run(c *vcpu.CPU) {
	for range r.reads {
		c.ReadClock()
	}
	*r.at = append(*r.at, c.Now())
}

// caller raises an interrupt at the time that it is set to.
type caller struct {
	w *world
	h clockUser
}

func (c *caller) Run(now vtime.Time, _ uint64) { c.w.cpus[0].interrupt(now, c.h) }

// An interrupt that comes while a process reads the clock is taken at the end of
// the reading; one that comes at just that end waits for the next, or for the CPU
// to be idle (arch/um/kernel/time.c).
func TestInterruptsAtClockReads(t *testing.T) {
	for _, c := range []struct {
		at    vtime.Time
		reads int
		want  vtime.Time
	}{
		{10, 1, 256}, {255, 3, 256}, {256, 1, 256}, {256, 2, 512}, {300, 3, 512}, {512, 3, 768}, {5000, 3, 5000},
	} {
		w := extWorld(t, "6.1")
		var got, end []vtime.Time
		w.loop.At(c.at, &caller{w, clockUser{0, &got}}, 0)
		w.cpus[0].post(0, vcpu.Process, clockUser{c.reads, &end})
		w.loop.RunUntil(10_000)
		if !slices.Equal(got, []vtime.Time{c.want}) || end[0] != vtime.Time(256*c.reads) {
			t.Errorf("interrupt at %d while a process reads the clock %d times: taken at %v, want %d; the process ended at %v", c.at, c.reads, got, c.want, end)
		}
	}
}

// A device that is due when the guest's own timer is goes first, but the guest that
// is woken for the timer sees its interrupt only when it waits again.
func TestDevicesGoBeforeTimers(t *testing.T) {
	w := extWorld(t, "6.1")
	var irq, woken []vtime.Time
	timer := w.newTimer(&waker{w, clockUser{1, &woken}}, 0)
	timer.Set(2560) // goes off at 2561
	w.loop.At(2561, &caller{w, clockUser{0, &irq}}, 0)
	w.loop.RunUntil(10_000)
	if !slices.Equal(woken, []vtime.Time{2817}) || !slices.Equal(irq, []vtime.Time{2817}) {
		t.Errorf("process %v, interrupt %v; want both at the end of the reading, 2817", woken, irq)
	}
}

// waker makes a process runnable when a timer expires.
type waker struct {
	w *world
	p clockUser
}

func (k *waker) Run(now vtime.Time, _ uint64) { k.w.wake(k.w.cpus[0], k.p) }

// The receiving program reads the clock once for a packet; one of the other flow
// that comes meanwhile is acknowledged at the end of that, and two that come
// together both at once.
func TestPeerReadsOneAfterTheOther(t *testing.T) {
	for _, c := range []struct{ first, second, want vtime.Time }{
		{1000, 1100, 1256}, {1000, 1000, 1000}, {1000, 1256, 1256}, {1000, 2000, 2000},
	} {
		w := extWorld(t, "6.1")
		n := w.cable
		for i, at := range []vtime.Time{c.first, c.second} {
			*n.arriving.push(at, int32(i)) = link.Segment{Seq: 1, Len: 1448, TrueSize: 2816, Frags: 1}
		}
		var acked []vtime.Time
		for w.loop.Next() <= c.second+1000 && w.loop.Step() {
			for int(n.ends[0].rcv.Stats.Acks+n.ends[1].rcv.Stats.Acks) > len(acked) {
				acked = append(acked, w.loop.Now())
			}
		}
		if !slices.Equal(acked, []vtime.Time{c.first, c.want}) {
			t.Errorf("packets at %d and %d are acknowledged at %v, want %d and %d", c.first, c.second, acked, c.first, c.want)
		}
	}
}

// A packet is charged its head and its buffers, or only the head if that has room
// for all of it. The last buffer of a page has what is left of it, and buffers grow
// with the mean of the packets' lengths once those that were posted are used up.
func TestReceiveBuffers(t *testing.T) {
	b := newRxBuffers(0)
	for i, c := range []struct{ frame, truesize, frags int32 }{
		{74, 1280, 0}, {638, 1280, 0}, {639, 2816, 1}, {1514, 2816, 1}, {2962, 4352, 1}, {3666, 5888, 1},
	} {
		if size, frags := b.take(c.frame); size != c.truesize || frags != c.frags {
			t.Errorf("packet %d of %d bytes: charged %d in %d fragments, want %d in %d", i, c.frame, size, frags, c.truesize, c.frags)
		}
	}
	for range 11 { // buffers 10 to 20
		b.take(1514)
	}
	if size, _ := b.take(1514); size != 1280+2048 {
		t.Errorf("the 21st buffer of a page: charged %d, want %d", size, 1280+2048)
	}
	for range 2000 {
		b.take(4000)
	}
	if size, frags := b.take(4000); size != 1280+2*3968 || frags != 1 {
		t.Errorf("after many packets of 4000 bytes: charged %d in %d fragments, want two buffers of 3968", size, frags)
	}
	if newRxBuffers(20).posted[0].len != 2048 {
		t.Error("packets that came before a flow use buffers too")
	}
}

// One run of the TSQ tasklet takes all sockets that wait. (That it begins with the
// last is what o12 of the open traces needs.)
func TestTaskletTakesAllThatWait(t *testing.T) {
	w := extWorld(t, "6.1")
	p := w.cpus[0]
	var order []int
	for _, k := range w.conns {
		p.tasklet(k)
	}
	for len(p.tsq) > 0 && p.Step(0) {
		order = append(order, len(p.tsq))
	}
	if !slices.Equal(order, []int{0}) || p.Usage().Ops[vcpu.OpTSQ] != 2 {
		t.Errorf("runs leave %v waiting, %d sockets ran; want both in one run", order, p.Usage().Ops[vcpu.OpTSQ])
	}
}

// The host's thread begins with the direction that woke it: an ACK that finds it
// asleep goes before a packet that is sent while it wakes.
func TestWorkerBeginsWithWhatWokeIt(t *testing.T) {
	for _, ackFirst := range []bool{true, false} {
		w := extWorld(t, "6.1")
		for i := range 2 {
			if (i == 0) == ackFirst {
				a := w.cable.take()
				a.Flow, a.Ack = 0, 1
				a.Build(&frame.TCPSpec{SrcMAC: hostMAC, DstMAC: guestMAC, Src: hostAddr[4], Dst: guestAddr[4], SrcPort: serverPort, DstPort: basePort, Flags: skb.ACK})
				w.workers[0].Arrive(0, a)
				continue
			}
			w.conns[0].control(0, 0, skb.SYN)
			w.loop.RunUntil(0)
		}
		w.loop.RunUntil(vtime.Time(w.cost.host.Of(host.Wake)) + 1)
		rx := w.dev.Pair(0).RX.Snapshot().Packets
		w.loop.RunUntil(w.loop.Now().Add(w.cost.host.Of(host.Rx)))
		first := w.dev.Pair(0).RX.Snapshot().Packets - rx
		if (first == 1) != ackFirst {
			t.Errorf("ACK came first: %v; %d ACKs delivered in the time of one", ackFirst, first)
		}
	}
}
