package netdev_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// Checksums were wrong without indirect descriptors and mergeable buffers: every
// combination of those, EVENT_IDX and the packed ring carries a large packet and
// a small one each way.
func TestFault121FeatureMatrix(t *testing.T) {
	bits := []virtio.Features{virtio.FeatureIndirectDesc, virtio.FeatureMrgRxBuf, virtio.FeatureEventIdx, virtio.FeatureRingPacked}
	for mask := range 16 {
		s := setup{}
		for i, bit := range bits {
			switch on := mask>>i&1 != 0; {
			case bit == virtio.FeatureRingPacked && on:
				s.ring = bit
			case bit != virtio.FeatureRingPacked && !on:
				s.off |= bit
			}
		}
		t.Run(fmt.Sprintf("without %v, packed %v", s.off, s.ring != 0), func(t *testing.T) {
			w := newWorld(t, s)
			h, f := gso(fromGuest(0, 20000), 1448)
			w.queueTX(0, w.encode(h), f[:66], f[66:9000], f[9000:])
			w.send(0, virtio.NetHdr{}, build(fromGuest(1, 99)))
			w.pollTX(0, netdev.Budget{})
			if len(w.wire.frames) != 2 || w.wire.hdrs[0] != h || string(w.wire.frames[0]) != string(f) || w.reap(w.tx[0]) != 2 {
				t.Fatalf("sent %d frames", len(w.wire.frames))
			}
			size := 65700
			if w.dev.Acked().Has(virtio.FeatureMrgRxBuf) {
				size = 4096
			}
			w.offer(0, 20, size)
			rh, rf := gso(toGuest(0, 20000), 1448)
			small := build(toGuest(1, 99))
			w.deliver(0, rh, rf)
			w.deliver(0, virtio.NetHdr{}, small)
			got := w.receive(0)
			if len(got) != 2 || string(got[0].frame) != string(rf) || string(got[1].frame) != string(small) || got[0].hdr.GSOSize != 1448 {
				t.Fatalf("received %d frames", len(got))
			}
		})
	}
}

// Only the first receive queue was used: flows that the device does not know are
// spread over all queues that the guest has enabled.
func TestFault149FlowsUseEveryQueue(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}, ctrl: true})
	w.command(cat([]byte{4, 0}, le16(4)))
	for i := range 4 {
		w.offer(i, 200, 2048)
	}
	for flow := range 200 {
		f := build(toGuest(flow, 10))
		w.deliver(w.dev.Steer(f), virtio.NetHdr{}, f)
	}
	for i := range 4 {
		if n := len(w.receive(i)); n < 25 {
			t.Errorf("queue %d received %d of 200 flows", i, n)
		}
	}
}

// Commands about queues were believed: pairs that there are not, an answer that
// cannot be written, classes that nobody knows. Each is refused or dropped, and
// nothing changes.
func TestFault151ControlBounds(t *testing.T) {
	state := func(w *world) string {
		return fmt.Sprintf("%d %x %v %v", w.dev.ActivePairs(), w.dev.ConfigSpace(), w.dev.Coalescing(netdev.DirRX), w.dev.Coalescing(netdev.DirTX))
	}
	for _, c := range []struct {
		name string
		do   func(w *world)
		want netdev.DropReason
	}{
		{"no pairs", func(w *world) { w.command(cat([]byte{4, 0}, le16(0))) }, netdev.DropNone},
		{"too many pairs", func(w *world) { w.command(cat([]byte{4, 0}, le16(5))) }, netdev.DropNone},
		{"0x8001 pairs", func(w *world) { w.command(cat([]byte{4, 0}, le16(0x8001))) }, netdev.DropNone},
		{"unknown class", func(w *world) { w.command([]byte{77, 0, 1}) }, netdev.DropNone},
		{"unknown command", func(w *world) { w.command([]byte{4, 77, 1, 0}) }, netdev.DropNone},
		{"nothing", func(w *world) { w.command([]byte{4}) }, netdev.DropNone},
		{"no answer", func(w *world) { w.bare(w.store(cat([]byte{4, 0}, le16(2)))) }, netdev.DropNoAck},
	} {
		w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}, ctrl: true})
		before := state(w)
		c.do(w)
		s := w.dev.Ctrl().Snapshot()
		if d := cmp.Diff(before, state(w)); d != "" {
			t.Errorf("%s changed the device:\n%s", c.name, d)
		}
		if c.want == netdev.DropNone && s.Refused != 1 || c.want != netdev.DropNone && s.Drops[c.want] != 1 {
			t.Errorf("%s: refused %d, drops %s", c.name, s.Refused, marshal(t, s.Drops))
		}
		w.proveCommand()
	}
}

// bare sends a command that has no room for its answer.
func (w *world) bare(out []ring.Buf) {
	w.t.Helper()
	if err := w.ctrl.Add(out, nil, 1); err != nil {
		w.t.Fatal(err)
	}
	w.pollCtrl()
	w.reap(w.ctrl)
}

// A device in a small virtual machine was slow because it offered neither queues
// nor offloads: what is offered unless somebody says otherwise has both.
func TestFault184Defaults(t *testing.T) {
	dev, err := netdev.New(netdev.Config{QueuePairs: 4})
	if err != nil {
		t.Fatal(err)
	}
	want := virtio.FeatureMQ | virtio.FeatureMrgRxBuf | virtio.FeatureEventIdx | virtio.FeatureIndirectDesc |
		virtio.FeatureCSum | virtio.FeatureHostTSO4 | virtio.FeatureHostTSO6 | virtio.FeatureHostUSO |
		virtio.FeatureGuestCSum | virtio.FeatureGuestTSO4 | virtio.FeatureGuestTSO6 | virtio.FeatureGuestUSO4
	if !dev.Features().Has(want) {
		t.Errorf("not offered: %v", want&^dev.Features())
	}
	if one, err := netdev.New(netdev.Config{}); err != nil || one.Features().Has(virtio.FeatureMQ) || !one.Features().Has(virtio.FeatureHostTSO4) {
		t.Errorf("one pair: %v, %v", one, err)
	}
}
