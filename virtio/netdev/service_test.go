package netdev_test

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// serviceWorld is a world with a policy for transmit rings that is idle: it has
// looked, and kicks are wanted.
func serviceWorld(t *testing.T, p netdev.Policy) *world {
	w := newWorld(t, setup{cfg: netdev.Config{Policy: p}})
	w.turnTX()
	return w
}

// turnTX polls, and rearms as a composer does.
func (w *world) turnTX() (taken int) {
	work, _ := w.pollTX(0, netdev.Budget{})
	if w.dev.Pair(0).TX.Rearm() {
		more, _ := w.pollTX(0, netdev.Budget{})
		work.Add(more)
	}
	return work.Packets
}

// packet makes a packet available, and reports whether the driver had to kick.
func (w *world) packet() bool {
	f := build(fromGuest(0, 100))
	kick := w.queueTX(0, append(w.encode(virtio.NetHdr{}), f...))
	if kick {
		w.kick(0)
	}
	return kick
}

func (w *world) after(d time.Duration) { w.now = w.now.Add(d) }

// Delayed service takes the packets some time after the first, which is the only
// one that is kicked for, or when there are enough.
func TestDelayService(t *testing.T) {
	w := serviceWorld(t, netdev.Policy{DelayTime: 50 * time.Microsecond, DelayPackets: 4})
	tx := w.dev.Pair(0).TX
	if !w.packet() || w.turnTX() != 0 {
		t.Fatal("the first packet has no kick, or was taken at once")
	}
	if at := tx.Next(w.now); at != w.now.Add(50*time.Microsecond) || at != tx.Looks() {
		t.Fatalf("next %v, want in 50us", at.Sub(w.now))
	}
	for i := range 2 {
		if w.packet() {
			t.Errorf("a kick for packet %d", i+2)
		}
	}
	w.after(50 * time.Microsecond)
	if n := w.turnTX(); n != 3 {
		t.Errorf("%d packets taken after the time, want 3", n)
	}
	for range 3 {
		w.packet()
		if n := w.turnTX(); n != 0 {
			t.Fatalf("%d packets taken before there are four", n)
		}
	}
	if !w.packet() {
		t.Error("no kick for the packet that ends the wait")
	}
	if n := w.turnTX(); n != 4 {
		t.Errorf("%d packets taken, want 4", n)
	}
	if at := tx.Next(w.now); at != vtime.Never {
		t.Errorf("an idle queue wants to be polled at %v", at)
	}
}

// A device that polls asks for no kicks for a while after work, looks as often as
// it should, and asks for kicks again after that.
func TestPoll(t *testing.T) {
	w := serviceWorld(t, netdev.Policy{PollTime: 100 * time.Microsecond, PollEvery: 20 * time.Microsecond})
	tx := w.dev.Pair(0).TX
	if !w.packet() || w.turnTX() != 1 {
		t.Fatal("an idle device was not kicked, or did not take the packet at once")
	}
	w.after(5 * time.Microsecond)
	if w.packet() {
		t.Error("a kick while the device polls")
	}
	if n := w.turnTX(); n != 0 {
		t.Error("a packet was taken between two looks")
	}
	if at := tx.Next(w.now); at != w.now.Add(15*time.Microsecond) {
		t.Errorf("next look in %v, want 15us", at.Sub(w.now))
	}
	w.after(15 * time.Microsecond)
	if n := w.turnTX(); n != 1 {
		t.Errorf("%d packets at the look, want 1", n)
	}
	looks := 0
	for ; tx.Next(w.now) != vtime.Never && looks < 100; looks++ {
		w.now = max(w.now, tx.Next(w.now))
		w.turnTX()
	}
	if looks != 5 {
		t.Errorf("%d looks at an empty ring in 100us, want 5", looks)
	}
	if !w.packet() {
		t.Error("no kick for a device that polls no more")
	}
}

// Calls that are coalesced come after a time or a number of used entries, which
// are visible before.
func TestCoalesceCalls(t *testing.T) {
	w := serviceWorld(t, netdev.Policy{CallTime: 30 * time.Microsecond, CallPackets: 3})
	tx := w.dev.Pair(0).TX
	first := func() bool { // publishes one packet, and reports whether that made a call
		w.packet()
		_, call := w.pollTX(0, netdev.Budget{})
		if n := w.reap(w.tx[0]); n != 1 {
			t.Fatalf("%d used entries, want 1", n)
		}
		w.tx[0].EnableCalls()
		tx.Rearm()
		return call.Needed
	}
	for i := range 3 {
		if call := first(); call != (i == 2) {
			t.Errorf("packet %d: call %v, want one at the third", i+1, call)
		}
	}
	w.packet()
	if _, call := w.pollTX(0, netdev.Budget{}); call.Needed {
		t.Error("a call at once")
	}
	if at := tx.Next(w.now); at != w.now.Add(30*time.Microsecond) {
		t.Fatalf("the call is due in %v, want 30us", at.Sub(w.now))
	}
	w.after(30 * time.Microsecond)
	if _, call := w.pollTX(0, netdev.Budget{}); !call.Needed {
		t.Error("no call when its time has come")
	}
}
