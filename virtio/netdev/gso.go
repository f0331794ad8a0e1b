package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
)

// maxUSOSegments is the most datagrams that one USO packet may become (Linux
// UDP_MAX_SEGMENTS, v6.12; 64 before v6.9).
const maxUSOSegments = 128

// gsoKind is what a GSO type of the net header asks for, and of what frames.
type gsoKind struct {
	host    virtio.Features // feature without which the guest may not send it
	guest4  virtio.Features // features without which it may not be delivered, IPv4
	guest6  virtio.Features // IPv6
	proto   uint8
	version uint8 // of IP; 0 is either
	csum    uint16
	whole   bool // gso_size counts IP payload: the packet becomes IP fragments
}

// gsoKinds is indexed by GSO type without its ECN bit; what has no proto is no
// type (virtio 1.3 §5.1.6).
var gsoKinds = [6]gsoKind{
	virtio.GSOTCPv4: {host: virtio.FeatureHostTSO4, guest4: virtio.FeatureGuestTSO4, proto: frame.ProtoTCP, version: 4, csum: frame.TCPCSumOffset},
	virtio.GSOTCPv6: {host: virtio.FeatureHostTSO6, guest6: virtio.FeatureGuestTSO6, proto: frame.ProtoTCP, version: 6, csum: frame.TCPCSumOffset},
	virtio.GSOUDP: {host: virtio.FeatureHostUFO, guest4: virtio.FeatureGuestUFO, guest6: virtio.FeatureGuestUFO,
		proto: frame.ProtoUDP, csum: frame.UDPCSumOffset, whole: true},
	virtio.GSOUDPL4: {host: virtio.FeatureHostUSO, guest4: virtio.FeatureGuestUSO4, guest6: virtio.FeatureGuestUSO6,
		proto: frame.ProtoUDP, csum: frame.UDPCSumOffset},
}

// gsoKindOf returns what a GSO type asks for, nil if it is none. ECN goes with
// TCP only.
func gsoKindOf(t uint8) *gsoKind {
	plain := t &^ virtio.GSOECN
	if int(plain) >= len(gsoKinds) || gsoKinds[plain].proto == 0 {
		return nil
	}
	k := &gsoKinds[plain]
	if t != plain && k.proto != frame.ProtoTCP {
		return nil
	}
	return k
}

// minGSOSize is the least gso_size in bytes. Linux cuts by no less (TCP_MIN_GSO_SIZE,
// v6.12), and no TCP has so small a segment; less would make tens of thousands of
// packets out of one.
const minGSOSize = 8

// gsoFits reports whether the frame is what its GSO type says, unfragmented and
// of the right protocol, and can be cut by its gso_size.
func (v *frameView) gsoFits(k *gsoKind) bool {
	in := &v.info
	switch {
	case v.hdr.GSOSize < minGSOSize || in.Layer != frame.LayerL4 || in.Fragment || in.Proto != k.proto:
		return false
	case k.version != 0 && in.Version != k.version:
		return false
	case k.whole:
		return true
	case k.proto == frame.ProtoUDP:
		return v.len-in.Payload <= maxUSOSegments*int(v.hdr.GSOSize)
	}
	return true
}

// csumFits reports whether the partial checksum that the header asks for is that
// of the frame's transport header.
func (v *frameView) csumFits(k *gsoKind) bool {
	return int(v.hdr.CSumStart) == v.info.L4 && v.hdr.CSumOffset == k.csum
}

// cutLen is the length in bytes, from the layer-3 header on, of the largest
// packet that the frame becomes.
func (v *frameView) cutLen(k *gsoKind) int {
	size := int(v.hdr.GSOSize)
	if !k.whole {
		return v.info.Payload - v.l3() + size
	}
	if v.info.Version == 6 {
		size += 8 // the fragment header
	}
	return v.info.L4 - v.l3() + size
}

// cuts returns how many packets the GSO frame becomes, and the bytes of headers
// that each of them repeats.
func (v *frameView) cuts() (n, headers int) {
	size, headers := int(v.hdr.GSOSize), v.info.Payload
	if v.hdr.GSOType == virtio.GSOUDP {
		size, headers = max(size&^7, 8), v.info.L4
	}
	body := v.len - headers
	if v.payload > 0 {
		body = v.payload // without the padding of a short frame
	}
	return max(1, (body+size-1)/size), headers
}

// cutter makes the packets of a wire out of a GSO frame.
type cutter struct {
	seg   frame.Segmenter
	frag  frame.Fragmenter
	whole bool // frag is in use
}

// reset starts with the frame f in one piece, whose header and parts are those
// of v, and returns how many bytes of room a packet of it needs at most.
func (c *cutter) reset(f []byte, v *frameView) (room int, err error) {
	h := &v.hdr
	if c.whole = h.GSOType == virtio.GSOUDP; !c.whole {
		return v.info.Payload + int(h.GSOSize), c.seg.Reset(f, &v.info, int(h.GSOSize))
	}
	if h.Flags&virtio.HdrNeedsCSum != 0 {
		frame.CompleteCSum(f, int(h.CSumStart), int(h.CSumOffset))
	}
	return v.info.L4 + 8 + int(h.GSOSize), c.frag.Reset(f, &v.info, int(h.GSOSize))
}

// next writes the next packet to dst and returns its length, 0 after the last.
func (c *cutter) next(dst []byte) (int, error) {
	if c.whole {
		return c.frag.Next(dst)
	}
	return c.seg.Next(dst)
}
