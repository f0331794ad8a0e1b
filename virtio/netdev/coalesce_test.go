package netdev_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// ask sends a command that has a result, and returns both.
func (w *world) ask(room int, cmd []byte) (ack byte, result []byte) {
	w.t.Helper()
	in := w.store([]byte{0xee}, make([]byte, room))
	if err := w.ctrl.Add(w.store(cmd), in, 1); err != nil {
		w.t.Fatal(err)
	}
	w.pollCtrl()
	_, n, ok := w.ctrl.Reap()
	if !ok || n < 1 || int(n) > 1+room {
		w.t.Fatalf("used length %d %v of a command with room for %d", n, ok, room)
	}
	return w.bytes(in[0].Addr, 1)[0], w.bytes(in[1].Addr, int(n)-1)
}

func coal(class []byte, packets, usecs uint32) []byte { return cat(class, le32(packets), le32(usecs)) }

// TestCoalesceTX: with 4 packets or 100 us, a call comes with the fourth packet
// or 100 us after the first, and the used entries come at once.
func TestCoalesceTX(t *testing.T) {
	w := newWorld(t, setup{ctrl: true})
	w.command(coal([]byte{6, 0}, 4, 100))
	w.tx[0].EnableCalls()
	f := build(fromGuest(0, 100))
	one := func() netdev.Call {
		w.now += 1000
		w.send(0, virtio.NetHdr{}, f)
		_, call := w.pollTX(0, netdev.Budget{})
		return call
	}
	for i := 1; i <= 4; i++ {
		call := one()
		if want := i == 4; call.Needed != want {
			t.Fatalf("packet %d: call %+v", i, call)
		}
		if used, _ := w.used(w.tx[0]); int(used) != i {
			t.Fatalf("packet %d: used index %d", i, used)
		}
	}
	w.reap(w.tx[0])
	w.tx[0].EnableCalls()
	tx := w.dev.Pair(0).TX
	if call := one(); call.Needed || call.Reason != netdev.CallCoalesce {
		t.Fatalf("first of a batch: %+v", call)
	}
	due := w.now.Add(100 * time.Microsecond)
	if next := tx.Next(w.now); next != due {
		t.Fatalf("next at %v, want %v", next, due)
	}
	w.now = due - 1
	if _, call := w.pollTX(0, netdev.Budget{}); call.Needed {
		t.Fatal("a call before its time")
	}
	w.now = due
	if _, call := w.pollTX(0, netdev.Budget{}); !call.Needed {
		t.Fatal("no call at its time")
	}
	if next := tx.Next(w.now); next != vtime.Never {
		t.Errorf("next at %v after the call", next)
	}
	if s := tx.Snapshot(); s.Calls != 2 || s.CallsSuppressed[netdev.CallCoalesce] != 4 {
		t.Errorf("%d calls, held back %d times, want 2 and 4", s.Calls, s.CallsSuppressed[netdev.CallCoalesce])
	}
}

// TestCoalesceSuppressed: a guest that does not want a call gets none when it is
// due, and new parameters take effect at once.
func TestCoalesceSuppressed(t *testing.T) {
	w := newWorld(t, setup{ctrl: true, off: virtio.FeatureEventIdx})
	w.command(coal([]byte{6, 0}, 100, 1000))
	f := build(fromGuest(0, 100))
	w.send(0, virtio.NetHdr{}, f)
	w.pollTX(0, netdev.Budget{})
	w.now = w.now.Add(time.Millisecond)
	if _, call := w.pollTX(0, netdev.Budget{}); !call.Needed || call.Reason != netdev.CallFirst {
		t.Fatalf("the first call after a start: %+v", call)
	}
	w.tx[0].DisableCalls()
	w.send(0, virtio.NetHdr{}, f)
	w.pollTX(0, netdev.Budget{})
	w.now = w.now.Add(time.Millisecond)
	if _, call := w.pollTX(0, netdev.Budget{}); call.Needed || call.Reason != netdev.CallNoInterrupt {
		t.Fatalf("a call that is not wanted: %+v", call)
	}
	w.tx[0].EnableCalls()
	w.send(0, virtio.NetHdr{}, f)
	w.pollTX(0, netdev.Budget{})
	w.command(coal([]byte{6, 0}, 0, 0))
	if w.dev.Pair(0).TX.Next(w.now) > w.now {
		t.Error("a call that was held back is not due after coalescing was switched off")
	}
	if _, call := w.pollTX(0, netdev.Budget{}); !call.Needed {
		t.Error("no call after coalescing was switched off")
	}
}

// TestCoalesceRX: mergeable buffers are counted as the packets that they hold.
func TestCoalesceRX(t *testing.T) {
	w := newWorld(t, setup{ctrl: true})
	w.command(coal([]byte{6, 1}, 2, 50))
	w.offer(0, 100, 512)
	w.rx[0].EnableCalls()
	h, f := gso(toGuest(0, 4000), 1448)
	rx := w.dev.Pair(0).RX
	for i := 1; i <= 2; i++ {
		rx.Deliver(w.now, &h, f)
		if _, call := w.pollRX(0); call.Needed != (i == 2) {
			t.Errorf("packet %d in many buffers: call %+v", i, call)
		}
	}
	rx.Deliver(w.now, &h, f)
	w.pollRX(0)
	if next := rx.Next(w.now); next != w.now.Add(50*time.Microsecond) {
		t.Errorf("next at %v", next)
	}
	if _, call := w.dev.Pair(0).DetachRX(w.now); !call.Needed && call.Reason != netdev.CallEventIdx {
		t.Errorf("a stop forgot the call that was held back: %+v", call)
	}
}

// TestCoalesceQueues: a queue's own parameters go before the device's, and are
// lost when it is started again.
func TestCoalesceQueues(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 2}, ctrl: true})
	get := func(vq uint16) netdev.Coalescing {
		t.Helper()
		ack, b := w.ask(8, cat([]byte{6, 3}, le16(vq), le16(0)))
		if ack != ackOK || len(b) != 8 {
			t.Fatalf("queue %d: ack %d, %d bytes", vq, ack, len(b))
		}
		return netdev.Coalescing{MaxPackets: binary.LittleEndian.Uint32(b), MaxUsecs: binary.LittleEndian.Uint32(b[4:])}
	}
	w.command(coal([]byte{6, 0}, 8, 80))
	w.command(coal(cat([]byte{6, 2}, le16(3), le16(0)), 9, 90))
	all, own := netdev.Coalescing{MaxPackets: 8, MaxUsecs: 80}, netdev.Coalescing{MaxPackets: 9, MaxUsecs: 90}
	if a, b, c := get(1), get(3), get(2); a != all || b != own || c != (netdev.Coalescing{}) {
		t.Errorf("queues 1, 3 and 2 have %v, %v and %v", a, b, c)
	}
	q, _ := w.dev.Pair(1).DetachTX(w.now)
	if ack, _ := w.ask(8, cat([]byte{6, 3}, le16(3), le16(0))); ack != ackBad {
		t.Error("a queue that is not enabled answers")
	}
	w.dev.Pair(1).AttachTX(w.now, q)
	if got := get(3); got != all {
		t.Errorf("after a restart %v, want %v", got, all)
	}
	w.dev.Reset()
	if got := w.dev.Coalescing(netdev.DirTX); got != (netdev.Coalescing{}) {
		t.Errorf("after a reset %v", got)
	}
}

// TestCoalesceAndHold: a policy that holds completions and coalescing of calls
// act one after the other.
func TestCoalesceAndHold(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{Policy: netdev.Policy{HoldTime: 10 * time.Microsecond}}, ctrl: true})
	w.command(coal([]byte{6, 0}, 100, 100))
	start := w.now
	w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	w.pollTX(0, netdev.Budget{})
	tx := w.dev.Pair(0).TX
	w.now = tx.Next(w.now)
	if _, call := w.pollTX(0, netdev.Budget{}); w.now != start.Add(10*time.Microsecond) || call.Needed {
		t.Fatalf("at %v: %+v", w.now, call)
	}
	w.now = tx.Next(w.now)
	if _, call := w.pollTX(0, netdev.Budget{}); w.now != start.Add(110*time.Microsecond) || !call.Needed {
		t.Fatalf("at %v: %+v", w.now, call)
	}
}
