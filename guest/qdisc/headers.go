package qdisc

import (
	"encoding/binary"

	"github.com/vnetbench/vnetbench/guest/skb"
)

// headers is what the headers of a packet's segments have in common: where they
// are, and sums over all of them that does not differ. Headers that are not TCP
// over IP are left alone.
type headers struct {
	version uint8  // of IP; 0 if the headers are left alone
	id      uint16 // IPv4 identification of the first segment
	fixed   uint16 // the IP header's length field, but for the payload
	tcp     int    // where the TCP header begins
	ipSum   uint32 // of the IPv4 header but for length, identification and checksum
	tcpSum  uint32 // what the TCP checksum field holds, but for the payload's length
}

// eth is where the IP header begins.
const eth = 14

// read finds out what the headers in h, a packet's, are.
func (a *headers) read(h []byte) {
	var length uint16 // of TCP header and payload, as the packet has it
	switch {
	case len(h) >= eth+40 && h[12] == 0x08 && h[13] == 0x00:
		a.tcp = eth + int(h[eth]&15)*4
		if a.tcp < eth+20 || a.tcp+20 > len(h) {
			return
		}
		length = binary.BigEndian.Uint16(h[eth+2:]) - uint16(a.tcp-eth)
		a.version, a.fixed = 4, uint16(len(h)-eth)
		a.id, a.ipSum = binary.BigEndian.Uint16(h[eth+4:]), constantSum(h[eth:a.tcp])
	case len(h) >= eth+60 && h[12] == 0x86 && h[13] == 0xdd:
		a.tcp = eth + 40
		length = binary.BigEndian.Uint16(h[eth+4:])
		a.version, a.fixed = 6, uint16(len(h)-a.tcp)
	default:
		return
	}
	a.tcpSum = uint32(binary.BigEndian.Uint16(h[a.tcp+16:])) + uint32(^length) + uint32(len(h)-a.tcp)
}

// constantSum adds up the 16-bit words of an IPv4 header that all segments share.
func constantSum(ip []byte) (sum uint32) {
	for i := 0; i+2 <= len(ip); i += 2 {
		if i != 2 && i != 4 && i != 10 {
			sum += uint32(binary.BigEndian.Uint16(ip[i:]))
		}
	}
	return sum
}

// write makes the headers of s, a copy of the packet's, those of its i-th segment:
// lengths, IPv4 identification and checksum, sequence number, flags, and the
// pseudo-header sum that the TCP checksum field holds.
func (a *headers) write(s *skb.SKB, i uint16) {
	if a.version == 0 {
		return
	}
	length := a.fixed + uint16(s.Len)
	if a.version == 4 {
		ip, id := (*[20]byte)(s.Hdr[eth:]), a.id+i
		binary.BigEndian.PutUint16(ip[2:], length)
		binary.BigEndian.PutUint16(ip[4:], id)
		binary.BigEndian.PutUint16(ip[10:], ^fold(a.ipSum+uint32(length)+uint32(id)))
	} else {
		binary.BigEndian.PutUint16(s.Hdr[eth+4:], length)
	}
	t := (*[20]byte)(s.Hdr[a.tcp:])
	binary.BigEndian.PutUint32(t[4:], s.Seq)
	t[13] = s.Flags
	binary.BigEndian.PutUint16(t[16:], fold(a.tcpSum+uint32(s.Len)))
}

// fold adds the carries of a one's complement sum back in.
func fold(sum uint32) uint16 {
	sum = sum>>16 + sum&0xffff
	return uint16(sum + sum>>16)
}
