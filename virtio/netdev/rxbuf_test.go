package netdev_test

import (
	"bytes"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// offerChain makes one receive chain of buffers of the sizes given available.
func (w *world) offerChain(sizes ...int) (chain []ring.Buf) {
	w.t.Helper()
	for _, n := range sizes {
		chain = append(chain, w.store(make([]byte, n))...)
	}
	if err := w.rx[0].Add(nil, chain, 0); err != nil {
		w.t.Fatal(err)
	}
	w.rx[0].Publish()
	return chain
}

// TestRXSplitBuffers: the net header and the frame may be cut anywhere by the
// buffers of a chain.
func TestRXSplitBuffers(t *testing.T) {
	f := build(toGuest(0, 500))
	for _, off := range []virtio.Features{0, virtio.FeatureMrgRxBuf} {
		for _, how := range []string{"deliver", "commit"} {
			for _, sizes := range [][]int{{12, 1000}, {5, 7, 1000}, {11, 2, 30, 2000}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 999}} {
				w := newWorld(t, setup{off: off})
				chain := w.offerChain(sizes...)
				if r := w.give(how, virtio.NetHdr{}, f); r != netdev.DropNone {
					t.Fatalf("%v: %v", sizes, r)
				}
				_, n, ok := w.rx[0].Reap()
				if !ok || int(n) != 12+len(f) {
					t.Fatalf("%s %v: used length %d %v, want %d", how, sizes, n, ok, 12+len(f))
				}
				var got []byte
				for _, b := range chain {
					got = append(got, w.bytes(b.Addr, int(b.Len))...)
				}
				if want := append(w12(virtio.NetHdr{NumBuffers: 1}), f...); !bytes.Equal(got[:n], want) {
					t.Errorf("%s %v: the guest got other bytes", how, sizes)
				}
			}
		}
	}
}

// TestRXLargerThanRing: a frame that the whole ring cannot hold does not wait
// for ever. A GSO frame is delivered as its segments.
func TestRXLargerThanRing(t *testing.T) {
	for _, how := range []string{"deliver", "commit"} {
		w := newWorld(t, setup{off: virtio.FeatureMTU, size: 4})
		w.offer(0, 4, 1526)
		if r := w.give(how, virtio.NetHdr{}, build(toGuest(0, 7000))); r != netdev.DropNoRoom {
			t.Errorf("%s: %v, want no_room", how, r)
		}
		h, f := gso(toGuest(0, 3*1448), 1448)
		w.give(how, h, f)
		if got := w.receive(0); len(got) != 1 || len(got[0].lens) != 3 {
			t.Errorf("%s: %d frames, want the GSO frame in three buffers", how, len(got))
		}
		w.offer(0, 3, 1526)
		h, f = gso(toGuest(0, 6*1448), 1448)
		w.give(how, h, f) // four of its segments find a buffer, two wait
		if got := w.receive(0); len(got) != 4 || len(payloadOf(got[3].frame)) != 1448 {
			t.Errorf("%s: %d frames, want four of six segments", how, len(got))
		}
		w.offer(0, 2, 1526)
		w.kickRX(0)
		if got := w.receive(0); len(got) != 2 {
			t.Errorf("%s: %d frames, want the two that waited", how, len(got))
		}
	}
}

// TestUnusableTakenAhead: a chain that cannot be used and that was taken in
// advance goes back as soon as it is the first.
func TestUnusableTakenAhead(t *testing.T) {
	w := newWorld(t, setup{})
	w.offer(0, 1, 1526)
	w.offerChain(11)
	w.offer(0, 3, 1526)
	if _, ok := w.dev.Pair(0).RX.Reserve(5000); !ok {
		t.Fatal("no reservation")
	}
	w.dev.Pair(0).RX.Commit(60, &virtio.NetHdr{})
	w.pollRX(0)
	if idx, n := w.used(w.rx[0]); idx != 2 || n != 0 {
		t.Errorf("used %d, last length %d, want the frame and the unusable chain", idx, n)
	}
	if q, _ := w.dev.Pair(0).DetachRX(w.now); q.NextAvail() != 2 {
		t.Errorf("base %d, want 2", q.NextAvail())
	}
}

// TestSpilledTooLarge: a frame that waited for buffers that turn out too small
// is dropped, and what waits behind it goes on.
func TestSpilledTooLarge(t *testing.T) {
	w := newWorld(t, setup{off: virtio.FeatureMrgRxBuf | virtio.FeatureMTU})
	w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 3000)))
	w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 30)))
	w.offer(0, 2, 1526)
	w.kickRX(0)
	s := w.dev.Pair(0).RX.Snapshot()
	if got := w.receive(0); len(got) != 1 || s.Drops[netdev.DropNoRoom] != 1 || s.Spilled != 2 {
		t.Errorf("%d frames, drops %s, want one of each", len(got), marshal(t, s.Drops))
	}
}

// TestDetachRXSpilled: frames that wait are counted when the ring stops.
func TestDetachRXSpilled(t *testing.T) {
	w := newWorld(t, setup{})
	w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 30)))
	w.dev.Pair(0).DetachRX(w.now)
	if s := w.dev.Pair(0).RX.Snapshot(); s.Drops[netdev.DropStopped] != 1 {
		t.Errorf("drops %s, want one stopped", marshal(t, s.Drops))
	}
	if q, call := w.dev.Pair(0).DetachRX(w.now); q != nil || call.Needed {
		t.Error("a second detach found a ring")
	}
}
