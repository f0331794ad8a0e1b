package driver

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio"
)

// putNetHdr writes the net header that describes a packet to the device:
// segmentation and the checksum that the guest left to it
// (virtio_net_hdr_from_skb, v6.1; virtio 1.3 §5.1.6.2).
// Packets that are not TCP or UDP over IP carry their checksum already.
func putNetHdr(b []byte, p *skb.SKB, csum bool) {
	l4, offset, gso := l4Of(p.Hdr[:p.HdrLen])
	if l4 == 0 || !csum {
		clear(b)
		return
	}
	if p.Segs <= 1 || gso == virtio.GSONone {
		virtio.EncodeCSum(b, uint16(l4), uint16(offset))
		return
	}
	if p.Flags&skb.CWR != 0 {
		gso |= virtio.GSOECN
	}
	h := virtio.NetHdr{
		Flags: virtio.HdrNeedsCSum, CSumStart: uint16(l4), CSumOffset: uint16(offset),
		GSOType: gso, GSOSize: uint16(p.GSOSize), HdrLen: uint16(p.HdrLen),
	}
	h.Encode(b)
}

// l4Of finds the transport header in the headers of a frame: its offset, that of
// its checksum field, and the GSO type for TCP. l4 is 0 if there is none.
func l4Of(h []byte) (l4, csum int, gso uint8) {
	const eth, vlan, ipv6 = 14, 4, 40
	if len(h) >= eth+40 {
		if p := (*[eth + 40]byte)(h); p[12] == 0x08 && p[13] == 0x00 && p[eth] == 0x45 && p[eth+9] == 6 {
			return eth + 20, 16, virtio.GSOTCPv4 // nearly always
		}
	}
	at := 12
	if len(h) < eth+20 {
		return 0, 0, 0
	}
	if h[at] == 0x81 && h[at+1] == 0 {
		at += vlan
	}
	ip := at + 2
	var proto uint8
	switch {
	case h[at] == 0x08 && h[at+1] == 0x00:
		l4, proto, gso = ip+int(h[ip]&15)*4, h[ip+9], virtio.GSOTCPv4
	case h[at] == 0x86 && h[at+1] == 0xdd:
		l4, proto, gso = ip+ipv6, h[ip+6], virtio.GSOTCPv6
	default:
		return 0, 0, 0
	}
	switch {
	case proto == 6 && l4+20 <= len(h):
		return l4, 16, gso
	case proto == 17 && l4+8 <= len(h):
		return l4, 6, virtio.GSONone
	}
	return 0, 0, 0
}
