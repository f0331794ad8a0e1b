package vhost_test

import (
	"bytes"
	"testing"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// TestFault049UnusedPairs offers four pairs, of which the guest sets up one.
func TestFault049UnusedPairs(t *testing.T) {
	w := newWorld(t, 4)
	g := w.connect()
	for i := range 8 {
		w.tellFD(g, wire.SetVringCall, i, eventfds(t, 1)[0])
		w.ok(g.Enable(i, i < 2))
	}
	w.send(w.start(g, 1), 10)
	if n := w.lastStats().RingStarts; n != 1 {
		t.Errorf("%d rings started", n)
	}
}

// command sends a command on the control queue and returns the answer.
func (w *world) command(g *frontend.Guest, cvq *frontend.Ring, cmd ...byte) byte {
	w.t.Helper()
	at := g.Memory.Alloc(64, 16)
	copy(g.Memory.At(at, 64), cmd)
	g.Memory.At(at, 64)[63] = 0xff
	w.ok(cvq.Add([]ring.Buf{{Addr: at, Len: uint32(len(cmd))}}, []ring.Buf{{Addr: at + 63, Len: 1}}, 200))
	cvq.Publish()
	cvq.Notify()
	w.eventually("the command is answered", func() bool { _, n, ok := cvq.Reap(); return ok && n == 1 })
	return g.Memory.At(at, 64)[63]
}

// TestFault136PairsSet has the guest choose the number of pairs.
func TestFault136PairsSet(t *testing.T) {
	w := newWorld(t, 4)
	g := w.connect()
	for i := range 4 {
		w.start(g, 2*i).Post()
		w.start(g, 2*i+1)
	}
	cvq := w.start(g, 8)
	on := func() (n int) {
		for _, p := range w.ports {
			if p.on.Load() {
				n++
			}
		}
		return n
	}
	w.eventually("one pair receives", func() bool { return on() == 1 })
	for _, n := range []byte{3, 4, 2} {
		if ack := w.command(g, cvq, 4, 0, n, 0); ack != 0 {
			t.Errorf("%d pairs: answer %d", n, ack)
		}
		w.eventually("as many pairs receive", func() bool { return on() == int(n) })
	}
	for _, n := range []byte{0, 5} {
		if ack := w.command(g, cvq, 4, 0, n, 0); ack != 1 {
			t.Errorf("%d pairs: answer %d", n, ack)
		}
	}
	if on() != 2 {
		t.Errorf("%d pairs receive after refused commands", on())
	}
	w.ok(g.Tell(wire.ResetDevice, wire.Empty{}))
	w.eventually("no pair receives", func() bool { return on() == 0 })
}

// TestOffloadsReachThePort switches the guest's offloads off by the control
// queue.
func TestOffloadsReachThePort(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	w.start(g, 0).Post()
	cvq := w.start(g, 2)
	if ack := w.command(g, cvq, 5, 0, byte(virtio.FeatureGuestCSum), 0, 0, 0, 0, 0, 0, 0); ack != 0 {
		t.Fatalf("answer %d", ack)
	}
	tso := virtio.FeatureGuestTSO4 | virtio.FeatureGuestTSO6 | virtio.FeatureGuestECN |
		virtio.FeatureGuestUFO | virtio.FeatureGuestUSO4 | virtio.FeatureGuestUSO6
	w.eventually("the port knows", func() bool { return virtio.Features(w.ports[0].acked.Load()) == g.Features&^tso })
}

// TestFault137FewerQueues announces 8 pairs and sets one up, as firmware does.
func TestFault137FewerQueues(t *testing.T) {
	w := newWorld(t, 8)
	g := w.dial()
	w.ok(g.Negotiate(virtio.FeatureVersion1, vhost.ProtocolOffer))
	w.ok(g.ShareMemory())
	rx := w.start(g, 0)
	rx.Post()
	w.send(w.start(g, 1), 5)
	w.ports[0].deliver(frameOf(60, 1))
	w.receive(rx)
}

// TestFault140Queue255 uses the last ring that a kick descriptor can name.
func TestFault140Queue255(t *testing.T) {
	w := newWorld(t, 128)
	g := w.dial()
	w.ok(g.Negotiate(everything&^virtio.FeatureIndirectDesc, vhost.ProtocolOffer))
	w.ok(g.ShareMemory())
	first, last := w.start(g, 1), w.start(g, 255)
	w.send(last, 5)
	w.send(first, 7)
	if a, b := w.ports[0].frames.Load(), w.ports[127].frames.Load(); a != 7 || b != 5 {
		t.Errorf("%d and %d frames, want 7 and 5", a, b)
	}
}

// TestFault139MostQueues announces 128 pairs and a control queue: ring 256 is
// the last.
func TestFault139MostQueues(t *testing.T) {
	w := newWorld(t, 128)
	g := w.dial()
	w.ok(g.Negotiate(everything, vhost.ProtocolOffer))
	if n, err := g.AskNumber(wire.GetQueueNum); err != nil || n != 257 {
		t.Errorf("%d rings, %v", n, err)
	}
	w.ok(g.Demand(wire.SetVringNum, wire.VringState{Index: 256, Num: 64}))
	w.refused(g, wire.SetVringNum, wire.VringState{Index: 257, Num: 64})
}

// TestFault142LegacyEnables has a front-end that does not know of protocol
// features: its rings are enabled at once.
func TestFault142LegacyEnables(t *testing.T) {
	w := newWorld(t, 1)
	g := w.dial()
	w.ok(g.Tell(wire.SetFeatures, wire.U64(virtio.FeatureVersion1)))
	w.ok(g.ShareMemory())
	tx := w.ring(g, 1)
	w.place(g, tx, 0)
	w.tellFD(g, wire.SetVringKick, 1, tx.Kick)
	w.tellFD(g, wire.SetVringCall, 1, tx.Call)
	w.send(tx, 5)
	if got := w.ports[0].frames.Load(); got != 5 {
		t.Errorf("%d frames", got)
	}
}

func TestFault143NoMQOffered(t *testing.T) {
	w := newWorld(t, 1, func(c *vhost.Config) { c.Protocol = vhost.ProtocolOffer &^ wire.ProtocolMQ })
	g := w.connect()
	w.send(w.start(g, 1), 5)
}

func TestFault145ControlQueueThatIsNotOffered(t *testing.T) {
	w := newWorld(t, 1, func(c *vhost.Config) { c.Device.Features = virtio.FeatureVersion1 | virtio.FeatureMAC })
	g := w.connect()
	fds := eventfds(t, 1)
	for _, i := range []int{2, 3} {
		w.refused(g, wire.SetVringEnable, wire.VringState{Index: uint32(i), Num: 1})
		w.refused(g, wire.SetVringNum, wire.VringState{Index: uint32(i), Num: 64})
		w.refused(g, wire.SetVringKick, wire.VringFD{Index: uint8(i)}, fds...)
	}
}

// TestFault148EnableOneRing enables the receive ring before the transmit ring
// is configured.
func TestFault148EnableOneRing(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	rx := w.start(g, 0)
	rx.Post()
	rx.Notify()
	w.ports[0].deliver(frameOf(60, 1))
	w.receive(rx)
	w.send(w.start(g, 1), 5)
}

// TestFault134FeaturesOfThisSession receives with the header length and the
// features of each session, not of the one before.
func TestFault134FeaturesOfThisSession(t *testing.T) {
	w := newWorld(t, 1)
	for _, tt := range []struct {
		features virtio.Features
		hdr      int
	}{
		{virtio.FeatureVersion1 | virtio.FeatureMrgRxBuf, virtio.NetHdrLen},
		{0, virtio.LegacyNetHdrLen},
		{virtio.FeatureVersion1, virtio.NetHdrLen},
	} {
		g := w.dial()
		w.ok(g.Negotiate(tt.features, vhost.ProtocolOffer))
		w.ok(g.ShareMemory())
		rx := w.start(g, 0)
		rx.Post()
		rx.Notify()
		f := frameOf(64, 9)
		w.ports[0].deliver(f)
		if got := w.receive(rx); len(got) != tt.hdr+64 || !bytes.Equal(got[tt.hdr:], f) {
			t.Errorf("%v: received %d bytes, want %d", tt.features, len(got), tt.hdr+64)
		}
		if got := virtio.Features(w.ports[0].acked.Load()); got != tt.features {
			t.Errorf("port was told %v, want %v", got, tt.features)
		}
		g.Close()
		w.eventually("the session ends", func() bool { return !w.srv.Stats().Connected })
	}
}
