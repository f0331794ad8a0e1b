package vhost_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// behindIOMMU is a guest whose addresses are not those of its memory: the
// front-end translates them, a page at a time, when the back-end asks.
type behindIOMMU struct {
	*world
	g       *frontend.Guest
	channel *frontend.Conn // the back-end's requests
	asked   int
	known   map[uint64]uint8       // pages that were translated, and what for
	grant   func(wire.IOTLB) uint8 // what a page is translated for that was asked for; nil: that
}

// iovaBase is how much higher the driver's addresses are than the guest's
// physical ones.
const iovaBase = 1 << 40

func newBehindIOMMU(t *testing.T, f virtio.Features) *behindIOMMU {
	w := newWorld(t, 1, func(c *vhost.Config) {
		c.Device.Features = (netdev.DefaultFeatures | virtio.FeatureAccessPlatform) &^ virtio.FeatureMQ
	})
	b := &behindIOMMU{world: w, g: w.dial(), known: make(map[uint64]uint8)}
	w.ok(b.g.Negotiate(f|virtio.FeatureAccessPlatform, vhost.ProtocolOffer))
	if !b.g.Features.Has(virtio.FeatureAccessPlatform) {
		t.Fatal("ACCESS_PLATFORM is not offered")
	}
	sock, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	w.ok(err)
	w.ok(b.g.Tell(wire.SetBackendReqFD, wire.Empty{}, sock[1]))
	osio.Close(sock[1])
	b.channel, err = frontend.ConnOf(sock[0])
	w.ok(err)
	t.Cleanup(func() { b.channel.Close() })
	// The memory's addresses are the driver's; the back-end is told others.
	m := b.g.Memory
	b.g.Memory, err = frontend.NewMemory(iovaBase, 32<<20)
	w.ok(err)
	m.Close()
	table, fds := b.g.Memory.Table()
	r := table.Regions[0]
	r.GPA = 0
	w.ok(b.g.Tell(wire.SetMemTable, wire.MemTable{Regions: []wire.Region{r}}, fds...))
	return b
}

// ring sets a ring up, whose addresses are the driver's.
func (b *behindIOMMU) ring(i int) *frontend.Ring {
	b.t.Helper()
	r := b.world.ring(b.g, i)
	c := r.Config
	info := r.Info(c.Base)
	info.Addr = wire.VringAddr{Index: uint32(i), Desc: c.Desc, Avail: c.Avail, Used: c.Used}
	f := &frontend.Front{Profile: frontend.Crosvm(), Rings: []frontend.RingInfo{info}}
	b.ok(b.g.Play(f.RingsOnly()))
	return r
}

// answer translates what the back-end has asked for.
func (b *behindIOMMU) answer() {
	b.t.Helper()
	for b.channel.Waits(time.Millisecond) {
		m, err := b.channel.RecvBackend()
		b.ok(err)
		v, ok := m.Payload.(wire.IOTLB)
		if !ok || v.Type != 1 || m.Request != wire.Request(wire.BackendIOTLB) {
			b.t.Fatalf("asked %v", m)
		}
		b.asked++
		page, perm := v.IOVA&^4095, v.Perm
		if b.grant != nil {
			perm = b.grant(v)
		}
		b.known[page] |= perm
		b.tell(wire.IOTLB{IOVA: page, Size: 4096, UVA: b.g.Memory.UVA(page), Perm: b.known[page], Type: 2})
	}
}

func (b *behindIOMMU) tell(v wire.IOTLB) {
	b.t.Helper()
	p, err := b.g.Ask(wire.IOTLBMsg, v)
	b.ok(err)
	if p != wire.U64(0) {
		b.t.Fatalf("%+v is answered by %v", v, p)
	}
}

// until answers until the condition holds.
func (b *behindIOMMU) until(what string, ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); b.answer() {
		if time.Now().After(end) {
			b.t.Fatalf("not in time: %s; asked %d times, session %+v", what, b.asked, b.lastSession())
		}
	}
}

// TestTranslation sends and receives with addresses that are translated when they
// are first used; takes translations back, of buffers and of the rings
// themselves; and finds that nothing is lost meanwhile.
func TestTranslation(t *testing.T) {
	for name, f := range ringKinds() {
		t.Run(name, func(t *testing.T) {
			b := newBehindIOMMU(t, f&^virtio.FeatureMQ)
			rx, tx := b.ring(0), b.ring(1)
			rx.Post()
			b.until("the rings start", func() bool { return b.lastStats().RingStarts == 2 })
			for round := range 3 {
				got, before := 0, b.ports[0].frames.Load()
				for range 100 {
					tx.Transmit(&virtio.NetHdr{}, frameOf(1000, byte(round)))
				}
				tx.ForceKick()
				b.until("the frames come back", func() bool {
					for _, _, ok := tx.Done(); ok; _, _, ok = tx.Done() {
						got++
					}
					return got == 100
				})
				if n := b.ports[0].frames.Load() - before; n != 100 {
					t.Errorf("port got %d frames, want 100", n)
				}
				if last := b.ports[0].lastFrame(); last[14] != byte(round) {
					t.Errorf("port got a frame with tag %d in round %d", last[14], round)
				}
				b.receiveOne(rx, byte(round))
				b.takeBack(round, tx)
			}
			if b.asked < 20 || b.lastStats().Refused != 0 {
				t.Errorf("asked for %d translations, %+v", b.asked, b.lastStats())
			}
		})
	}
}

func (b *behindIOMMU) receiveOne(rx *frontend.Ring, tag byte) {
	b.t.Helper()
	b.ports[0].deliver(frameOf(900, tag))
	rx.ForceKick()
	b.until("a frame is received", func() bool {
		token, n, ok := rx.Done()
		if ok && (int(n) != virtio.NetHdrLen+900 || rx.Buffer(token)[virtio.NetHdrLen+14] != tag) {
			b.t.Errorf("received %d bytes with tag %d, want tag %d", n, rx.Buffer(token)[virtio.NetHdrLen+14], tag)
		}
		return ok
	})
	rx.Post()
}

// takeBack invalidates the pages of buffers, and then everything.
func (b *behindIOMMU) takeBack(round int, tx *frontend.Ring) {
	b.t.Helper()
	if round == 0 {
		b.tell(wire.IOTLB{IOVA: tx.BufferGPA(0), Size: 256 * 4096, Type: 3})
		return
	}
	stops := b.lastStats().RingStops
	b.tell(wire.IOTLB{IOVA: 0, Size: 1<<64 - 1, Type: 3})
	b.eventually("the rings stop", func() bool { return b.lastStats().RingStops == stops+2 })
}

// TestTranslationPermissions translates a buffer for the wrong access, a frame's to
// read for the one that is to be filled and to write for the one that is to be
// sent. Nothing is written or sent, the denial is counted, nobody asks again, and
// the other ring goes on. Once the page is translated for the right one, so does
// this.
func TestTranslationPermissions(t *testing.T) {
	const read, write = 1, 2
	for name, f := range ringKinds() {
		t.Run(name, func(t *testing.T) {
			b := newBehindIOMMU(t, f&^virtio.FeatureMQ)
			rx, tx := b.ring(0), b.ring(1)
			b.until("the rings start", func() bool { return b.lastStats().RingStarts == 2 })

			b.grant = func(v wire.IOTLB) uint8 { return read + write - v.Perm }
			rx.Post()
			rx.ForceKick()
			b.ports[0].deliver(frameOf(900, 7))
			b.until("filling is denied", func() bool { return b.lastStats().TranslationDenials == 1 })
			b.grant = nil
			b.send1(tx, 1)
			if _, _, ok := rx.Done(); ok || b.lastStats().TranslationDenials != 1 {
				t.Errorf("filled: %v, %+v", ok, b.lastStats())
			}
			b.again(rx)
			b.until("the frame is received", func() bool { _, n, ok := rx.Done(); return ok && n == virtio.NetHdrLen+900 })

			page := tx.BufferGPA(1)
			b.tell(wire.IOTLB{IOVA: tx.BufferGPA(0), Size: 256 * 4096, Type: 3})
			clear(b.known)
			b.grant = func(v wire.IOTLB) uint8 { return read + write - v.Perm }
			before := b.ports[0].frames.Load()
			tx.Transmit(&virtio.NetHdr{}, frameOf(1000, 2))
			tx.ForceKick()
			b.until("reading is denied", func() bool { return b.lastStats().TranslationDenials == 2 })
			if n := b.ports[0].frames.Load(); n != before {
				t.Errorf("%d frames were sent out of page %#x, which may only be written", n-before, page)
			}
			b.grant = nil
			b.again(tx)
			b.until("the frame is sent", func() bool { return b.ports[0].frames.Load() == before+1 })
			if b.lastStats().TranslationDenials != 2 || b.lastStats().Refused != 0 {
				t.Errorf("%+v", b.lastStats())
			}
		})
	}
}

// send1 sends a frame and waits for its buffer.
func (b *behindIOMMU) send1(tx *frontend.Ring, tag byte) {
	b.t.Helper()
	tx.Transmit(&virtio.NetHdr{}, frameOf(1000, tag))
	tx.ForceKick()
	b.until("a frame comes back", func() bool { _, _, ok := tx.Done(); return ok })
}

// again takes the translations of a ring's buffers back, as a driver's unmapping does.
func (b *behindIOMMU) again(r *frontend.Ring) {
	b.t.Helper()
	clear(b.known)
	b.tell(wire.IOTLB{IOVA: r.BufferGPA(0), Size: 256 * 4096, Type: 3})
	r.ForceKick()
}

// TestTranslationRefusals sends what is no translation.
func TestTranslationRefusals(t *testing.T) {
	b := newBehindIOMMU(t, everything&^virtio.FeatureMQ)
	for _, v := range []wire.IOTLB{
		{IOVA: 4096, Size: 0, Perm: 3, Type: 2}, {IOVA: 1<<64 - 4096, Size: 8192, Perm: 3, Type: 2},
		{IOVA: 4096, Size: 4096, Perm: 0, Type: 2}, {IOVA: 4096, Size: 4096, Perm: 4, Type: 2},
		{IOVA: 0, Size: 4096, UVA: 1<<64 - 1, Perm: 3, Type: 2}, {Type: 0}, {Type: 1}, {Type: 4}, {Type: 255},
	} {
		if p, err := b.g.Ask(wire.IOTLBMsg, v); err != nil || p == wire.U64(0) {
			t.Errorf("%+v is answered by %v, %v", v, p, err)
		}
	}
	b.tell(wire.IOTLB{IOVA: 0, Size: 4096, UVA: 1, Perm: 3, Type: 2}) // in no region: of no use, and no harm
	for i := range uint64(5000) {                                     // more than are kept
		b.tell(wire.IOTLB{IOVA: i << 20, Size: 4096, UVA: b.g.Memory.UVA(iovaBase), Perm: 3, Type: 2})
	}
	plain := newWorld(t, 1)
	g := plain.connect()
	if p, err := g.Ask(wire.IOTLBMsg, wire.IOTLB{IOVA: 0, Size: 4096, Type: 2}); err != nil || p == wire.U64(0) {
		t.Errorf("without ACCESS_PLATFORM: %v, %v", p, err)
	}
}
