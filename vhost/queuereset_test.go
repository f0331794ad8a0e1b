package vhost_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// TestQueueReset is what a front-end makes of a driver's queue_reset (RING_RESET):
// it asks for the base of one ring, and sets that ring up anew with another size at
// another place, from its start. The other ring runs on.
func TestQueueReset(t *testing.T) {
	for name, f := range ringKinds() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, func(c *vhost.Config) {
				c.Device.Features = (netdev.DefaultFeatures | virtio.FeatureRingReset) &^ virtio.FeatureMQ
			})
			g := w.dial()
			w.ok(g.Negotiate(f|virtio.FeatureRingReset, vhost.ProtocolOffer))
			if !g.Features.Has(virtio.FeatureRingReset) {
				t.Fatal("RING_RESET is not offered")
			}
			w.ok(g.ShareMemory())
			tx, rx := w.start(g, 1), w.start(g, 0)
			rx.Post()
			w.send(tx, 100)
			for _, size := range []uint16{64, 1024, 256} {
				base, err := g.Stop(1)
				w.ok(err)
				if used := uint32(tx.Outstanding()); used != 0 || base == tx.Config.Base {
					t.Errorf("%d entries: base %#x after traffic, %d outstanding", tx.Config.Size, base, used)
				}
				w.ports[0].deliver(frameOf(60, 2))
				w.receive(rx)
				tx.Close()
				tx, err = g.AddRing(1, size, 2048)
				w.ok(err)
				w.ok(g.Start(tx, tx.Config.Base))
				w.send(tx, 3*int(size)+7)
			}
			if s := w.lastStats(); s.RingStarts != 5 || s.RingStops != 3 || s.Refused != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestFault053PackedRingSize: a packed ring may have any number of entries, also
// one that is no power of two, and works with it.
func TestFault053PackedRingSize(t *testing.T) {
	packed := ringKinds()["packed"]
	w := newWorld(t, 1)
	g := w.dial()
	w.ok(g.Negotiate(packed, vhost.ProtocolOffer))
	w.ok(g.ShareMemory())
	for _, n := range []uint32{0, 32769, 65535, 65536, 1 << 31} {
		w.refused(g, wire.SetVringNum, wire.VringState{Index: 1, Num: n})
	}
	for _, size := range []uint16{3, 255, 32768} {
		tx, err := g.AddRing(1, size, 128)
		w.ok(err)
		w.ok(g.Start(tx, tx.Config.Base))
		w.send(tx, 700)
		_, err = g.Stop(1)
		w.ok(err)
		tx.Close()
	}
}
