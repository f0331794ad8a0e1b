package frame

// Layer is how far a frame could be parsed.
type Layer uint8

const (
	LayerNone Layer = iota // not even an Ethernet header
	LayerLink              // Ethernet and VLAN tags
	LayerIP                // and an IP header with its extensions
	LayerL4                // and a whole TCP or UDP header
)

// Bounds on the headers that Parse follows.
const (
	maxVLANs      = 2
	maxExtensions = 8
)

// IPv6 extension headers (RFC 8200 §4, RFC 4302 §2).
const (
	extHopByHop = 0
	extRouting  = 43
	extFragment = 44
	extAuth     = 51
	extDest     = 60
)

// Info is what Parse finds in a frame. Offsets are in bytes from the start of
// the frame. A field is valid from the layer on that its comment names.
type Info struct {
	Layer     Layer
	VLANs     uint8  // link: number of tags, at most 2
	TCI       uint16 // link: tag control information of the outer tag
	EtherType uint16 // link: the type after the tags

	L3       int   // link: where the network header starts
	Version  uint8 // IP: 4 or 6
	TOS      uint8 // IP: DSCP and ECN
	Proto    uint8 // IP: the protocol after extension headers
	Fragment bool  // IP: a fragment; only the first has an L4 header
	L4       int   // IP: where the transport header starts
	// End is where the packet ends by its IP header, the rest being padding. It
	// is the end of the frame if the header says more than is there, or says 0, as
	// for a packet of more than 64 KiB.
	End int // IP

	Payload          int    // L4: where the payload starts, at most End
	SrcPort, DstPort uint16 // L4
	Seq, Ack         Seq    // L4, TCP only
	Flags            uint8  // L4, TCP only
	Window           uint16 // L4, TCP only: as on the wire
}

// PayloadLen returns the number of payload bytes of a frame whose L4 header was
// parsed.
func (in *Info) PayloadLen() int { return in.End - in.Payload }

// Parse fills in with what it finds in the frame b, and reports whether it came
// as far as a TCP or UDP header. It never reads beyond b, and does not verify
// checksums. A frame that ends early or that is inconsistent is parsed up to the
// layer before.
func Parse(b []byte, in *Info) bool {
	return parsePlain(b, in) || parseAny(b, in)
}

func parseAny(b []byte, in *Info) bool {
	*in = Info{End: len(b)}
	if len(b) < EthernetLen {
		return false
	}
	in.Layer = LayerLink
	if !parseLink(b, in) {
		return false
	}
	switch in.EtherType {
	case EtherTypeIPv4:
		return parseIPv4(b, in) && parseL4(b, in)
	case EtherTypeIPv6:
		return parseIPv6(b, in) && parseL4(b, in)
	}
	return false
}

// parseLink skips the VLAN tags. It returns false if the frame ends within one.
func parseLink(b []byte, in *Info) bool {
	in.EtherType, in.L3 = Ethernet(b).Type(), EthernetLen
	for in.VLANs < maxVLANs && (in.EtherType == EtherTypeVLAN || in.EtherType == EtherTypeSVLAN) {
		if len(b) < in.L3+VLANLen {
			return false
		}
		if in.VLANs == 0 {
			in.TCI = be.Uint16(b[in.L3:])
		}
		in.EtherType = be.Uint16(b[in.L3+2:])
		in.VLANs++
		in.L3 += VLANLen
	}
	return true
}

func parseIPv4(b []byte, in *Info) bool {
	if len(b) < in.L3+IPv4Len {
		return false
	}
	ip := IPv4(b[in.L3:])
	n := ip.HeaderLen()
	if ip.Version() != 4 || n < IPv4Len || n > len(ip) {
		return false
	}
	if total := int(ip.TotalLen()); total != 0 {
		if total < n {
			return false
		}
		in.End = min(len(b), in.L3+total)
	}
	in.Layer, in.Version, in.TOS, in.Proto = LayerIP, 4, ip.TOS(), ip.Proto()
	in.L4 = in.L3 + n
	is, off := ip.Fragment()
	in.Fragment = is
	return off == 0
}

func parseIPv6(b []byte, in *Info) bool {
	if len(b) < in.L3+IPv6Len {
		return false
	}
	ip := IPv6(b[in.L3:])
	if ip.Version() != 6 {
		return false
	}
	if n := int(ip.PayloadLen()); n != 0 {
		in.End = min(len(b), in.L3+IPv6Len+n)
	}
	in.Version, in.TOS, in.Proto = 6, ip.TrafficClass(), ip.NextHeader()
	in.L4 = in.L3 + IPv6Len
	first, ok := parseExtensions(b[:in.End], in)
	if !ok {
		return false
	}
	in.Layer = LayerIP
	return first
}

// parseExtensions skips IPv6 extension headers. ok is false if the packet ends
// within one or there are too many; first is false for a fragment that has no L4
// header.
func parseExtensions(b []byte, in *Info) (first, ok bool) {
	for range maxExtensions {
		var n int
		switch in.Proto {
		case extHopByHop, extRouting, extDest, extFragment, extAuth:
			if len(b) < in.L4+8 {
				return false, false
			}
		default:
			return true, true
		}
		switch n = int(b[in.L4+1]); in.Proto {
		case extFragment:
			n = 8
		case extAuth:
			n = (n + 2) * 4
		default:
			n = (n + 1) * 8
		}
		if len(b) < in.L4+n {
			return false, false
		}
		fragment := in.Proto == extFragment
		off := be.Uint16(b[in.L4+2:])
		in.Proto = b[in.L4]
		in.L4 += n
		if fragment {
			in.Fragment = in.Fragment || off&^6 != 0
			if off&^7 != 0 {
				return false, true
			}
		}
	}
	return false, false
}

func parseL4(b []byte, in *Info) bool {
	if in.L4 > in.End {
		return false
	}
	l4 := b[in.L4:in.End]
	switch in.Proto {
	case ProtoTCP:
		return parseTCP(l4, in)
	case ProtoUDP:
		if len(l4) < UDPLen {
			return false
		}
		in.SrcPort, in.DstPort = UDP(l4).SrcPort(), UDP(l4).DstPort()
		in.Layer, in.Payload = LayerL4, in.L4+UDPLen
		return true
	}
	return false
}

func parseTCP(l4 TCP, in *Info) bool {
	if len(l4) < TCPLen {
		return false
	}
	n := l4.HeaderLen()
	if n < TCPLen || n > len(l4) {
		return false
	}
	in.SrcPort, in.DstPort = l4.SrcPort(), l4.DstPort()
	in.Seq, in.Ack = l4.Seq(), l4.Ack()
	in.Flags, in.Window = l4.Flags(), l4.Window()
	in.Layer, in.Payload = LayerL4, in.L4+n
	return true
}

// Key returns the flow that the parsed frame b belongs to. Ports are 0 if the
// frame has no L4 header. ok is false for a frame without an IP header.
func (in *Info) Key(b []byte) (k FlowKey, ok bool) {
	if in.Layer < LayerIP {
		return FlowKey{}, false
	}
	k = FlowKey{SrcPort: in.SrcPort, DstPort: in.DstPort, Proto: in.Proto}
	if in.Version == 4 {
		ip := IPv4(b[in.L3:])
		k.Src, k.Dst = ip.Src(), ip.Dst()
		return k, true
	}
	ip := IPv6(b[in.L3:])
	k.Src, k.Dst = ip.Src(), ip.Dst()
	return k, true
}
