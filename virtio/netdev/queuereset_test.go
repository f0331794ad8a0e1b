package netdev_test

import (
	"bytes"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// TestQueueReset resets a queue in the middle of its work, with frames at the port
// and in the spill, and starts it again with another size: nothing of the old ring
// is touched any more, nothing comes back late, and the other queue never notices.
func TestQueueReset(t *testing.T) {
	for _, kind := range []virtio.Features{0, virtio.FeatureRingPacked, virtio.FeatureRingPacked | virtio.FeatureInOrder} {
		wire := &wire{result: netdev.Later}
		w := newWorld(t, setup{ring: kind, wire: wire})
		p := w.dev.Pair(0)
		for range 3 {
			w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
		}
		w.pollTX(0, netdev.Budget{})
		old := w.tx[0]
		before := bytes.Clone(w.raw)
		if q := p.ResetQueue(netdev.DirTX); q == nil || q.InFlight() != 3 {
			t.Fatalf("%v: reset of a queue with 3 chains out: %+v", kind, q)
		}
		if !bytes.Equal(before, w.raw) {
			t.Errorf("%v: the reset wrote to guest memory", kind)
		}
		for _, tok := range wire.tokens {
			p.TX.Complete(tok, w.now)
		}
		if got := p.TX.Snapshot().StaleTokens; got != 3 {
			t.Errorf("%v: %d stale tokens, want 3", kind, got)
		}
		resize(t, w, old, 64)
		p.AttachTX(w.now, w.device(old))
		wire.result = netdev.Sent
		for range 5 {
			w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
		}
		if work, _ := w.pollTX(0, netdev.Budget{}); work.Packets != 5 || work.Completed != 5 {
			t.Errorf("%v: %+v after the reset", kind, work)
		}
		if p.RX.Attached() != true || w.dev.ActivePairs() != 1 {
			t.Errorf("%v: the receive queue took notice", kind)
		}
		p.ResetQueue(netdev.DirRX)
		if p.RX.Attached() || p.ResetQueue(netdev.DirRX) != nil {
			t.Errorf("%v: a receive queue after its reset", kind)
		}
	}
}

// resize is the driver's half: it takes its chains back and makes the ring anew.
func resize(t *testing.T, w *world, q *guestQueue, size uint16) {
	t.Helper()
	for q.Outstanding() > 0 {
		if _, ok := q.DetachUnused(); !ok {
			t.Fatal("nothing to take back")
		}
	}
	q.cfg.Size = size
	need := q.cfg.BytesNeeded()
	q.cfg.Desc, q.cfg.Avail, q.cfg.Used = w.alloc(int(need.Desc)), w.alloc(int(need.Avail)), w.alloc(int(need.Used))
	q.cfg.Base = ring.StartBase(q.cfg.Features)
	if err := q.Reset(w.mem, q.cfg); err != nil {
		t.Fatal(err)
	}
}
