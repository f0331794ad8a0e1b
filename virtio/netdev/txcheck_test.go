package netdev_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

var (
	guestIP6 = frame.Addr{0: 0xfd, 15: 2}
	peerIP6  = frame.Addr{0: 0xfd, 15: 1}
)

func over6(s frame.TCPSpec) frame.TCPSpec {
	s.Src, s.Dst = guestIP6, peerIP6
	return s
}

func over(s frame.TCPSpec, vlan uint16) frame.TCPSpec {
	s.VLAN = vlan
	return s
}

// ackOf is a pure acknowledgement.
func ackOf(s frame.TCPSpec) frame.TCPSpec {
	s.Payload, s.Flags = nil, frame.TCPAck
	return s
}

// udp makes a UDP frame out of a TCP one: the headers' lengths do not matter to
// the device.
func udp(f []byte) []byte {
	f = bytes.Clone(f)
	f[14+9] = frame.ProtoUDP
	return f
}

// txHeader is a net header, the frame behind it, and what becomes of it.
type txHeader struct {
	name  string
	off   virtio.Features // not negotiated
	hdr   virtio.NetHdr
	frame []byte
	want  netdev.DropReason
	sent  virtio.NetHdr // if not dropped
}

// txHeaders edit the headers of valid packets.
func txHeaders() []txHeader {
	v4, f4 := gso(fromGuest(0, 10000), 1448)
	v6, f6 := gso(over6(fromGuest(0, 10000)), 1428)
	vlan, fvlan := gso(over(fromGuest(0, 10000), 7), 1448)
	plain := build(fromGuest(0, 1000))
	csum := virtio.NetHdr{Flags: virtio.HdrNeedsCSum, CSumStart: 34, CSumOffset: 16}
	none := virtio.Features(0)
	noMTU := virtio.FeatureMTU
	edit := func(h virtio.NetHdr, f func(*virtio.NetHdr)) virtio.NetHdr { f(&h); return h }
	return []txHeader{
		{"no offload", none, virtio.NetHdr{}, plain, netdev.DropNone, virtio.NetHdr{}},
		{"checksum", none, csum, plain, netdev.DropNone, csum},
		{"tso4", none, v4, f4, netdev.DropNone, v4},
		{"tso6", none, v6, f6, netdev.DropNone, v6},
		{"tso4 in a vlan", none, vlan, fvlan, netdev.DropNone, vlan},
		{"tso4 with ecn", none, edit(v4, func(h *virtio.NetHdr) { h.GSOType |= virtio.GSOECN }), f4, netdev.DropNone,
			edit(v4, func(h *virtio.NetHdr) { h.GSOType |= virtio.GSOECN })},
		{"unknown flags and fields without a flag are cleared", none,
			virtio.NetHdr{Flags: 0xfe, HdrLen: 9, GSOSize: 8, CSumStart: 7, CSumOffset: 6, NumBuffers: 5}, plain,
			netdev.DropNone, virtio.NetHdr{}},
		{"checksum at the very end", none, edit(csum, func(h *virtio.NetHdr) { h.CSumStart = uint16(len(plain) - 18) }), plain,
			netdev.DropNone, edit(csum, func(h *virtio.NetHdr) { h.CSumStart = uint16(len(plain) - 18) })},
		{"checksum past the end", none, edit(csum, func(h *virtio.NetHdr) { h.CSumStart = uint16(len(plain) - 17) }), plain, netdev.DropBadCSum, virtio.NetHdr{}},
		{"checksum offset wraps 16 bits", none, edit(csum, func(h *virtio.NetHdr) { h.CSumOffset = 65535 }), plain, netdev.DropBadCSum, virtio.NetHdr{}},
		{"checksum not negotiated", virtio.FeatureCSum, csum, plain, netdev.DropOffload, virtio.NetHdr{}},
		{"tso4 not negotiated", virtio.FeatureHostTSO4, v4, f4, netdev.DropOffload, virtio.NetHdr{}},
		{"tso6 not negotiated", virtio.FeatureHostTSO6, v6, f6, netdev.DropOffload, virtio.NetHdr{}},
		{"ecn not negotiated", virtio.FeatureHostECN, edit(v4, func(h *virtio.NetHdr) { h.GSOType |= virtio.GSOECN }), f4, netdev.DropOffload, virtio.NetHdr{}},
		{"gso without checksum", none, edit(v4, func(h *virtio.NetHdr) { h.Flags = 0 }), f4, netdev.DropBadGSO, virtio.NetHdr{}},
		{"tso4 of ipv6", none, edit(v6, func(h *virtio.NetHdr) { h.GSOType = virtio.GSOTCPv4 }), f6, netdev.DropBadGSO, virtio.NetHdr{}},
		{"tso6 of ipv4", none, edit(v4, func(h *virtio.NetHdr) { h.GSOType = virtio.GSOTCPv6 }), f4, netdev.DropBadGSO, virtio.NetHdr{}},
		{"tso4 of udp", none, v4, udp(f4), netdev.DropBadGSO, virtio.NetHdr{}},
		{"gso type udp", none, edit(v4, func(h *virtio.NetHdr) { h.GSOType = virtio.GSOUDP }), f4, netdev.DropBadGSO, virtio.NetHdr{}},
		{"gso type udp of tcp not negotiated", virtio.FeatureHostUFO, edit(v4, func(h *virtio.NetHdr) { h.GSOType = virtio.GSOUDP }), f4, netdev.DropOffload, virtio.NetHdr{}},
		{"gso type 2", none, edit(v4, func(h *virtio.NetHdr) { h.GSOType = 2 }), f4, netdev.DropBadGSO, virtio.NetHdr{}},
		{"ecn without a type", none, edit(v4, func(h *virtio.NetHdr) { h.GSOType = virtio.GSOECN }), f4, netdev.DropBadGSO, virtio.NetHdr{}},
		{"gso checksum elsewhere", none, edit(v4, func(h *virtio.NetHdr) { h.CSumStart = 14 }), f4, netdev.DropBadGSO, virtio.NetHdr{}},
		{"frame over the mtu", none, virtio.NetHdr{}, build(fromGuest(0, 1449)), netdev.DropMTU, virtio.NetHdr{}},
		{"frame at the mtu", none, virtio.NetHdr{}, build(fromGuest(0, 1448)), netdev.DropNone, virtio.NetHdr{}},
		{"frame at the mtu in a vlan", none, virtio.NetHdr{}, build(over(fromGuest(0, 1448), 9)), netdev.DropNone, virtio.NetHdr{}},
		{"segment over the mtu", none, edit(v4, func(h *virtio.NetHdr) { h.GSOSize = 1449 }), f4, netdev.DropMTU, virtio.NetHdr{}},
		{"no mtu negotiated", noMTU, virtio.NetHdr{}, build(fromGuest(0, 8000)), netdev.DropNone, virtio.NetHdr{}},
		{"at the tso limit", noMTU, virtio.NetHdr{}, build(fromGuest(0, 65536-52)), netdev.DropNone, virtio.NetHdr{}},
		{"over the tso limit", noMTU, virtio.NetHdr{}, build(fromGuest(0, 65536-51)), netdev.DropOversize, virtio.NetHdr{}},
	}
}

// TestTXHeader holds the guest's net header against the frame.
func TestTXHeader(t *testing.T) {
	for _, c := range txHeaders() {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, setup{off: c.off})
			w.send(0, c.hdr, c.frame)
			w.pollTX(0, netdev.Budget{})
			s := w.dev.Pair(0).TX.Snapshot()
			if used := w.reap(w.tx[0]); used != 1 {
				t.Errorf("%d chains came back, want 1", used)
			}
			if c.want != netdev.DropNone {
				if s.Drops[c.want] != 1 || s.Drops.Total() != 1 || len(w.wire.frames) != 0 {
					t.Fatalf("sent %d, drops %v, want one %v", len(w.wire.frames), marshal(t, s.Drops), c.want)
				}
				return
			}
			if s.Drops.Total() != 0 || len(w.wire.frames) != 1 {
				t.Fatalf("sent %d, drops %v, want it sent", len(w.wire.frames), marshal(t, s.Drops))
			}
			if d := cmp.Diff(c.sent, w.wire.hdrs[0]); d != "" {
				t.Errorf("header (-want +got):\n%s", d)
			}
			if !bytes.Equal(c.frame, w.wire.frames[0]) {
				t.Error("the wire got other bytes than the guest sent")
			}
		})
	}
}

func marshal(t *testing.T, m interface{ MarshalJSON() ([]byte, error) }) string {
	t.Helper()
	b, err := m.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTXCounts sends one of each kind and reads the counters.
func TestTXCounts(t *testing.T) {
	w := newWorld(t, setup{})
	h, f := gso(fromGuest(0, 20*1448-100), 1448)
	w.send(0, h, f)
	h, f = gso(fromGuest(0, 7*1448), 1448)
	w.send(0, h, f)
	w.send(0, virtio.NetHdr{}, build(fromGuest(1, 1448)))
	w.send(0, virtio.NetHdr{}, build(ackOf(fromGuest(1, 0))))
	syn := fromGuest(2, 0)
	syn.Flags = frame.TCPSyn
	w.send(0, virtio.NetHdr{}, build(syn))
	w.send(0, virtio.NetHdr{}, udp(build(fromGuest(3, 100))))
	work, _ := w.pollTX(0, netdev.Budget{})
	s := w.dev.Pair(0).TX.Snapshot()
	payload := uint64(20*1448 - 100 + 7*1448 + 1448)
	got := []uint64{s.Packets, s.DataPackets, s.PayloadBytes, s.Bytes, s.GSOPackets, s.GSOSegs, s.Segs, s.BigBytes, s.ACKs, s.PureACKs, s.GSOSize.N, s.GSOSize.Sum}
	want := []uint64{6, 3, payload, payload + 6*66 + 100, 2, 27, 31, 20*1448 - 100, 4, 1, 3, payload}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("counters (-want +got):\n%s", d)
	}
	if work.Packets != 6 || work.Payload != int(payload) || work.Segs != 31 || work.Completed != 6 || work.Descs != 6 {
		t.Errorf("work %+v does not match the counters", work)
	}
}
