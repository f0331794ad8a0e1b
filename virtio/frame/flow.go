package frame

import "math/bits"

// Addr is an IP address. An IPv4 address a.b.c.d is ::ffff:a.b.c.d (RFC 4291
// §2.5.5.2).
type Addr [16]byte

// V4 returns the Addr of an IPv4 address.
func V4(a [4]byte) Addr {
	return Addr{10: 0xff, 11: 0xff, 12: a[0], 13: a[1], 14: a[2], 15: a[3]}
}

// Is4 reports whether a is an IPv4 address.
func (a Addr) Is4() bool { return be.Uint64(a[:]) == 0 && be.Uint32(a[8:]) == 0xffff }

// As4 returns the IPv4 address of an Addr that Is4.
func (a Addr) As4() [4]byte { return [4]byte(a[12:]) }

// FlowKey names a flow in one direction. It is comparable.
type FlowKey struct {
	Src, Dst         Addr
	SrcPort, DstPort uint16
	Proto            uint8
}

// Reverse returns the key of the opposite direction.
func (k FlowKey) Reverse() FlowKey {
	k.Src, k.Dst = k.Dst, k.Src
	k.SrcPort, k.DstPort = k.DstPort, k.SrcPort
	return k
}

// Hash returns a hash of the key that is the same in every run: two directions
// of a flow have unrelated hashes. All 32 bits are usable. It does not resist
// somebody who looks for collisions.
func (k *FlowKey) Hash() uint32 {
	ports := uint64(k.SrcPort)<<32 | uint64(k.DstPort)<<16 | uint64(k.Proto)
	h := mix(be.Uint64(k.Src[8:])^0x9e3779b97f4a7c15, be.Uint64(k.Dst[8:])^0xc2b2ae3d27d4eb4f)
	h = mix(h^be.Uint64(k.Src[:]), be.Uint64(k.Dst[:])^0x165667b19e3779f9)
	h = mix(h^ports, 0x27d4eb2f165667c5)
	return uint32(h ^ h>>32)
}

// mix folds the 128-bit product of a and b.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// FlowHash returns the hash of the flow that the parsed frame b belongs to, and
// 0 for a frame without an IP header.
func FlowHash(b []byte, in *Info) uint32 {
	k, ok := in.Key(b)
	if !ok {
		return 0
	}
	return k.Hash()
}
