package netdev_test

import (
	"bytes"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// plainWire is a wire that takes only some offloads.
type plainWire struct {
	wire
	takes virtio.Features
}

func (p *plainWire) Offloads() virtio.Features { return p.takes }

// allOffloads is what the device may leave to a port.
const allOffloads = virtio.FeatureCSum | virtio.FeatureHostTSO4 | virtio.FeatureHostTSO6 |
	virtio.FeatureHostECN | virtio.FeatureHostUFO | virtio.FeatureHostUSO

// cutCase is a frame of the guest's and how many the wire gets of it.
type cutCase struct {
	name  string
	hdr   virtio.NetHdr
	frame []byte
	need  virtio.Features // without which the port does not take it
	want  int
}

func cutCases(t *testing.T) []cutCase {
	add := func(name string, h virtio.NetHdr, f []byte, need virtio.Features, want int) cutCase {
		return cutCase{name, h, f, need | virtio.FeatureCSum, want}
	}
	var all []cutCase
	h, f := gso(fromGuest(0, 10000), 1448)
	all = append(all, add("tso4", h, f, virtio.FeatureHostTSO4, 7))
	h.GSOType |= virtio.GSOECN
	all = append(all, add("tso4 with ecn", h, f, virtio.FeatureHostTSO4|virtio.FeatureHostECN, 7))
	h, f = gso(over6(fromGuest(0, 10000)), 1428)
	all = append(all, add("tso6", h, f, virtio.FeatureHostTSO6, 8))
	h, f = gso(over(fromGuest(0, 3000), 7), 1448)
	all = append(all, add("tso4 in a vlan", h, f, virtio.FeatureHostTSO4, 3))
	for _, v := range []int{4, 6} {
		h, f = udpGSO(t, virtio.GSOUDPL4, v, 10000, 1000, false)
		all = append(all, add("uso", h, f, virtio.FeatureHostUSO, 10))
		h, f = udpGSO(t, virtio.GSOUDP, v, 10000, 1448, false)
		all = append(all, add("ufo", h, f, virtio.FeatureHostUFO, 7))
		f = datagram(t, v, 500, false)
		all = append(all, add("udp checksum", partial(t, f), f, 0, 1))
	}
	f = build(fromGuest(0, 500))
	all = append(all, add("tcp checksum", partial(t, f), f, 0, 1))
	return all
}

// TestCut: what the port does not take, the device makes plain frames of, with
// the right checksums, and the payload is that of the guest.
func TestCut(t *testing.T) {
	for _, c := range cutCases(t) {
		for _, takes := range []virtio.Features{0, allOffloads &^ c.need, allOffloads &^ (c.need &^ virtio.FeatureCSum), allOffloads} {
			t.Run(c.name, func(t *testing.T) {
				p := &plainWire{takes: takes}
				w := newWorld(t, setup{noTX: true})
				w.dev.Pair(0).SetPort(p)
				w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
				w.send(0, c.hdr, c.frame)
				w.pollTX(0, netdev.Budget{})
				s := w.dev.Pair(0).TX.Snapshot()
				if s.Packets != 1 || w.reap(w.tx[0]) != 1 || p.flush == 0 {
					t.Fatalf("%d packets, drops %s", s.Packets, marshal(t, s.Drops))
				}
				if takes.Has(c.need) {
					if len(p.frames) != 1 || p.hdrs[0].GSOType != c.hdr.GSOType || s.Cut != 0 {
						t.Fatalf("%d frames of what the port takes", len(p.frames))
					}
					return
				}
				if len(p.frames) != c.want || s.Cut != uint64(c.want) {
					t.Fatalf("%d frames, %d counted, want %d", len(p.frames), s.Cut, c.want)
				}
				p.checkPlain(t, c)
			})
		}
	}
}

// checkPlain verifies frames that the device made.
func (p *plainWire) checkPlain(t *testing.T, c cutCase) {
	t.Helper()
	var whole frame.Info
	frame.Parse(c.frame, &whole)
	want, got := c.frame[whole.Payload:], []byte(nil)
	for i, f := range p.frames {
		if p.hdrs[i] != (virtio.NetHdr{}) {
			t.Errorf("frame %d has header %+v", i, p.hdrs[i])
		}
		if c.hdr.GSOType == virtio.GSOUDP {
			got = append(got, fragmentPayload(t, f)...)
			continue
		}
		verifySums(t, f)
		got = append(got, payloadOf(f)...)
	}
	if c.hdr.GSOType == virtio.GSOUDP {
		datagram := append(bytes.Clone(c.frame[:whole.L4]), got...)
		verifySums(t, datagram) // put together again, the checksum is right
		got = got[8:]
	}
	if !bytes.Equal(got, want) {
		t.Error("the payload is damaged")
	}
}

func fragmentPayload(t *testing.T, f []byte) []byte {
	t.Helper()
	var in frame.Info
	frame.Parse(f, &in)
	if in.EtherType == frame.EtherTypeIPv4 {
		verifySums(t, f[:in.L4]) // the IP header's
		return f[in.L4:]
	}
	return f[in.L3+frame.IPv6Len+8:]
}

// TestCutPortFull: a port that fills up in the middle gets the rest later, and
// nothing else in between; the chain goes back after the last piece.
func TestCutPortFull(t *testing.T) {
	p := &plainWire{wire: wire{room: 3}}
	w := newWorld(t, setup{noTX: true})
	w.dev.Pair(0).SetPort(p)
	w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	h, f := gso(fromGuest(0, 10000), 1448)
	small := build(fromGuest(1, 10))
	w.send(0, h, f)
	w.send(0, virtio.NetHdr{}, small)
	tx := w.dev.Pair(0).TX
	for rounds := 0; len(p.frames) < 8; rounds++ {
		w.pollTX(0, netdev.Budget{})
		if used, _ := w.used(w.tx[0]); len(p.frames) < 7 && used != 0 || rounds > 9 {
			t.Fatalf("used index %d after %d frames", used, len(p.frames))
		}
		if !tx.Blocked() {
			continue
		}
		w.pollTX(0, netdev.Budget{})
		if len(p.frames) != p.sent || p.sent != p.room {
			t.Fatal("a blocked queue sends")
		}
		p.room += 3
		tx.Writable(w.now)
	}
	if !bytes.Equal(p.frames[7], small) || !bytes.Equal(payloadOf(p.frames[:7]...), payloadOf(f)) {
		t.Error("the frames are out of order or damaged")
	}
	if n := w.reap(w.tx[0]); n != 2 || tx.InFlight() != 0 {
		t.Errorf("%d chains came back, %d in flight", n, tx.InFlight())
	}
}

// TestCutManyPieces: one frame that becomes thousands does not keep other queues
// waiting; what is behind it comes behind it.
func TestCutManyPieces(t *testing.T) {
	p := &plainWire{}
	w := newWorld(t, setup{noTX: true})
	w.dev.Pair(0).SetPort(p)
	w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	h, f := gso(fromGuest(0, 20000), 8)
	w.send(0, h, f)
	w.send(0, virtio.NetHdr{}, build(fromGuest(1, 10)))
	tx := w.dev.Pair(0).TX
	for last := 0; len(p.frames) < 2501; last = len(p.frames) {
		if tx.Next(w.now) != w.now || !tx.Rearm() {
			t.Fatalf("the queue rests after %d frames", len(p.frames))
		}
		w.pollTX(0, netdev.Budget{})
		if n := len(p.frames) - last; n > 257 || n == 0 {
			t.Fatalf("%d frames in one poll", n)
		}
	}
	if !bytes.Equal(payloadOf(p.frames[:2500]...), payloadOf(f)) || w.reap(w.tx[0]) != 2 {
		t.Error("the frames are out of order or damaged")
	}
}

// TestCutStopped: a queue that stops in the middle gives the chain back, and
// starts anew without the rest.
func TestCutStopped(t *testing.T) {
	p := &plainWire{wire: wire{room: 2}}
	w := newWorld(t, setup{noTX: true})
	w.dev.Pair(0).SetPort(p)
	w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	h, f := gso(fromGuest(0, 10000), 1448)
	w.send(0, h, f)
	w.pollTX(0, netdev.Budget{})
	q, _ := w.dev.Pair(0).DetachTX(w.now)
	if n := w.reap(w.tx[0]); n != 1 {
		t.Fatalf("%d chains came back", n)
	}
	p.room = 0
	w.dev.Pair(0).AttachTX(w.now, q)
	w.dev.Pair(0).TX.Writable(w.now)
	w.send(0, virtio.NetHdr{}, build(fromGuest(1, 10)))
	w.pollTX(0, netdev.Budget{})
	if len(p.frames) != 3 {
		t.Errorf("%d frames, want two of before and one", len(p.frames))
	}
	w.dev.Pair(0).SetPort(nil)
	w.send(0, h, f)
	w.pollTX(0, netdev.Budget{})
	if s := w.dev.Pair(0).TX.Snapshot(); s.Drops[netdev.DropNoPort] != 1 {
		t.Errorf("drops %s", marshal(t, s.Drops))
	}
}

// TestCutRechecks: the copy that is cut is looked at, not what the guest had
// there before: a guest that changes its headers meanwhile harms itself only.
func TestCutRechecks(t *testing.T) {
	p := &plainWire{}
	w := newWorld(t, setup{noTX: true})
	w.dev.Pair(0).SetPort(p)
	w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	h, f := gso(fromGuest(0, 3000), 1448)
	p.onSend = func(netdev.Token) { clear(w.raw[len(w.raw)/2:]) }
	w.send(0, h, f)
	w.pollTX(0, netdev.Budget{})
	for _, f := range p.frames {
		verifySums(t, f)
	}
	if len(p.frames) != 3 {
		t.Errorf("%d frames", len(p.frames))
	}
}

// TestCutDoesNotAllocate once its scratch has grown.
func TestCutDoesNotAllocate(t *testing.T) {
	p := &plainWire{wire: wire{discard: true}}
	w := newWorld(t, setup{noTX: true})
	w.dev.Pair(0).SetPort(p)
	w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	h, f := gso(fromGuest(0, 10000), 1448)
	bufs := w.store(append(w.encode(h), f...))
	once := func() {
		if err := w.tx[0].Add(bufs, nil, 0); err != nil {
			t.Fatal(err)
		}
		w.tx[0].Publish()
		w.dev.Pair(0).TX.Poll(w.now, netdev.Budget{})
		w.tx[0].Reap()
	}
	if n := testing.AllocsPerRun(100, once); n != 0 {
		t.Errorf("%v allocations for a packet that is cut", n)
	}
}

// TestInject sends a frame of the host's own.
func TestInject(t *testing.T) {
	w := newWorld(t, setup{})
	f := frame.AppendRARP(nil, guestMAC)
	if !w.dev.Pair(0).Inject(w.now, f) || len(w.wire.frames) != 1 || !bytes.Equal(w.wire.frames[0], f) || w.wire.flush != 1 {
		t.Errorf("%d frames", len(w.wire.frames))
	}
	w.dev.Pair(0).TX.Complete(w.wire.tokens[0], w.now)
	if s := w.dev.Pair(0).TX.Snapshot(); s.Packets != 0 || s.StaleTokens != 1 {
		t.Errorf("%d packets, %d stale tokens", s.Packets, s.StaleTokens)
	}
	w.wire.result = netdev.Full
	if w.dev.Pair(0).Inject(w.now, f) {
		t.Error("a full port took a frame")
	}
	w.dev.Pair(0).SetPort(nil)
	if w.dev.Pair(0).Inject(w.now, f) {
		t.Error("no port took a frame")
	}
}

// TestGSOOfUDP: USO and UFO reach a port that takes them and a guest that takes
// them as they are, and others in pieces.
func TestGSOOfUDP(t *testing.T) {
	for _, c := range []struct {
		name       string
		kind       uint8
		version, n int
		off        virtio.Features
		want       int
	}{
		{"uso", virtio.GSOUDPL4, 4, 5000, 0, 1},
		{"uso of ipv6", virtio.GSOUDPL4, 6, 5000, 0, 1},
		{"ufo", virtio.GSOUDP, 4, 5000, 0, 1},
		{"uso not taken", virtio.GSOUDPL4, 4, 5000, virtio.FeatureGuestUSO4, 5},
		{"uso of ipv6 not taken", virtio.GSOUDPL4, 6, 5000, virtio.FeatureGuestUSO6, 5},
		{"the other not taken", virtio.GSOUDPL4, 6, 5000, virtio.FeatureGuestUSO4, 1},
		{"ufo not taken", virtio.GSOUDP, 4, 5000, virtio.FeatureGuestUFO, 6},
		{"no checksums", virtio.GSOUDPL4, 4, 5000, virtio.FeatureGuestCSum, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, setup{off: c.off})
			w.offer(0, 16, 65600)
			h, f := udpGSO(t, c.kind, c.version, c.n, 1000, true)
			if r := w.deliver(0, h, f); r != netdev.DropNone {
				t.Fatal(r)
			}
			got := w.receive(0)
			if len(got) != c.want {
				t.Fatalf("%d frames, want %d", len(got), c.want)
			}
			if c.want == 1 {
				if got[0].hdr.GSOType != c.kind || got[0].hdr.GSOSize != 1000 || !bytes.Equal(got[0].frame, f) {
					t.Errorf("header %+v", got[0].hdr)
				}
				return
			}
			for _, g := range got {
				if g.hdr.GSOType != 0 || g.hdr.Flags&virtio.HdrNeedsCSum != 0 {
					t.Errorf("header %+v", g.hdr)
				}
				if c.kind == virtio.GSOUDPL4 {
					verifySums(t, g.frame)
				}
			}
		})
	}
}
