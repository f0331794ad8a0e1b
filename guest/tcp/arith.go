package tcp

import "math/bits"

// before reports whether sequence number a comes before b (RFC 9293 §3.4).
func before(a, b uint32) bool { return int32(a-b) < 0 }

// after reports whether sequence number a comes after b.
func after(a, b uint32) bool { return int32(a-b) > 0 }

// ceilDiv is a divided by b, rounded up.
func ceilDiv(a, b uint32) uint32 { return (a + b - 1) / b }

// pow2Roundup is the smallest power of two that is not below n.
func pow2Roundup(n uint32) uint32 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len32(n-1)
}
