// Package frame reads and writes the headers of Ethernet frames: views of each
// header as a named byte slice, a parser, checksums, a builder for TCP frames,
// segmentation in software, and the arithmetic of TCP sequence numbers. It is
// without state between frames, without I/O and clock, and keeps no reference to
// a frame that it was given.
//
// Frames may come from a guest: Parse and the Segmenter read nothing beyond the
// slice and follow a bounded number of headers. The views do no checks of their
// own; their length is the caller's to check, and Parse is the caller that does.
package frame

import "encoding/binary"

// EtherType values (IEEE 802).
const (
	EtherTypeIPv4  uint16 = 0x0800
	EtherTypeARP   uint16 = 0x0806
	EtherTypeVLAN  uint16 = 0x8100 // IEEE 802.1Q
	EtherTypeIPv6  uint16 = 0x86dd
	EtherTypeSVLAN uint16 = 0x88a8 // IEEE 802.1ad, the outer of two tags
)

// IP protocol numbers (IANA).
const (
	ProtoTCP uint8 = 6
	ProtoUDP uint8 = 17
)

// Lengths in bytes of headers without options.
const (
	EthernetLen = 14
	VLANLen     = 4
	IPv4Len     = 20
	IPv6Len     = 40
	TCPLen      = 20
	UDPLen      = 8
)

// Offsets in bytes of the checksum fields in their headers: what the net header
// of virtio calls csum_offset.
const (
	TCPCSumOffset = 16
	UDPCSumOffset = 6
)

// TCP flags, in the order of the wire (RFC 9293 §3.1, RFC 3168 §6.1).
const (
	TCPFin uint8 = 0x01
	TCPSyn uint8 = 0x02
	TCPRst uint8 = 0x04
	TCPPsh uint8 = 0x08
	TCPAck uint8 = 0x10
	TCPUrg uint8 = 0x20
	TCPEce uint8 = 0x40
	TCPCwr uint8 = 0x80
)

var be = binary.BigEndian

// MAC is an Ethernet address.
type MAC [6]byte

// IsMulticast reports whether the address is a group's, the broadcast address
// included.
func (m MAC) IsMulticast() bool { return m[0]&1 != 0 }

// IsBroadcast reports whether the address is the broadcast address.
func (m MAC) IsBroadcast() bool { return m == MAC{255, 255, 255, 255, 255, 255} }

// Ethernet is a frame of at least EthernetLen bytes.
type Ethernet []byte

// Dst returns the destination address.
func (b Ethernet) Dst() MAC { return MAC(b[0:6]) }

// Src returns the source address.
func (b Ethernet) Src() MAC { return MAC(b[6:12]) }

// Type returns the EtherType, that of a VLAN tag if there is one.
func (b Ethernet) Type() uint16 { return be.Uint16(b[12:]) }

// IPv4 is an IPv4 packet of at least IPv4Len bytes (RFC 791 §3.1).
type IPv4 []byte

// Version returns the version, 4.
func (b IPv4) Version() uint8 { return b[0] >> 4 }

// HeaderLen returns the length of the header in bytes, options included.
func (b IPv4) HeaderLen() int { return int(b[0]&15) * 4 }

// TOS returns the type of service: DSCP and ECN.
func (b IPv4) TOS() uint8 { return b[1] }

// TotalLen returns the length of the packet in bytes, header included.
func (b IPv4) TotalLen() uint16 { return be.Uint16(b[2:]) }

// ID returns the identification.
func (b IPv4) ID() uint16 { return be.Uint16(b[4:]) }

// Fragment reports whether the packet is a fragment, and its offset in bytes.
func (b IPv4) Fragment() (is bool, offset int) {
	v := be.Uint16(b[6:])
	return v&0x3fff != 0, int(v&0x1fff) * 8
}

// Proto returns the protocol.
func (b IPv4) Proto() uint8 { return b[9] }

// CSum returns the header checksum.
func (b IPv4) CSum() uint16 { return be.Uint16(b[10:]) }

// Src returns the source address.
func (b IPv4) Src() Addr { return V4([4]byte(b[12:16])) }

// Dst returns the destination address.
func (b IPv4) Dst() Addr { return V4([4]byte(b[16:20])) }

// SetTotalLen sets the length in bytes, without updating the checksum.
func (b IPv4) SetTotalLen(n uint16) { be.PutUint16(b[2:], n) }

// SetID sets the identification, without updating the checksum.
func (b IPv4) SetID(id uint16) { be.PutUint16(b[4:], id) }

// UpdateCSum computes the header checksum anew. HeaderLen bytes must be there.
func (b IPv4) UpdateCSum() {
	b[10], b[11] = 0, 0
	be.PutUint16(b[10:], ^Sum(b[:b.HeaderLen()], 0))
}

// IPv6 is an IPv6 packet of at least IPv6Len bytes (RFC 8200 §3).
type IPv6 []byte

// Version returns the version, 6.
func (b IPv6) Version() uint8 { return b[0] >> 4 }

// TrafficClass returns the traffic class: DSCP and ECN.
func (b IPv6) TrafficClass() uint8 { return uint8(be.Uint16(b) >> 4) }

// PayloadLen returns the length in bytes of what follows the fixed header.
func (b IPv6) PayloadLen() uint16 { return be.Uint16(b[4:]) }

// NextHeader returns the protocol of the first header after this one.
func (b IPv6) NextHeader() uint8 { return b[6] }

// Src returns the source address.
func (b IPv6) Src() Addr { return Addr(b[8:24]) }

// Dst returns the destination address.
func (b IPv6) Dst() Addr { return Addr(b[24:40]) }

// SetPayloadLen sets the length in bytes.
func (b IPv6) SetPayloadLen(n uint16) { be.PutUint16(b[4:], n) }

// TCP is a segment of at least TCPLen bytes (RFC 9293 §3.1).
type TCP []byte

// SrcPort returns the source port.
func (b TCP) SrcPort() uint16 { return be.Uint16(b) }

// DstPort returns the destination port.
func (b TCP) DstPort() uint16 { return be.Uint16(b[2:]) }

// Seq returns the sequence number.
func (b TCP) Seq() Seq { return Seq(be.Uint32(b[4:])) }

// Ack returns the acknowledgement number.
func (b TCP) Ack() Seq { return Seq(be.Uint32(b[8:])) }

// HeaderLen returns the length of the header in bytes, options included.
func (b TCP) HeaderLen() int { return int(b[12]>>4) * 4 }

// Flags returns the flags, TCPFin and so on.
func (b TCP) Flags() uint8 { return b[13] }

// Window returns the window as on the wire, not scaled.
func (b TCP) Window() uint16 { return be.Uint16(b[14:]) }

// CSum returns the checksum.
func (b TCP) CSum() uint16 { return be.Uint16(b[16:]) }

// Options returns the bytes of the options. HeaderLen bytes must be there.
func (b TCP) Options() []byte { return b[TCPLen:b.HeaderLen()] }

// SetSeq sets the sequence number.
func (b TCP) SetSeq(s Seq) { be.PutUint32(b[4:], uint32(s)) }

// SetFlags sets the flags.
func (b TCP) SetFlags(f uint8) { b[13] = f }

// SetCSum sets the checksum.
func (b TCP) SetCSum(c uint16) { be.PutUint16(b[16:], c) }

// UDP is a datagram of at least UDPLen bytes (RFC 768).
type UDP []byte

// SrcPort returns the source port.
func (b UDP) SrcPort() uint16 { return be.Uint16(b) }

// DstPort returns the destination port.
func (b UDP) DstPort() uint16 { return be.Uint16(b[2:]) }

// Len returns the length in bytes, header included.
func (b UDP) Len() uint16 { return be.Uint16(b[4:]) }

// CSum returns the checksum; 0 is none.
func (b UDP) CSum() uint16 { return be.Uint16(b[6:]) }

// SetLen sets the length in bytes.
func (b UDP) SetLen(n uint16) { be.PutUint16(b[4:], n) }

// SetCSum sets the checksum.
func (b UDP) SetCSum(c uint16) { be.PutUint16(b[6:], c) }
