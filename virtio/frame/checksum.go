package frame

import (
	"encoding/binary"
	"math/bits"
)

// Sum returns the ones' complement sum, folded to 16 bits and not inverted, of
// init and the 16-bit big-endian words of b, an odd last byte being followed by
// a zero (RFC 1071 §1). The Internet checksum of b is ^Sum(b, 0).
func Sum(b []byte, init uint16) uint16 {
	// The words are added in little-endian order, which gives the same sum with its
	// bytes swapped (RFC 1071 §2).
	sum := uint64(bits.ReverseBytes16(init))
	le := binary.LittleEndian
	var c uint64
	for len(b) >= 32 {
		sum, c = bits.Add64(sum, le.Uint64(b), 0)
		sum, c = bits.Add64(sum, le.Uint64(b[8:]), c)
		sum, c = bits.Add64(sum, le.Uint64(b[16:]), c)
		sum, c = bits.Add64(sum, le.Uint64(b[24:]), c)
		sum += c
		b = b[32:]
	}
	for len(b) >= 8 {
		sum, c = bits.Add64(sum, le.Uint64(b), 0)
		sum += c
		b = b[8:]
	}
	if len(b) > 0 {
		var tail [8]byte
		copy(tail[:], b)
		sum, c = bits.Add64(sum, le.Uint64(tail[:]), 0)
		sum += c
	}
	return bits.ReverseBytes16(fold(sum))
}

// fold adds the 16-bit words of sum until one is left.
func fold(sum uint64) uint16 {
	sum = sum>>32 + sum&0xffffffff
	sum = sum>>32 + sum&0xffffffff
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	return uint16(sum)
}

// add16 is the ones' complement sum of two words.
func add16(a, b uint16) uint16 {
	s := uint32(a) + uint32(b)
	return uint16(s + s>>16)
}

// Adder sums bytes that come in pieces of any length. The zero value is ready.
type Adder struct {
	sum uint16
	odd bool // an odd number of bytes so far
}

// Add adds the bytes of b after those added before.
func (a *Adder) Add(b []byte) {
	s := Sum(b, 0)
	if a.odd {
		s = bits.ReverseBytes16(s)
	}
	a.sum = add16(a.sum, s)
	a.odd = a.odd != (len(b)&1 != 0)
}

// AddSum adds a sum of its own, such as that of a pseudo-header.
func (a *Adder) AddSum(s uint16) { a.sum = add16(a.sum, s) }

// Sum returns the sum so far, not inverted.
func (a *Adder) Sum() uint16 { return a.sum }

// PseudoSum returns the sum, not inverted, of the pseudo-header of a TCP or UDP
// packet with n bytes of L4 header and payload (RFC 9293 §3.1, RFC 8200 §8.1).
// This is what the checksum field of a packet with partial checksum holds.
func PseudoSum(src, dst Addr, proto uint8, n uint32) uint16 {
	s := add16(uint16(n>>16), uint16(n))
	s = add16(s, uint16(proto))
	if src.Is4() {
		return Sum(dst[12:], Sum(src[12:], s))
	}
	return Sum(dst[:], Sum(src[:], s))
}

// UpdateCSum returns the checksum of a header with checksum c in which the word
// old became new (RFC 1624 §3, equation 3).
func UpdateCSum(c, old, new uint16) uint16 {
	return ^add16(add16(^c, ^old), new)
}

// CompleteCSum finishes a partial checksum as the net header of virtio asks for
// it: it sums the frame from start to its end and stores the inverted sum at
// start+offset, whose bytes the sum includes. It returns false, having written
// nothing, if the field is not within the frame.
//
// A result of 0 is stored as 0xffff, which is the same sum, because 0 means "no
// checksum" to UDP (RFC 768).
func CompleteCSum(b []byte, start, offset int) bool {
	if start < 0 || offset < 0 || start > len(b) || offset > len(b)-start-2 {
		return false
	}
	c := ^Sum(b[start:], 0)
	if c == 0 {
		c = 0xffff
	}
	be.PutUint16(b[start+offset:], c)
	return true
}
