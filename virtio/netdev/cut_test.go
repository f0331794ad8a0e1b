package netdev_test

import (
	"bytes"
	"testing"

	"github.com/gopacket/gopacket/layers"

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

// A relay's checks were too strict for USO, or too lax: the checksum is at UDP's
// offset, and so many datagrams that the receiver would not put up with them
// are refused. Linux's bound was 64 and is 128 since v6.9; the device has the
// newer one, and a port whose kernel is older counts what it refuses.
func TestFault110USOSegments(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		edit func(*virtio.NetHdr)
		want netdev.DropReason
	}{
		{"64 segments", 64 * 400, nil, netdev.DropNone},
		{"128 segments", 128 * 400, nil, netdev.DropNone},
		{"129 segments", 128*400 + 1, nil, netdev.DropBadGSO},
		{"checksum of TCP", 4000, func(h *virtio.NetHdr) { h.CSumOffset = 16 }, netdev.DropBadGSO},
		{"no checksum", 4000, func(h *virtio.NetHdr) { h.Flags = 0 }, netdev.DropBadGSO},
	} {
		h, f := udpGSO(t, virtio.GSOUDPL4, 4, c.n, 400, false)
		if c.edit != nil {
			c.edit(&h)
		}
		w := newWorld(t, setup{})
		w.send(0, h, f)
		w.pollTX(0, netdev.Budget{})
		s := w.dev.Pair(0).TX.Snapshot()
		if c.want == netdev.DropNone && (s.Packets != 1 || s.Segs != uint64(c.n/400)) || c.want != netdev.DropNone && s.Drops[c.want] != 1 {
			t.Errorf("%s: %d packets, %d segments, drops %s", c.name, s.Packets, s.Segs, marshal(t, s.Drops))
		}
	}
}

// The IPv4 header checksum of a packet that was cut included the old value, or
// was in host order.
func TestFault116HeaderChecksum(t *testing.T) {
	h, f := gso(fromGuest(0, 4000), 1448)
	f[14+10], f[14+11] = 0xde, 0xad // not what belongs there
	p := &plainWire{}
	w := newWorld(t, setup{noTX: true})
	w.dev.Pair(0).SetPort(p)
	w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	w.send(0, h, f)
	w.pollTX(0, netdev.Budget{})
	if len(p.frames) != 3 {
		t.Fatalf("%d frames", len(p.frames))
	}
	for _, f := range p.frames {
		verifySums(t, f)
	}
}

// A packet with a partial checksum was relayed without the sum of its
// pseudo-header in the field.
func TestFault118PartialChecksum(t *testing.T) {
	for _, version := range []int{4, 6} {
		for _, full := range []bool{false, true} {
			w := newWorld(t, setup{})
			if full {
				w = newWorld(t, setup{off: virtio.FeatureGuestCSum})
			}
			w.offer(0, 4, 2048)
			f := datagram(t, version, 500, true)
			h := partial(t, f)
			w.deliver(0, h, f)
			got := w.receive(0)
			if len(got) != 1 {
				t.Fatalf("%d frames", len(got))
			}
			if full {
				verifySums(t, got[0].frame)
				continue
			}
			var in frame.Info
			frame.Parse(got[0].frame, &in)
			k, _ := in.Key(got[0].frame)
			want := frame.PseudoSum(k.Src, k.Dst, in.Proto, uint32(len(f)-in.L4))
			if sum := frame.UDP(got[0].frame[in.L4:]).CSum(); sum != want || got[0].hdr.Flags != virtio.HdrNeedsCSum {
				t.Errorf("IPv%d: field %#x, want the pseudo-header's %#x; flags %d", version, sum, want, got[0].hdr.Flags)
			}
		}
	}
}

// A relay zeroed the checksum field of packets that it did not cut, or took
// IPv6 for IPv4: outside the field nothing changes, and with a port or guest that
// takes partial checksums not even that.
func TestFault119RelayTouchesNothing(t *testing.T) {
	for _, c := range cutCases(t) {
		w := newWorld(t, setup{})
		w.send(0, c.hdr, c.frame)
		w.pollTX(0, netdev.Budget{})
		if len(w.wire.frames) != 1 || !bytes.Equal(w.wire.frames[0], c.frame) {
			t.Errorf("%s: what was sent was changed", c.name)
		}
		w = newWorld(t, setup{})
		w.offer(0, 2, 65600)
		w.deliver(0, c.hdr, c.frame)
		if got := w.receive(0); len(got) != 1 || !bytes.Equal(got[0].frame, c.frame) {
			t.Errorf("%s: what was received was changed", c.name)
		}
		if c.hdr.GSOType != virtio.GSONone {
			continue
		}
		w = newWorld(t, setup{off: virtio.FeatureGuestCSum})
		w.offer(0, 2, 2048)
		w.deliver(0, c.hdr, c.frame)
		got := w.receive(0)[0].frame
		at := int(c.hdr.CSumStart + c.hdr.CSumOffset)
		verifySums(t, got)
		copy(got[at:], c.frame[at:at+2])
		if !bytes.Equal(got, c.frame) {
			t.Errorf("%s: completing the checksum changed other bytes", c.name)
		}
	}
}

// A frame was given to the guest with DATA_VALID although it does not know the
// flag, and one with a partial checksum to a DHCP client that verifies it.
func TestFault122FlagsFollowGuestCSum(t *testing.T) {
	f := datagram(t, 4, 300, true)
	p := bytes.Clone(f)
	part := partial(t, p)
	for _, c := range []struct {
		name string
		hdr  virtio.NetHdr
		f    []byte
	}{{"data valid", virtio.NetHdr{Flags: virtio.HdrDataValid}, f}, {"partial", part, p}} {
		w := newWorld(t, setup{off: virtio.FeatureGuestCSum})
		w.offer(0, 2, 2048)
		w.deliver(0, c.hdr, c.f)
		got := w.receive(0)
		if len(got) != 1 || got[0].hdr.Flags != 0 || got[0].hdr.CSumStart != 0 || !bytes.Equal(got[0].frame, f) {
			t.Errorf("%s: header %+v", c.name, got[0].hdr)
		}
		verifySums(t, got[0].frame)
	}
}

// An offload was ignored because the net header was not copied before the frame
// was parsed: TSO in one descriptor, header and all, arrives as TSO.
func TestFault124OneDescriptorTSO(t *testing.T) {
	h, f := gso(fromGuest(0, 60000), 1448)
	w := newWorld(t, setup{})
	w.send(0, h, f)
	w.pollTX(0, netdev.Budget{})
	s := w.dev.Pair(0).TX.Snapshot()
	if len(w.wire.hdrs) != 1 || w.wire.hdrs[0] != h || s.Descs != 1 || s.GSOSegs != 42 {
		t.Errorf("headers %+v, %d descriptors, %d segments", w.wire.hdrs, s.Descs, s.GSOSegs)
	}
}

// Segmentation in software lost flags: PSH and FIN belong on the last segment,
// CWR on the first, sequence numbers and identifications go on.
func TestFault127SegmentFlags(t *testing.T) {
	spec := fromGuest(0, 4000)
	spec.Flags = frame.TCPAck | frame.TCPPsh | frame.TCPFin | frame.TCPCwr
	h, f := gso(spec, 1448)
	p := &plainWire{}
	w := newWorld(t, setup{noTX: true})
	w.dev.Pair(0).SetPort(p)
	w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	w.send(0, h, f)
	w.pollTX(0, netdev.Budget{})
	for i, f := range p.frames {
		g := verifySums(t, f)
		tcp, ip := g.Layer(layers.LayerTypeTCP).(*layers.TCP), g.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
		last := i == len(p.frames)-1
		if !tcp.ACK || tcp.PSH != last || tcp.FIN != last || tcp.CWR != (i == 0) {
			t.Errorf("segment %d: ACK %v PSH %v FIN %v CWR %v", i, tcp.ACK, tcp.PSH, tcp.FIN, tcp.CWR)
		}
		if tcp.Seq != uint32(spec.Seq)+uint32(i*1448) || tcp.Ack != uint32(spec.Ack) || ip.Id != spec.ID+uint16(i) {
			t.Errorf("segment %d: sequence %d, ack %d, identification %d", i, tcp.Seq, tcp.Ack, ip.Id)
		}
	}
	if len(p.frames) != 3 {
		t.Errorf("%d segments", len(p.frames))
	}
}

// The guest was told that more was used than it had posted, and refused the
// buffer: what a TX chain comes back with is 0, what an RX chain comes back with
// is at most its length.
func TestFault107UsedLength(t *testing.T) {
	w := newWorld(t, setup{})
	for _, c := range cutCases(t) {
		w.send(0, c.hdr, c.frame)
	}
	w.pollTX(0, netdev.Budget{})
	for {
		_, n, ok := w.tx[0].Reap()
		if !ok {
			break
		}
		if n != 0 {
			t.Errorf("a transmitted chain comes back with %d bytes", n)
		}
	}
	for _, size := range []int{60, 100, 1526, 4096} {
		w.offer(0, 100, size)
		for _, c := range cutCases(t) {
			w.deliver(0, c.hdr, c.frame)
			w.receive(0) // fails if one is too long
		}
	}
}
