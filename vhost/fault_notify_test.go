package vhost_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// TestFault050CallComesLate gives the call descriptor when a call is long due.
func TestFault050CallComesLate(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.ring(g, 1)
	w.place(g, tx, 0)
	w.ok(g.Enable(1, true))
	w.tellFD(g, wire.SetVringKick, 1, tx.Kick)
	tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
	tx.ForceKick()
	w.eventually("the buffer comes back", tx.HasUsed)
	w.tellFD(g, wire.SetVringCall, 1, tx.Call)
	if n := tx.WaitCall(5 * time.Second); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// TestFault064FirstCall starts a ring whose used_event asks for no call for a
// long time: what an earlier device has promised is not known.
func TestFault064FirstCall(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	for _, event := range []uint16{0, 1, 30000, 65535} {
		tx := w.ring(g, 1)
		tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
		tx.Poke(tx.Config.Avail+4+2*256, event)
		w.ok(g.Start(tx, 0))
		if n := tx.WaitCall(5 * time.Second); n != 1 {
			t.Errorf("used_event %d: %d calls, want 1", event, n)
		}
		_, err := g.Stop(1)
		w.ok(err)
		tx.Close()
	}
	clear(g.Rings)
}

// TestFault073KickReadTwice counts every kick once, whoever else reads the
// descriptor.
func TestFault073KickReadTwice(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	for range 100 {
		tx.ForceKick()
		readCount(tx.Kick) // whoever is first gets it
	}
	w.send(tx, 10)
	if s := w.srv.Stats().Pairs[0].TX; s.Kicks > tx.Kicks || s.KicksCoalesced > 100 {
		t.Errorf("%d kicks counted, %d coalesced, %d sent", s.Kicks, s.KicksCoalesced, tx.Kicks)
	}
}

// TestFault074FullPipe gives a full pipe for the call descriptor, and a pipe
// for the kick descriptor.
func TestFault074FullPipe(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	var call, kick [2]int
	w.ok(unix.Pipe2(call[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	w.ok(unix.Pipe2(kick[:], unix.O_CLOEXEC))
	t.Cleanup(func() { osio.CloseAll(append(call[:], kick[:]...)) })
	for full := make([]byte, 4096); ; {
		if _, err := unix.Write(call[1], full); err != nil {
			break
		}
	}
	w.tellFD(g, wire.SetVringCall, 1, call[1])
	w.tellFD(g, wire.SetVringKick, 1, kick[0])
	before := w.srv.Stats().Pairs[0].TX
	for i := range 20 {
		tx.EnableCalls()
		tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
		w.ok(osio.WriteEvent(kick[1]))
		w.eventually("the buffer comes back", func() bool { _, _, ok := tx.Done(); return ok })
		_ = i
	}
	after := w.srv.Stats().Pairs[0].TX
	if after.CallsFailed != 0 || after.Calls == before.Calls {
		t.Errorf("%d calls, %d failed", after.Calls-before.Calls, after.CallsFailed)
	}
	if got := after.Kicks - before.Kicks; got != 20 {
		t.Errorf("%d kicks through the pipe, want 20", got)
	}
	// The other end goes away: that is no busy loop, and the ring can get
	// another descriptor.
	osio.Close(kick[1])
	kick[1] = -1
	time.Sleep(5 * time.Millisecond)
	w.tellFD(g, wire.SetVringKick, 1, tx.Kick)
	w.tellFD(g, wire.SetVringCall, 1, tx.Call)
	w.send(tx, 5)
}

// TestPolledRing has neither kick nor call descriptors.
func TestPolledRing(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.ring(g, 1)
	w.place(g, tx, 0)
	w.ok(g.Enable(1, true))
	w.ok(g.Tell(wire.SetVringKick, wire.VringFD{Index: 1, NoFD: true}))
	w.ok(g.Tell(wire.SetVringCall, wire.VringFD{Index: 1, NoFD: true}))
	for range 10 {
		tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
		w.eventually("the buffer comes back", func() bool { _, _, ok := tx.Done(); return ok })
	}
}

// TestFault091AvailJump breaks a ring: it rests, the others run, and a reset
// mends it.
func TestFault091AvailJump(t *testing.T) {
	w := newWorld(t, 2)
	g := w.connect()
	bad, good := w.start(g, 1), w.start(g, 3)
	breakRing(bad)
	bad.ForceKick()
	w.eventually("the ring is broken", func() bool { return w.lastStats().RingsBroken == 1 })
	for range 10 {
		bad.ForceKick()
	}
	w.send(good, 100)
	w.ok(g.Tell(wire.ResetDevice, wire.Empty{}))
	bad.Close()
	w.send(w.start(g, 1), 10)
	if s, err := g.AskNumber(wire.GetStatus); err != nil || s != 0 {
		t.Errorf("status %#x, %v", s, err)
	}
}

// TestFault154SharedCall has one call descriptor for all rings.
func TestFault154SharedCall(t *testing.T) {
	w := newWorld(t, 2)
	g := w.connect()
	shared := eventfds(t, 1)[0]
	var txs []*frontend.Ring
	for i := range 2 {
		tx := w.start(g, 2*i+1)
		w.tellFD(g, wire.SetVringCall, tx.Index, shared)
		txs = append(txs, tx)
	}
	var calls uint64
	for round := range 50 {
		for _, tx := range txs {
			tx.EnableCalls()
			tx.Transmit(&virtio.NetHdr{}, frameOf(60, byte(round)))
			tx.Notify()
		}
		for _, tx := range txs {
			w.eventually("the buffer comes back", func() bool { _, _, ok := tx.Done(); return ok })
		}
	}
	w.eventually("every call is counted once", func() bool {
		calls += readCount(shared)
		s := w.srv.Stats()
		return calls == s.Pairs[0].TX.Calls+s.Pairs[1].TX.Calls
	})
	if calls == 0 {
		t.Error("no call at all")
	}
}
