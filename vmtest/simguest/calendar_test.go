package simguest

import (
	"slices"
	"testing"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
)

// extWorld is a world of a UML guest with devices and an outside calendar, with no
// flow under way.
func extWorld(t *testing.T, kernel string) *world {
	t.Helper()
	s := vmtest.Default()
	for _, set := range [][2]string{{"kernel", kernel}, {"vcpus", "1"}, {"queue_pairs", "1"}, {"flows", "2"}, {"guest_cpu", "uml"}} {
		if err := s.Set(set[0], set[1]); err != nil {
			t.Fatal(err)
		}
	}
	w, err := newWorld(s, nil, nil)
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
			n.arriving.push(arrival{at, int32(i), link.Segment{Seq: 1, Len: 1448, TrueSize: 2816, Frags: 1}})
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
// for all of it.
func TestReceivedSize(t *testing.T) {
	for _, c := range []struct{ n, truesize, frags int32 }{
		{176, 1280, 0}, {572, 1280, 0}, {573, 2816, 1}, {1448, 2816, 1}, {2896, 4352, 2}, {3600, 5888, 3},
	} {
		if size, frags := receivedSize(c.n); size != c.truesize || frags != c.frags {
			t.Errorf("%d bytes: charged %d in %d fragments, want %d in %d", c.n, size, frags, c.truesize, c.frags)
		}
	}
}
