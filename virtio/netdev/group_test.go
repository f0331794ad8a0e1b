package netdev_test

import (
	"errors"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

func newGroup(w *world) *netdev.Group {
	var pairs []*netdev.Pair
	for i := range w.dev.Pairs() {
		pairs = append(pairs, w.dev.Pair(i))
	}
	return netdev.NewGroup(pairs...)
}

// TestGroupFair: a flood on one queue does not keep the others waiting, and
// every queue gets its turn however small the budget.
func TestGroupFair(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 3}})
	g := newGroup(w)
	f := build(fromGuest(0, 10))
	for range 200 {
		w.send(0, virtio.NetHdr{}, f)
	}
	w.send(1, virtio.NetHdr{}, f)
	w.send(2, virtio.NetHdr{}, f)
	work, out := g.Poll(w.now, netdev.Budget{Packets: 100})
	sent := func(i int) uint64 { return w.dev.Pair(i).TX.Snapshot().Packets }
	if work.Packets != netdev.QuantumPackets+2 || sent(1) != 1 || sent(2) != 1 {
		t.Errorf("a round sent %d, %d, %d packets", sent(0), sent(1), sent(2))
	}
	if len(out) != 3 {
		t.Fatalf("%d outcomes, want a first call of each queue", len(out))
	}
	for i, o := range out {
		if o.Pair.Index() != i || o.Dir != netdev.DirTX || !o.Call.Needed || o.Err != nil {
			t.Errorf("outcome %d: %+v", i, o)
		}
	}
	for range 5 {
		w.send(1, virtio.NetHdr{}, f)
		w.send(2, virtio.NetHdr{}, f)
	}
	for range 3 * 5 {
		g.Poll(w.now, netdev.Budget{Packets: 1})
	}
	if sent(1) != 6 || sent(2) != 6 || sent(0) != netdev.QuantumPackets+5 {
		t.Errorf("15 polls of one packet: %d, %d, %d, want 5 more of each", sent(0), sent(1), sent(2))
	}
	for g.Next(w.now) == w.now {
		g.Poll(w.now, netdev.Budget{})
	}
	if sent(0) != 200 || g.Next(w.now) != vtime.Never || g.Rearm() {
		t.Errorf("at rest: %d packets, next %v", sent(0), g.Next(w.now))
	}
	w.send(2, virtio.NetHdr{}, f)
	if g.Next(w.now) != w.now {
		t.Error("a kick does not wake the group")
	}
	g.Poll(w.now, netdev.Budget{})
	w.queueTX(1, append(w.encode(virtio.NetHdr{}), f...))
	if !g.Rearm() || len(g.Pairs()) != 3 {
		t.Error("re-arming the group does not look again")
	}
}

// TestGroupBytes: the budget in bytes ends a round too.
func TestGroupBytes(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 2}})
	g := newGroup(w)
	h, f := gso(fromGuest(0, 44*1448), 1448)
	for range 20 {
		w.send(0, h, f)
		w.send(1, h, f)
	}
	work, _ := g.Poll(w.now, netdev.Budget{})
	if quantum := netdev.QuantumBytes/len(f) + 1; work.Packets != 2*quantum {
		t.Errorf("%d packets in a round, want %d of each queue", work.Packets, quantum)
	}
	if work, _ = g.Poll(w.now, netdev.Budget{Bytes: 100000}); work.Packets != 2 {
		t.Errorf("%d packets, want 2", work.Packets)
	}
}

// TestGroupBroken: a queue that the guest breaks is reported, the others go on.
func TestGroupBroken(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 2}})
	g := newGroup(w)
	w.setAvail(w.tx[0], 300)
	w.send(1, virtio.NetHdr{}, build(fromGuest(0, 10)))
	_, out := g.Poll(w.now, netdev.Budget{})
	if len(out) != 2 || !errors.Is(out[0].Err, netdev.ErrBroken) || out[0].Pair.Index() != 0 || !out[1].Call.Needed {
		t.Errorf("outcomes %+v", out)
	}
}
