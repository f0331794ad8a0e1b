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
	return hashWords(be.Uint64(k.Src[8:]), be.Uint64(k.Dst[8:]), be.Uint64(k.Src[:]), be.Uint64(k.Dst[:]),
		k.SrcPort, k.DstPort, k.Proto)
}

// hashWords hashes the lower and upper halves of the addresses and the rest of a
// key.
func hashWords(src, dst, srcUp, dstUp uint64, srcPort, dstPort uint16, proto uint8) uint32 {
	ports := uint64(srcPort)<<32 | uint64(dstPort)<<16 | uint64(proto)
	h := mix(src^0x9e3779b97f4a7c15, dst^0xc2b2ae3d27d4eb4f)
	h = mix(h^srcUp, dstUp^0x165667b19e3779f9)
	h = mix(h^ports, 0x27d4eb2f165667c5)
	return uint32(h ^ h>>32)
}

// mix folds the 128-bit product of a and b.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// FlowHash returns the hash of the flow that the parsed frame b belongs to: that
// of its FlowKey, and 0 for a frame without an IP header.
func FlowHash(b []byte, in *Info) uint32 {
	if in.Layer >= LayerIP && in.Version == 4 {
		return in.hash4(b[in.L3:])
	}
	k, ok := in.Key(b)
	if !ok {
		return 0
	}
	return k.Hash()
}

// FlowHasher is FlowHash for frames that often belong to the flow of the one before:
// it remembers the last IPv4 flow. The zero value is ready. It is not safe for
// concurrent use.
type FlowHasher struct {
	addrs  uint64
	ports  uint32
	proto  uint8
	filled bool
	hash   uint32
}

// Hash returns FlowHash(b, in).
func (h *FlowHasher) Hash(b []byte, in *Info) uint32 {
	if in.Layer < LayerIP || in.Version != 4 {
		return FlowHash(b, in)
	}
	addrs := be.Uint64(b[in.L3+12:])
	ports := uint32(in.SrcPort)<<16 | uint32(in.DstPort)
	if !h.filled || h.addrs != addrs || h.ports != ports || h.proto != in.Proto {
		*h = FlowHasher{addrs, ports, in.Proto, true, in.hash4(b[in.L3:])}
	}
	return h.hash
}

// hash4 is FlowKey.Hash for an IPv4 packet, whose addresses have the same upper
// 12 bytes, without making the key.
func (in *Info) hash4(ip IPv4) uint32 {
	const v4 = 0xffff << 32
	k := (*[IPv4Len]byte)(ip)
	src, dst := v4|uint64(be.Uint32(k[12:])), v4|uint64(be.Uint32(k[16:]))
	return hashWords(src, dst, 0, 0, in.SrcPort, in.DstPort, in.Proto)
}
