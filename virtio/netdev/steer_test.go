package netdev_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// sendFlow sends a packet of a flow on TX queue i.
func (w *world) sendFlow(i, flow int) {
	w.send(i, virtio.NetHdr{}, build(fromGuest(flow, 100)))
	w.pollTX(i, netdev.Budget{})
	w.reap(w.tx[i])
}

// TestSteerUnknown: flows that have not sent are spread over the active pairs.
func TestSteerUnknown(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 8}})
	seen := map[int]int{}
	for flow := range 800 {
		seen[w.dev.Steer(build(toGuest(flow, 10)))]++
	}
	for i := range 8 {
		if seen[i] < 50 {
			t.Errorf("pair %d gets %d of 800 flows", i, seen[i])
		}
	}
	if i := w.dev.Steer(make([]byte, 60)); i != 0 {
		t.Errorf("a frame that is not IP goes to pair %d, want 0", i)
	}
}

// TestSteerManyPairs: 128 pairs do not alias in the table.
func TestSteerManyPairs(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 128}, size: 8})
	if n := w.dev.ActivePairs(); n != 128 {
		t.Fatalf("%d active pairs, want 128", n)
	}
	for i := range 128 {
		w.sendFlow(i, i)
		if got := w.dev.Steer(build(toGuest(i, 10))); got != i {
			t.Errorf("a flow of pair %d goes to pair %d", i, got)
		}
	}
}

// TestSteerCollision: a flow that took another's slot does not get its pair.
func TestSteerCollision(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4, FlowSlots: 256}})
	hash := func(flow int) uint32 {
		k := frame.FlowKey{Src: guestIP, Dst: peerIP, SrcPort: uint16(40000 + flow), DstPort: 5001, Proto: frame.ProtoTCP}
		return k.Hash()
	}
	a, b := 0, 1
	for hash(b)&255 != hash(a)&255 {
		b++
	}
	w.sendFlow(3, a)
	if got := w.dev.SteerRX(hash(a)); got != 3 {
		t.Fatalf("pair %d, want 3", got)
	}
	for _, flow := range []int{a, b} {
		w.sendFlow(2, b)
		want := 2
		if flow == a {
			want = int(uint64(hash(a)) * 4 >> 32)
		}
		if got := w.dev.SteerRX(hash(flow)); got != want {
			t.Errorf("flow %d goes to pair %d, want %d", flow, got, want)
		}
	}
}

// TestSteerToInactive: a flow does not go to a pair that no longer receives.
func TestSteerToInactive(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}})
	w.sendFlow(3, 0)
	w.dev.Pair(3).SetEnabled(false, true)
	if got := w.dev.Steer(build(toGuest(0, 10))); got >= 3 || w.dev.ActivePairs() != 3 {
		t.Errorf("pair %d of %d active", got, w.dev.ActivePairs())
	}
	w.dev.Pair(3).SetEnabled(true, true)
	if got := w.dev.Steer(build(toGuest(0, 10))); got != 3 {
		t.Errorf("pair %d after enabling, want 3", got)
	}
	w.dev.Pair(0).DetachRX(w.now)
	if n := w.dev.ActivePairs(); n != 1 {
		t.Errorf("%d active pairs without the first, want 1", n)
	}
}
