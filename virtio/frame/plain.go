package frame

// plainLen is the length in bytes of the headers of a plain frame: TCP in IPv4
// with the timestamp option and no other. Nearly all frames of a simulated guest
// are plain, so that they are written, and read, at fixed places.
const plainLen = EthernetLen + IPv4Len + TCPLen + timestampLen

// timestampLen is the length in bytes of the timestamp option and its padding,
// timestampHead its first four bytes.
const (
	timestampLen  = 12
	timestampHead = optNop<<24 | optNop<<16 | optTimestamp<<8 | 10
)

// plain reports whether the headers of the frame are plain, and nothing follows
// them.
func (s *TCPSpec) plain() bool {
	return s.VLAN == 0 && s.MSS == 0 && !s.HasWScale && !s.SACKPermitted && s.Timestamps &&
		len(s.SACK) == 0 && len(s.Payload) == 0 && s.Src.Is4()
}

// putPlain writes the headers of a plain frame.
func putPlain(h *[plainLen]byte, s *TCPSpec) {
	*(*MAC)(h[0:]) = s.DstMAC
	*(*MAC)(h[6:]) = s.SrcMAC
	be.PutUint16(h[12:], EtherTypeIPv4)
	const l4Hdr = TCPLen + timestampLen
	l4 := l4Hdr + s.Absent
	src, dst := be.Uint32(s.Src[12:]), be.Uint32(s.Dst[12:])
	addrs := uint64(src) + uint64(dst)

	w0 := 0x45000000 | uint32(s.TOS)<<16 | uint32(length16(IPv4Len+l4))
	w1 := uint32(s.ID)<<16 | 0x4000
	w2 := uint32(s.ttl())<<24 | uint32(ProtoTCP)<<16
	sum := fold(uint64(w0) + uint64(w1) + uint64(w2) + addrs)
	be.PutUint32(h[14:], w0)
	be.PutUint32(h[18:], w1)
	be.PutUint32(h[22:], w2|uint32(^sum))
	be.PutUint32(h[26:], src)
	be.PutUint32(h[30:], dst)

	ports := uint32(s.SrcPort)<<16 | uint32(s.DstPort)
	w3 := l4Hdr/4<<28 | uint32(s.Flags)<<16 | uint32(s.Window)
	pseudo := fold(addrs + uint64(ProtoTCP) + uint64(uint32(l4)))
	csum := pseudo
	if !s.Partial {
		csum = ^fold(uint64(ports) + uint64(s.Seq) + uint64(s.Ack) + uint64(w3) +
			timestampHead + uint64(s.TSVal) + uint64(s.TSEcr) + uint64(pseudo))
	}
	be.PutUint32(h[34:], ports)
	be.PutUint32(h[38:], uint32(s.Seq))
	be.PutUint32(h[42:], uint32(s.Ack))
	be.PutUint32(h[46:], w3)
	be.PutUint32(h[50:], uint32(csum)<<16)
	be.PutUint32(h[54:], timestampHead)
	be.PutUint32(h[58:], s.TSVal)
	be.PutUint32(h[62:], s.TSEcr)
}

// parsePlain is Parse for what nearly all frames are: TCP in IPv4 without tag,
// options and fragments, that ends with the frame. It returns false for
// all others, and for some of these that it leaves to parseAny. Each field is
// read once, though a guest may write it meanwhile.
func parsePlain(b []byte, in *Info) bool {
	const l4 = EthernetLen + IPv4Len
	if len(b) < l4+TCPLen {
		return false
	}
	h := (*[l4 + TCPLen]byte)(b)
	if be.Uint16(h[12:]) != EtherTypeIPv4 || h[14] != 0x45 || be.Uint16(h[20:])&0x3fff != 0 || h[23] != ProtoTCP {
		return false
	}
	n, total := int(h[46]>>4)*4, int(be.Uint16(h[16:]))
	end := EthernetLen + total
	if total == 0 || end > len(b) {
		end = len(b)
	}
	if n < TCPLen || l4+n > end {
		return false
	}
	*in = Info{
		Layer: LayerL4, EtherType: EtherTypeIPv4, L3: EthernetLen,
		Version: 4, TOS: h[15], Proto: ProtoTCP, L4: l4, End: end, Payload: l4 + n,
		SrcPort: be.Uint16(h[34:]), DstPort: be.Uint16(h[36:]),
		Seq: Seq(be.Uint32(h[38:])), Ack: Seq(be.Uint32(h[42:])),
		Flags: h[47], Window: be.Uint16(h[48:]),
	}
	return true
}
