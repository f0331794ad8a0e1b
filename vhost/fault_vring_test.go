package vhost_test

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// place tells the back-end everything about a ring but its kick descriptor.
func (w *world) place(g *frontend.Guest, r *frontend.Ring, base uint32) {
	w.t.Helper()
	i := uint32(r.Index)
	w.ok(g.Tell(wire.SetVringNum, wire.VringState{Index: i, Num: uint32(r.Config.Size)}))
	w.ok(g.Tell(wire.SetVringBase, wire.VringState{Index: i, Num: base}))
	w.ok(g.Tell(wire.SetVringAddr, r.Addr()))
}

// tellFD gives the back-end a descriptor of a ring.
func (w *world) tellFD(g *frontend.Guest, r wire.Request, ring, fd int) {
	w.t.Helper()
	w.ok(g.Tell(r, wire.VringFD{Index: uint8(ring)}, fd))
}

// TestFault040KickBeforeEnable kicks first, fills the ring then, and enables
// it last: there is no other kick.
func TestFault040KickBeforeEnable(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.ring(g, 1)
	w.place(g, tx, 0)
	w.tellFD(g, wire.SetVringKick, 1, tx.Kick)
	tx.ForceKick()
	w.eventually("the kick is seen", func() bool { return w.srv.Stats().Pairs[0].TX.Kicks == 1 })
	tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
	w.ok(g.Enable(1, true))
	w.eventually("the frame is sent", func() bool { return w.ports[0].frames.Load() == 1 })
	// Once more, with the ring disabled after it had been enabled, and for good
	// measure longer than a start is waited for.
	w.ok(g.Enable(1, false))
	time.Sleep(vhost.EnableGrace + 10*time.Millisecond)
	tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
	w.ok(g.Enable(1, true))
	w.eventually("a frame that nobody kicked for is sent", func() bool { return w.ports[0].frames.Load() == 2 })
}

// TestFault041RingFilledBeforeStart fills the ring before it starts, and never
// kicks.
func TestFault041RingFilledBeforeStart(t *testing.T) {
	w := newWorld(t, 1, func(c *vhost.Config) { c.EnableGrace = time.Minute })
	g := w.connect()
	tx, rx := w.ring(g, 1), w.ring(g, 0)
	for range 100 {
		tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
	}
	rx.Post()
	w.ok(g.Start(tx, 0))
	w.ok(g.Start(rx, 0))
	w.eventually("the frames are sent", func() bool { return w.ports[0].frames.Load() == 100 })
	w.ports[0].deliver(frameOf(60, 2))
	w.receive(rx)
}

// TestFault043StartedButDisabled discards what is sent to rings that nobody
// enabled, and says so.
func TestFault043StartedButDisabled(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx, rx := w.ring(g, 1), w.ring(g, 0)
	for _, r := range []*frontend.Ring{tx, rx} {
		w.place(g, r, 0)
		w.tellFD(g, wire.SetVringKick, r.Index, r.Kick)
		w.tellFD(g, wire.SetVringCall, r.Index, r.Call)
	}
	rx.Post()
	rx.ForceKick()
	w.ports[0].deliver(frameOf(60, 2))
	w.send(tx, 10)
	s := w.srv.Stats()
	if got := s.Pairs[0].TX; got.Drops[netdev.DropDisabled] != 10 || w.ports[0].frames.Load() != 0 {
		t.Errorf("drops %v, %d frames sent", got.Drops, w.ports[0].frames.Load())
	}
	if got := w.lastStats().StartsDisabled; got != 2 {
		t.Errorf("%d rings started while disabled, want 2", got)
	}
	if rx.HasUsed() || w.ports[0].on.Load() {
		t.Error("a disabled ring received")
	}
	w.ok(g.Enable(0, true))
	w.receive(rx)
}

// TestFault044Base runs the index around and asks for it.
func TestFault044Base(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	w.send(tx, 70000)
	base, err := g.Stop(1)
	w.ok(err)
	if base != 70000-65536 {
		t.Errorf("base %d, want %d", base, 70000-65536)
	}
	// And on from there.
	w.ok(g.Start(tx, base))
	w.send(tx, 1000)
}

func TestFault052RingIndex(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	fds := eventfds(t, 1)
	w.leaks(func() {
		for _, i := range []uint32{3, 256, 0x10000, 0xffffffff} {
			w.refused(g, wire.SetVringNum, wire.VringState{Index: i, Num: 256})
			w.refused(g, wire.SetVringBase, wire.VringState{Index: i})
			w.refused(g, wire.SetVringAddr, wire.VringAddr{Index: i})
			w.refused(g, wire.SetVringEnable, wire.VringState{Index: i, Num: 1})
			kick := make([]byte, 8)
			binary.LittleEndian.PutUint32(kick, i)
			if i != 256 { // that is ring 0 without a descriptor
				w.refused(g, wire.SetVringKick, wire.Raw(kick), fds...)
			}
		}
	})
	w.ok(g.Send(wire.Message{Request: wire.GetVringBase, Payload: wire.VringState{Index: 256}}))
	w.endsWith(g, vhost.ErrRing)
}

func TestFault053RingSize(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	for _, n := range []uint32{0, 3, 255, 65535, 65536, 1 << 31} {
		w.refused(g, wire.SetVringNum, wire.VringState{Num: n})
	}
	for _, n := range []uint32{1, 2, 256, 32768} {
		w.ok(g.Demand(wire.SetVringNum, wire.VringState{Num: n}))
	}
}

func TestFault055BaseOfARingThatNeverWas(t *testing.T) {
	w := newWorld(t, 4)
	g := w.dial()
	base, err := g.Stop(7)
	w.ok(err)
	if base != 0 {
		t.Errorf("base %d, want 0", base)
	}
}

// TestFault056NoMQ has a front-end without MQ enable both rings.
func TestFault056NoMQ(t *testing.T) {
	w := newWorld(t, 1)
	g := w.dial()
	w.ok(g.Negotiate(virtio.FeatureVersion1, wire.ProtocolReplyAck))
	w.ok(g.ShareMemory())
	w.ok(g.Enable(0, true))
	w.ok(g.Enable(1, true))
	w.send(w.start(g, 1), 5)
}

// TestFault058StatusBeforeBase resets by status before it asks for the index.
func TestFault058StatusBeforeBase(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	w.ok(g.Tell(wire.SetStatus, wire.U64(15)))
	w.send(tx, 300)
	w.ok(g.Tell(wire.SetStatus, wire.U64(0)))
	tx.ForceKick()
	base, err := g.Stop(1)
	w.ok(err)
	if base != 300 {
		t.Errorf("base %d, want 300", base)
	}
	w.ok(g.Start(tx, base))
	w.send(tx, 10)
}

func TestFault059ResetOwnerAndDevice(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	w.send(tx, 5)
	w.ok(g.Tell(wire.ResetOwner, wire.Empty{}))
	w.send(tx, 5)
	w.ok(g.Tell(wire.ResetDevice, wire.Empty{}))
	base, err := g.Stop(1)
	w.ok(err)
	if base != 0 {
		t.Errorf("base %d after a reset", base)
	}
	w.send(w.start(g, 1), 5) // memory is still there
}

// TestFault061RebootLoop stops everything and starts it in new memory with new
// descriptors, again and again, in the middle of traffic.
func TestFault061RebootLoop(t *testing.T) {
	w := newWorld(t, 2)
	g := w.connect()
	for i := range 100 {
		m, err := frontend.NewMemory(0x1000000, 16<<20)
		w.ok(err)
		old := g.Memory
		g.Memory = m
		w.ok(g.ShareMemory())
		old.Close()
		for q := range 2 {
			tx, err := g.AddRing(2*q+1, 64, 2048)
			w.ok(err)
			w.ok(g.Start(tx, 0))
			w.send(tx, 10)
			for range 20 {
				tx.Transmit(&virtio.NetHdr{}, frameOf(100, byte(i)))
			}
			tx.Notify()
		}
		for q := range 2 {
			_, err := g.Stop(2*q + 1)
			w.ok(err)
			g.Rings[2*q+1].Close()
		}
	}
	clear(g.Rings)
	if s := w.lastStats(); s.RingStarts != 200 || s.RingStops != 200 {
		t.Errorf("%+v", s)
	}
}

// slowPort keeps frames until it is told.
type slowPort struct {
	*testPort
	kept []netdev.Token
	done int // eventfd
}

func (p *slowPort) Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, tok netdev.Token) (vtime.Time, netdev.SendResult) {
	p.testPort.Send(now, h, iov, tok)
	p.kept = append(p.kept, tok)
	return now, netdev.Later
}

func (p *slowPort) Settle(now vtime.Time, tx *netdev.TX) int {
	if readCount(p.done) > 0 {
		for _, tok := range p.kept {
			tx.Complete(tok, now)
		}
		p.kept = nil
	}
	return len(p.kept)
}

func (p *slowPort) DoneFD() int { return p.done }

// TestFault062CompletionAfterStop stops a ring while a port keeps a frame of
// it. The buffer comes back once, and what the port says later changes nothing.
func TestFault062CompletionAfterStop(t *testing.T) {
	slow := &slowPort{testPort: newTestPort(t), done: eventfds(t, 1)[0]}
	w := newWorld(t, 1, func(c *vhost.Config) { c.Ports[0] = slow })
	g := w.connect()
	tx := w.start(g, 1)
	tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
	tx.Notify()
	w.eventually("the port has the frame", func() bool { return slow.frames.Load() == 1 })
	if tx.HasUsed() {
		t.Fatal("the buffer came back while the port keeps it")
	}
	base, err := g.Stop(1) // the port is waited for in vain
	w.ok(err)
	if _, _, ok := tx.Done(); base != 1 || !ok {
		t.Errorf("base %d, buffer came back: %v", base, ok)
	}
	w.ok(g.Start(tx, base))
	w.ok(osio.WriteEvent(slow.done))
	w.eventually("the old token is refused", func() bool { return w.srv.Stats().Pairs[0].TX.StaleTokens == 1 })
	tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
	tx.Notify()
	w.eventually("the port has the frame", func() bool { return slow.frames.Load() == 2 })
	w.ok(osio.WriteEvent(slow.done))
	w.eventually("the buffer comes back", func() bool { _, _, ok := tx.Done(); return ok })
}

// TestFault047BackEndComesBackLater lets a guest without a back-end try to connect
// until there is one again: it can from the moment of Listen, before anybody
// serves it, and a ring goes on.
func TestFault047BackEndComesBackLater(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	w := &world{t: t, path: path, ports: []*testPort{newTestPort(t)}}
	var g *frontend.Guest
	var tx *frontend.Ring
	for round := range 3 {
		if _, err := frontend.Dial(path); err == nil {
			t.Fatal("somebody listens")
		}
		var err error
		w.srv, err = vhost.Listen(vhost.Config{SocketPath: path, Ports: []vhost.Port{w.ports[0]}})
		w.ok(err)
		c, err := frontend.Dial(path) // nobody serves yet
		w.ok(err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- w.srv.Serve(ctx) }()
		if round == 0 {
			g, err = frontend.NewGuestOn(c, 16<<20)
			w.ok(err)
			t.Cleanup(g.Close)
			w.ok(g.Negotiate(everything, vhost.ProtocolOffer))
			tx = w.ring(g, 1)
		} else {
			w.ok(g.Resume(c))
		}
		w.ok(g.ShareMemory())
		w.ok(g.Start(tx, tx.ResumeBase()))
		w.send(tx, 100)
		cancel()
		w.ok(<-done)
	}
	if got := w.ports[0].frames.Load(); got != 300 {
		t.Errorf("port got %d frames, want 300", got)
	}
}
