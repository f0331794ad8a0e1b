package netdev_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// A port that finishes frames out of order: with IN_ORDER the guest sees them in
// the order in which it sent them, work counts them when it sees them, and there is
// no call before.
func TestInOrderCompletion(t *testing.T) {
	for _, kind := range []virtio.Features{virtio.FeatureInOrder, virtio.FeatureInOrder | virtio.FeatureRingPacked} {
		port := &wire{result: netdev.Later}
		w := newWorld(t, setup{ring: kind, wire: port})
		for range 3 {
			w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
		}
		w.pollTX(0, netdev.Budget{})
		tx := w.dev.Pair(0).TX
		for _, step := range []struct{ token, completed int }{{2, 0}, {1, 0}, {0, 3}} {
			tx.Complete(port.tokens[step.token], w.now)
			work, call := w.pollTX(0, netdev.Budget{})
			if work.Completed != step.completed || call.Needed != (step.completed > 0) {
				t.Errorf("%v: frame %d done: %d completed, call %v", kind, step.token, work.Completed, call.Needed)
			}
		}
		if n := w.reap(w.tx[0]); n != 3 || w.tx[0].Err() != nil {
			t.Errorf("%v: %d reaped, %v", kind, n, w.tx[0].Err())
		}
	}
}
