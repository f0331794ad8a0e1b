package vhost_test

import (
	"bytes"
	"testing"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio"
)

// TestRSSAcrossWorkers has the guest's indirection table send what comes in at
// pair 0 to pair 1, whose worker sleeps, and back.
func TestRSSAcrossWorkers(t *testing.T) {
	w := newWorld(t, 2, func(c *vhost.Config) { c.Device.Features = everything | virtio.FeatureRSS })
	g := w.dial()
	w.ok(g.Negotiate(everything|virtio.FeatureRSS, vhost.ProtocolOffer))
	w.ok(g.ShareMemory())
	rx := w.start(g, 0)
	other := w.start(g, 2)
	cvq := w.start(g, 4)
	rx.Post()
	other.Post()
	for round := range 20 {
		to := byte(1 - round%2)
		// No hashes, so that every frame is unclassified; one entry; two transmit
		// queues; no key.
		if ack := w.command(g, cvq, 4, 1, 0, 0, 0, 0, 0, 0, to, 0, 0, 0, 2, 0, 0); ack != 0 {
			t.Fatalf("answer %d", ack)
		}
		f := frameOf(100, byte(round))
		w.ports[0].deliver(f)
		ring := rx
		if to == 1 {
			ring = other
		}
		if got := w.receive(ring); !bytes.Equal(got[virtio.NetHdrLen:], f) {
			t.Fatalf("round %d: received %d bytes", round, len(got))
		}
	}
	if n := w.srv.Stats().Pairs[0].RX.Passed; n != 10 {
		t.Errorf("%d frames were passed on, want 10", n)
	}
}
