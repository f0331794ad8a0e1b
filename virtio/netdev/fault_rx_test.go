package netdev_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// A large frame in mergeable buffers: the count of buffers and their lengths
// must be exact, all but the last full, and seen by the guest at once.
func TestFault113MergeableExact(t *testing.T) {
	for _, how := range []string{"deliver", "commit"} {
		w := newWorld(t, setup{cfg: netdev.Config{MTU: 9000}})
		w.offer(0, 10, 1526)
		f := build(toGuest(0, 9000-66+14)) // 9000 bytes with the Ethernet header less 14
		f = f[:9000]
		w.give(how, virtio.NetHdr{}, f)
		got := w.receive(0)
		want := []uint32{1526, 1526, 1526, 1526, 1526, 12 + 9000 - 5*1526}
		if len(got) != 1 || !cmp.Equal(got[0].lens, want) || !bytes.Equal(got[0].frame, f) {
			t.Fatalf("%s: %d frames, lengths %v, want %v", how, len(got), got[0].lens, want)
		}
	}
}

// The header is 12 bytes with VERSION_1, MRG_RXBUF or RING_PACKED, else 10.
func TestFault115HeaderLength(t *testing.T) {
	for _, c := range []struct {
		off  virtio.Features
		ring virtio.Features
		want int
	}{
		{0, 0, 12}, {virtio.FeatureVersion1, 0, 12}, {virtio.FeatureMrgRxBuf, 0, 12},
		{virtio.FeatureVersion1 | virtio.FeatureMrgRxBuf, 0, 10},
		{virtio.FeatureVersion1 | virtio.FeatureMrgRxBuf, virtio.FeatureRingPacked, 12},
	} {
		w := newWorld(t, setup{off: c.off, ring: c.ring})
		f := build(fromGuest(0, 100))
		w.queueTX(0, append(make([]byte, c.want), f...))
		w.pollTX(0, netdev.Budget{})
		if len(w.wire.frames) != 1 || !bytes.Equal(w.wire.frames[0], f) {
			t.Errorf("without %v TX does not have a header of %d bytes", c.off, c.want)
		}
		w.offer(0, 1, 2000)
		w.deliver(0, virtio.NetHdr{}, f)
		if _, n, ok := w.rx[0].Reap(); !ok || int(n) != c.want+len(f) {
			t.Errorf("without %v RX wrote %d bytes, want %d", c.off, n, c.want+len(f))
		}
	}
}

// Receive buffers of a byte, or without room for the header, killed the worker.
func TestFault125TinyBuffers(t *testing.T) {
	for _, off := range []virtio.Features{0, virtio.FeatureMrgRxBuf} {
		w := newWorld(t, setup{off: off, size: 16})
		w.offer(0, 16, 1)
		w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 10)))
		if n := w.reap(w.rx[0]); n != 16 {
			t.Errorf("%d tiny buffers came back, want 16", n)
		}
		w.offer(0, 1, 2000)
		w.kickRX(0)
		if got := w.receive(0); len(got) != 1 {
			t.Errorf("%d frames after the guest mended its buffers, want 1", len(got))
		}
	}
	w := newWorld(t, setup{})
	w.hostile(w.rx[0], 0, desc{addr: memBase + 4096, len: 0, flags: fWrite})
	w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 10)))
	if s := w.dev.Pair(0).RX.Snapshot(); s.Drops[netdev.FaultDrop(ring.ErrZeroLen)] != 1 || w.dev.Pair(0).RX.Waiting() != 1 {
		t.Errorf("a buffer of no bytes: drops %s", marshal(t, s.Drops))
	}
}

// hdr_len was believed.
func TestFault128HdrLenLies(t *testing.T) {
	h, f := gso(fromGuest(0, 4000), 1448)
	for _, lie := range []uint16{0, 14, 0xffff} {
		sent := h
		sent.HdrLen = lie
		w := newWorld(t, setup{})
		w.send(0, sent, f)
		w.pollTX(0, netdev.Budget{})
		if len(w.wire.hdrs) != 1 || w.wire.hdrs[0] != h {
			t.Errorf("hdr_len %d: the wire got %+v, want the measured %d", lie, w.wire.hdrs, h.HdrLen)
		}
	}
}

// A 64 KB frame for a guest that cannot merge buffers and posted small ones was
// cut, or blocked the queue.
func TestFault133LargeFrameSmallBuffers(t *testing.T) {
	h, f := gso(toGuest(0, 40*1448), 1448)
	w := newWorld(t, setup{off: virtio.FeatureMrgRxBuf})
	w.offer(0, 60, 1526)
	if r := w.deliver(0, h, f); r != netdev.DropNone {
		t.Fatal(r)
	}
	got := w.receive(0)
	if len(got) != 40 || got[0].hdr.Flags != virtio.HdrDataValid {
		t.Fatalf("%d frames, want 40 segments", len(got))
	}
	var frames [][]byte
	for _, r := range got {
		checkSums(t, virtio.NetHdr{}, r.frame)
		frames = append(frames, r.frame)
	}
	if !bytes.Equal(payloadOf(frames...), payloadOf(f)) {
		t.Error("the payload is damaged")
	}

	// What cannot be segmented is dropped and counted, and blocks nothing.
	w = newWorld(t, setup{off: virtio.FeatureMrgRxBuf | virtio.FeatureMTU})
	w.offer(0, 2, 1526)
	if r := w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 3000))); r != netdev.DropNoRoom {
		t.Errorf("a frame that never fits: %v, want no_room", r)
	}
	w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 30)))
	if got := w.receive(0); len(got) != 1 || len(payloadOf(got[0].frame)) != 30 {
		t.Errorf("%d frames, want the one that fits", len(got))
	}
}

// Features of the session before were still in force.
func TestFault134FeaturesOfThisSession(t *testing.T) {
	w := newWorld(t, setup{off: virtio.FeatureGuestTSO4 | virtio.FeatureGuestECN})
	h, f := gso(toGuest(0, 4000), 1448)
	w.offer(0, 8, 65600)
	w.deliver(0, h, f)
	if n := len(w.receive(0)); n != 3 {
		t.Fatalf("%d frames in the first session, want 3", n)
	}
	w.dev.Reset()
	if err := w.dev.SetFeatures(w.dev.Features()); err != nil {
		t.Fatal(err)
	}
	w.rx[0] = w.newQueue(256)
	w.dev.Pair(0).AttachRX(w.now, w.device(w.rx[0]))
	w.offer(0, 8, 65600)
	w.deliver(0, h, f)
	if got := w.receive(0); len(got) != 1 || got[0].hdr.GSOType != virtio.GSOTCPv4 {
		t.Fatalf("%d frames in the second session, want a GSO one", len(got))
	}
}

// VQ_PAIRS_SET was ignored: firmware that uses one pair lost its frames.
func TestFault136PairsAfterReset(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}, ctrl: true})
	steered := func() int {
		pairs := map[int]bool{}
		for flow := range 64 {
			pairs[w.dev.Steer(build(toGuest(flow, 10)))] = true
		}
		return len(pairs)
	}
	if n := steered(); n != 1 {
		t.Errorf("before the command frames go to %d pairs, want 1", n)
	}
	w.command(cat([]byte{4, 0}, le16(4)))
	if n := steered(); n != 4 {
		t.Errorf("after the command frames go to %d pairs, want 4", n)
	}
	w.command(cat([]byte{4, 0}, le16(1)))
	if n := steered(); n != 1 {
		t.Errorf("after going back frames go to %d pairs, want 1", n)
	}
	w.command(cat([]byte{4, 0}, le16(4)))
	w.dev.Reset()
	if n := w.dev.ActivePairs(); n != 1 {
		t.Errorf("%d active pairs after a reset, want 1", n)
	}
}

// Fewer rings were set up than announced, and the device waited for the rest.
func TestFault137FewerPairs(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 8}, noTX: true, noRX: true})
	w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	w.dev.Pair(0).AttachRX(w.now, w.device(w.rx[0]))
	w.offer(0, 4, 2000)
	w.send(0, virtio.NetHdr{}, build(fromGuest(0, 10)))
	work, _ := w.pollTX(0, netdev.Budget{})
	f := build(toGuest(5, 10))
	if i := w.dev.Steer(f); i != 0 || work.Packets != 1 || w.deliver(i, virtio.NetHdr{}, f) != netdev.DropNone {
		t.Errorf("one pair of eight: sent %d, steered to %d", work.Packets, i)
	}
}

// used.len of a control command was not what was written, and a driver took the
// device for dead. A command without room for the answer is not carried out.
func TestFault146CtrlUsedLen(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}, ctrl: true})
	w.command([]byte{9, 9}) // checks the length itself
	if err := w.ctrl.Add(w.store(cat([]byte{4, 0}, le16(4))), nil, 1); err != nil {
		t.Fatal(err)
	}
	if acts := w.pollCtrl(); len(acts) != 0 || w.dev.ActivePairs() != 1 {
		t.Error("a command without room for an answer was carried out")
	}
	if _, n, ok := w.ctrl.Reap(); !ok || n != 0 || w.dev.Ctrl().Snapshot().Drops[netdev.DropNoAck] != 1 {
		t.Errorf("used length %d %v, want 0", n, ok)
	}
}

// Replies woke another vCPU than the one that sent.
func TestFault155SteeringFollows(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}})
	for _, i := range []int{2, 0, 3, 3, 1} {
		w.sendFlow(i, 17)
		if got := w.dev.Steer(build(toGuest(17, 10))); got != i {
			t.Errorf("sent on %d, the reply goes to %d", i, got)
		}
	}
}

// The receive ring ran dry and the wake-up was lost.
func TestFault185RXRunsDry(t *testing.T) {
	for _, off := range []virtio.Features{0, virtio.FeatureEventIdx} {
		w := newWorld(t, setup{off: off})
		rx := w.dev.Pair(0).RX
		f := build(toGuest(0, 100))
		for range 50 {
			w.offer(0, 1, 2000)
			w.kickRX(0)
			for range 3 {
				w.deliver(0, virtio.NetHdr{}, f)
			}
			for rx.Rearm() {
				w.pollRX(0)
			}
			if !w.offer(0, 2, 2000) {
				t.Fatal("the guest need not kick a queue that ran dry")
			}
			w.kickRX(0)
			if n := len(w.receive(0)); n != 3 {
				t.Fatalf("%d frames, want 3", n)
			}
		}
		if s := rx.Snapshot(); s.Drops.Total() != 0 || s.Packets != 150 {
			t.Errorf("%d packets, drops %s", s.Packets, marshal(t, s.Drops))
		}
	}
}
