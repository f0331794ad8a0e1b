package vhost_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// place tells the back-end everything about a ring but its kick descriptor.
func (w *world) place(g *frontend.Guest, r *frontend.Ring, base uint16) {
	w.t.Helper()
	i := uint32(r.Index)
	w.ok(g.Tell(wire.SetVringNum, wire.VringState{Index: i, Num: uint32(r.Config.Size)}))
	w.ok(g.Tell(wire.SetVringBase, wire.VringState{Index: i, Num: uint32(base)}))
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
	w := newWorld(t, 1)
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

// TestFault050CallComesLate gives the call descriptor when a call is long due.
func TestFault050CallComesLate(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.ring(g, 1)
	w.place(g, tx, 0)
	w.ok(g.Enable(1, true))
	w.tellFD(g, wire.SetVringKick, 1, tx.Kick)
	tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
	tx.ForceKick()
	w.eventually("the buffer comes back", tx.HasUsed)
	w.tellFD(g, wire.SetVringCall, 1, tx.Call)
	if n := tx.WaitCall(5 * time.Second); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
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
	hold bool
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

// TestFault064FirstCall starts a ring whose used_event asks for no call for a
// long time: what an earlier device has promised is not known.
func TestFault064FirstCall(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	for _, event := range []uint16{0, 1, 30000, 65535} {
		tx := w.ring(g, 1)
		tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
		tx.Poke(tx.Config.Avail+4+2*256, event)
		w.ok(g.Start(tx, 0))
		if n := tx.WaitCall(5 * time.Second); n != 1 {
			t.Errorf("used_event %d: %d calls, want 1", event, n)
		}
		_, err := g.Stop(1)
		w.ok(err)
		tx.Close()
	}
	clear(g.Rings)
}

// TestFault073KickReadTwice counts every kick once, whoever else reads the
// descriptor.
func TestFault073KickReadTwice(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	for range 100 {
		tx.ForceKick()
		readCount(tx.Kick) // whoever is first gets it
	}
	w.send(tx, 10)
	if s := w.srv.Stats().Pairs[0].TX; s.Kicks > tx.Kicks || s.KicksCoalesced > 100 {
		t.Errorf("%d kicks counted, %d coalesced, %d sent", s.Kicks, s.KicksCoalesced, tx.Kicks)
	}
}

// TestFault074FullPipe gives a full pipe for the call descriptor, and a pipe
// for the kick descriptor.
func TestFault074FullPipe(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	var call, kick [2]int
	w.ok(unix.Pipe2(call[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	w.ok(unix.Pipe2(kick[:], unix.O_CLOEXEC))
	t.Cleanup(func() { osio.CloseAll(append(call[:], kick[:]...)) })
	for full := make([]byte, 4096); ; {
		if _, err := unix.Write(call[1], full); err != nil {
			break
		}
	}
	w.tellFD(g, wire.SetVringCall, 1, call[1])
	w.tellFD(g, wire.SetVringKick, 1, kick[0])
	before := w.srv.Stats().Pairs[0].TX
	for i := range 20 {
		tx.EnableCalls()
		tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
		w.ok(osio.WriteEvent(kick[1]))
		w.eventually("the buffer comes back", func() bool { _, _, ok := tx.Done(); return ok })
		_ = i
	}
	after := w.srv.Stats().Pairs[0].TX
	if after.CallsFailed != 0 || after.Calls == before.Calls {
		t.Errorf("%d calls, %d failed", after.Calls-before.Calls, after.CallsFailed)
	}
	if got := after.Kicks - before.Kicks; got != 20 {
		t.Errorf("%d kicks through the pipe, want 20", got)
	}
	// The other end goes away: that is no busy loop, and the ring can get
	// another descriptor.
	osio.Close(kick[1])
	kick[1] = -1
	time.Sleep(5 * time.Millisecond)
	w.tellFD(g, wire.SetVringKick, 1, tx.Kick)
	w.tellFD(g, wire.SetVringCall, 1, tx.Call)
	w.send(tx, 5)
}

// TestPolledRing has neither kick nor call descriptors.
func TestPolledRing(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.ring(g, 1)
	w.place(g, tx, 0)
	w.ok(g.Enable(1, true))
	w.ok(g.Tell(wire.SetVringKick, wire.VringFD{Index: 1, NoFD: true}))
	w.ok(g.Tell(wire.SetVringCall, wire.VringFD{Index: 1, NoFD: true}))
	for range 10 {
		tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
		w.eventually("the buffer comes back", func() bool { _, _, ok := tx.Done(); return ok })
	}
}

// TestFault091AvailJump breaks a ring: it rests, the others run, and a reset
// mends it.
func TestFault091AvailJump(t *testing.T) {
	w := newWorld(t, 2)
	g := w.connect()
	bad, good := w.start(g, 1), w.start(g, 3)
	breakRing(bad)
	bad.ForceKick()
	w.eventually("the ring is broken", func() bool { return w.lastStats().RingsBroken == 1 })
	for range 10 {
		bad.ForceKick()
	}
	w.send(good, 100)
	w.ok(g.Tell(wire.ResetDevice, wire.Empty{}))
	bad.Close()
	w.send(w.start(g, 1), 10)
	if s, err := g.AskNumber(wire.GetStatus); err != nil || s != 0 {
		t.Errorf("status %#x, %v", s, err)
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
	tso := virtio.FeatureGuestTSO4 | virtio.FeatureGuestTSO6 | virtio.FeatureGuestECN
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

// TestFault154SharedCall has one call descriptor for all rings.
func TestFault154SharedCall(t *testing.T) {
	w := newWorld(t, 2)
	g := w.connect()
	shared := eventfds(t, 1)[0]
	var txs []*frontend.Ring
	for i := range 2 {
		tx := w.start(g, 2*i+1)
		w.tellFD(g, wire.SetVringCall, tx.Index, shared)
		txs = append(txs, tx)
	}
	var calls uint64
	for round := range 50 {
		for _, tx := range txs {
			tx.EnableCalls()
			tx.Transmit(&virtio.NetHdr{}, frameOf(60, byte(round)))
			tx.Notify()
		}
		for _, tx := range txs {
			w.eventually("the buffer comes back", func() bool { _, _, ok := tx.Done(); return ok })
		}
	}
	w.eventually("every call is counted once", func() bool {
		calls += readCount(shared)
		s := w.srv.Stats()
		return calls == s.Pairs[0].TX.Calls+s.Pairs[1].TX.Calls
	})
	if calls == 0 {
		t.Error("no call at all")
	}
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
