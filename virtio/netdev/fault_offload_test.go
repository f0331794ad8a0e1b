package netdev_test

import (
	"bytes"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

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
