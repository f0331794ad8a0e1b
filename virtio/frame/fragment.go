package frame

import "fmt"

// fragmentLen is the length in bytes of the IPv6 fragment header (RFC 8200
// §4.5).
const fragmentLen = 8

// Fragmenter cuts a large UDP datagram into IP fragments, as a network card
// does with UFO. It is a value for the caller to keep and to reuse; it is not
// safe for concurrent use.
//
// Deviation: every fragment carries all IPv4 options of the datagram, also those
// that RFC 791 §3.1 has in the first only, and in IPv6 every extension header.
type Fragmenter struct {
	frame  []byte
	in     Info
	size   int // payload bytes of IP in each fragment but the last, a multiple of 8
	next   int // offset in the payload of IP of the next fragment
	prev   int // offset of the field that names the protocol of the payload
	id     uint32
	active bool
}

// Reset starts over with the frame f, which Parse has filled in for, whose
// checksum is complete, and which must not change until the last Next. size is
// the number of IP payload bytes of each fragment, of which as many are used as
// are a multiple of 8. The error wraps ErrNotSegmentable or ErrSegmentSize.
func (s *Fragmenter) Reset(f []byte, in *Info, size int) error {
	*s = Fragmenter{id: s.id + 1}
	if in.Layer != LayerL4 || in.Fragment || in.Proto != ProtoUDP || in.L4 > len(f) {
		return ErrNotSegmentable
	}
	size &^= 7
	if size < 8 || size+in.L4-in.L3+fragmentLen > 0xffff || len(f)-in.L4 > 0xffff {
		return fmt.Errorf("%d: %w", size, ErrSegmentSize)
	}
	s.frame, s.in, s.size, s.active = f, *in, size, true
	s.prev = s.protoField()
	return nil
}

// Next writes the next fragment, a whole frame, to dst, and returns its length in
// bytes; n is 0 after the last one. dst needs the length of the headers, 8 bytes
// and the fragment size; else the error wraps ErrShortBuffer.
func (s *Fragmenter) Next(dst []byte) (n int, err error) {
	payload := s.frame[min(s.in.L4, len(s.frame)):]
	if !s.active || s.next >= len(payload) {
		return 0, nil
	}
	end := min(len(payload), s.next+s.size)
	head := s.in.L4
	if s.in.Version == 6 {
		head += fragmentLen
	}
	n = head + end - s.next
	if len(dst) < n {
		return 0, fmt.Errorf("%d of %d bytes: %w", len(dst), n, ErrShortBuffer)
	}
	copy(dst, s.frame[:s.in.L4])
	copy(dst[head:], payload[s.next:end])
	s.fix(dst[:n], end < len(payload))
	s.next = end
	return n, nil
}

// fix makes the headers of a fragment.
func (s *Fragmenter) fix(b []byte, more bool) {
	if s.in.Version == 6 {
		s.fix6(b, more)
		return
	}
	ip := IPv4(b[s.in.L3:])
	ip.SetTotalLen(uint16(len(ip)))
	v := uint16(s.next / 8)
	if more {
		v |= 0x2000
	}
	be.PutUint16(ip[6:], v)
	ip.UpdateCSum()
}

func (s *Fragmenter) fix6(b []byte, more bool) {
	IPv6(b[s.in.L3:]).SetPayloadLen(uint16(len(b) - s.in.L3 - IPv6Len))
	f := b[s.in.L4:]
	f[0], f[1] = b[s.prev], 0
	b[s.prev] = extFragment
	v := uint16(s.next)
	if more {
		v |= 1
	}
	be.PutUint16(f[2:], v)
	be.PutUint32(f[4:], s.id)
}

// protoField returns where an IPv6 packet names the protocol of its payload: in
// its header, or in its last extension header.
func (s *Fragmenter) protoField() int {
	if s.in.Version != 6 {
		return 0
	}
	field, at := s.in.L3+6, s.in.L3+IPv6Len
	for range maxExtensions {
		if at+8 > s.in.L4 {
			break
		}
		n := (int(s.frame[at+1]) + 1) * 8
		if s.frame[field] == extAuth {
			n = (int(s.frame[at+1]) + 2) * 4
		}
		field, at = at, at+n
	}
	return field
}
