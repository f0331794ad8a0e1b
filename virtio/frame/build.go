package frame

// TCPSpec describes a TCP frame for AppendTCP. The zero value of a field leaves
// the thing out, or is as its comment says.
type TCPSpec struct {
	SrcMAC, DstMAC MAC
	VLAN           uint16 // tag control information of an 802.1Q tag; 0 is no tag

	Src, Dst Addr   // both IPv4 or both IPv6
	TOS      uint8  // DSCP and ECN
	TTL      uint8  // 0 is 64
	ID       uint16 // IPv4 identification; the "don't fragment" bit is always set

	SrcPort, DstPort uint16
	Seq, Ack         Seq
	Flags            uint8
	Window           uint16 // as on the wire

	MSS           uint16 // option of a SYN
	HasWScale     bool   // option of a SYN
	WScale        uint8
	SACKPermitted bool // option of a SYN
	Timestamps    bool
	TSVal, TSEcr  uint32
	SACK          []SACKBlock // at most 4, or 3 with timestamps; more are left out

	// Payload is copied into the frame. Absent is the number of payload bytes that
	// follow it and are not copied: the lengths count them, and a full checksum
	// takes them for zeros.
	Payload []byte
	Absent  int
	// Partial leaves the checksum to whoever sends the frame: the field holds the
	// sum of the pseudo-header, as the net header's NEEDS_CSUM has it.
	Partial bool
}

// L4 returns the offset in bytes of the TCP header: csum_start of the net
// header.
func (s *TCPSpec) L4() int {
	n := EthernetLen + IPv6Len
	if s.Src.Is4() {
		n = EthernetLen + IPv4Len
	}
	if s.VLAN != 0 {
		n += VLANLen
	}
	return n
}

// HeaderLen returns the length in bytes of all headers.
func (s *TCPSpec) HeaderLen() int { return s.L4() + TCPLen + s.optionsLen() }

// sackBlocks returns the blocks that the options have room for.
func (s *TCPSpec) sackBlocks() []SACKBlock {
	room := MaxSACK
	if s.Timestamps {
		room--
	}
	return s.SACK[:min(len(s.SACK), room)]
}

func (s *TCPSpec) optionsLen() int {
	n := 0
	if s.MSS != 0 {
		n += 4
	}
	if s.HasWScale {
		n += 4
	}
	switch {
	case s.Timestamps:
		n += 12 // with room for the permission in front
	case s.SACKPermitted:
		n += 4
	}
	if k := len(s.sackBlocks()); k > 0 {
		n += 4 + 8*k
	}
	return n
}

// AppendTCP appends the frame that s describes to dst and returns it. It
// allocates only if dst has no room. A length that its 16-bit field cannot hold
// is written as 0, which is how Linux marks packets of more than 64 KiB.
func AppendTCP(dst []byte, s *TCPSpec) []byte {
	if n := len(dst); s.plain() && cap(dst)-n >= plainLen {
		dst = dst[:n+plainLen]
		putPlain((*[plainLen]byte)(dst[n:]), s)
		return dst
	}
	l4Len := TCPLen + s.optionsLen() + len(s.Payload) + s.Absent
	dst = appendLink(dst, s)
	if s.Src.Is4() {
		dst = appendIPv4(dst, s, IPv4Len+l4Len)
	} else {
		dst = appendIPv6(dst, s, l4Len)
	}
	at := len(dst)
	dst = appendTCP(dst, s)
	dst = append(dst, s.Payload...)
	sum := PseudoSum(s.Src, s.Dst, ProtoTCP, uint32(l4Len))
	if !s.Partial {
		sum = ^Sum(dst[at:], sum)
	}
	TCP(dst[at:]).SetCSum(sum)
	return dst
}

func appendLink(dst []byte, s *TCPSpec) []byte {
	dst = append(dst, s.DstMAC[:]...)
	dst = append(dst, s.SrcMAC[:]...)
	if s.VLAN != 0 {
		dst = be.AppendUint16(dst, EtherTypeVLAN)
		dst = be.AppendUint16(dst, s.VLAN)
	}
	if s.Src.Is4() {
		return be.AppendUint16(dst, EtherTypeIPv4)
	}
	return be.AppendUint16(dst, EtherTypeIPv6)
}

func (s *TCPSpec) ttl() uint8 {
	if s.TTL == 0 {
		return 64
	}
	return s.TTL
}

// length16 is n as a 16-bit length field has it.
func length16(n int) uint16 {
	if n > 0xffff {
		return 0
	}
	return uint16(n)
}

func appendIPv4(dst []byte, s *TCPSpec, n int) []byte {
	at := len(dst)
	dst = append(dst, 0x45, s.TOS)
	dst = be.AppendUint16(dst, length16(n))
	dst = be.AppendUint16(dst, s.ID)
	dst = append(dst, 0x40, 0, s.ttl(), ProtoTCP, 0, 0)
	dst = append(dst, s.Src[12:]...)
	dst = append(dst, s.Dst[12:]...)
	IPv4(dst[at:]).UpdateCSum()
	return dst
}

func appendIPv6(dst []byte, s *TCPSpec, n int) []byte {
	dst = be.AppendUint32(dst, 6<<28|uint32(s.TOS)<<20)
	dst = be.AppendUint16(dst, length16(n))
	dst = append(dst, ProtoTCP, s.ttl())
	dst = append(dst, s.Src[:]...)
	return append(dst, s.Dst[:]...)
}

func appendTCP(dst []byte, s *TCPSpec) []byte {
	words := (TCPLen + s.optionsLen()) / 4
	dst = be.AppendUint16(dst, s.SrcPort)
	dst = be.AppendUint16(dst, s.DstPort)
	dst = be.AppendUint32(dst, uint32(s.Seq))
	dst = be.AppendUint32(dst, uint32(s.Ack))
	dst = append(dst, uint8(words)<<4, s.Flags)
	dst = be.AppendUint16(dst, s.Window)
	dst = append(dst, 0, 0, 0, 0) // checksum and urgent pointer
	return appendOptions(dst, s)
}

// appendOptions writes the options, each padded to 4 bytes in front. As in Linux
// the permission of SACK takes the place of a timestamp's padding.
func appendOptions(dst []byte, s *TCPSpec) []byte {
	if s.MSS != 0 {
		dst = append(dst, optMSS, 4)
		dst = be.AppendUint16(dst, s.MSS)
	}
	switch {
	case s.SACKPermitted:
		if !s.Timestamps {
			dst = append(dst, optNop, optNop)
		}
		dst = append(dst, optSACKOK, 2)
	case s.Timestamps:
		dst = append(dst, optNop, optNop)
	}
	if s.Timestamps {
		dst = append(dst, optTimestamp, 10)
		dst = be.AppendUint32(dst, s.TSVal)
		dst = be.AppendUint32(dst, s.TSEcr)
	}
	if s.HasWScale {
		dst = append(dst, optNop, optWScale, 3, s.WScale)
	}
	if blocks := s.sackBlocks(); len(blocks) > 0 {
		dst = append(dst, optNop, optNop, optSACK, uint8(2+8*len(blocks)))
		for _, k := range blocks {
			dst = be.AppendUint32(dst, uint32(k.Start))
			dst = be.AppendUint32(dst, uint32(k.End))
		}
	}
	return dst
}
