package qdisc

import (
	"encoding/binary"

	"github.com/vnetbench/vnetbench/guest/skb"
)

// Ethernet types that a congestion mark is made on.
const (
	typeIPv4 = 0x0800
	typeVLAN = 0x8100
	typeIPv6 = 0x86dd
)

// ipHeader returns the network header of a packet and its Ethernet type, behind
// one VLAN tag at most.
func ipHeader(p *skb.SKB) (h []byte, etherType uint16) {
	h = p.Hdr[:p.HdrLen]
	if len(h) < 18 {
		return nil, 0
	}
	etherType = binary.BigEndian.Uint16(h[12:])
	if etherType == typeVLAN {
		return h[18:], binary.BigEndian.Uint16(h[16:])
	}
	return h[14:], etherType
}

// setCE marks a packet "congestion experienced" and reports whether it carries
// that mark now: its transport must be capable of ECN (RFC 3168 §5,
// INET_ECN_set_ce, v6.1).
func setCE(p *skb.SKB) bool {
	h, etherType := ipHeader(p)
	switch {
	case etherType == typeIPv4 && len(h) >= 20:
		return setCE4(h)
	case etherType == typeIPv6 && len(h) >= 40:
		if h[1]&0x30 == 0 {
			return false
		}
		h[1] |= 0x30
		return true
	}
	return false
}

// setCE4 marks an IPv4 header and corrects its checksum (RFC 1624).
func setCE4(h []byte) bool {
	tos := h[1]
	if tos&3 == 0 || tos&3 == 3 {
		return tos&3 == 3
	}
	h[1] |= 3
	sum := uint32(^binary.BigEndian.Uint16(h[10:])) + uint32(^uint16(tos)) + uint32(h[1])
	binary.BigEndian.PutUint16(h[10:], ^fold(sum))
	return true
}
