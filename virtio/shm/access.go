// Package shm is guest memory: regions that are shared with a guest which may
// write them at any time, and the accesses and fences that are sound on such
// bytes. It is without mapping, file descriptors, clock and goroutines: others
// map the regions. It holds the only unsafe code of the core.
//
// # Order of accesses
//
// The virtio rings are synchronised by 16-bit indices at addresses that are
// only 2-byte aligned. Go has no 16-bit atomics, so an index is read and written
// by one plain, aligned 16-bit instruction, and order comes from Acquire,
// Release and Fence, which stand between two such accesses.
//
// All three are made of Go's sequentially consistent atomics on a word of the
// caller's own stack, so that no cache line is shared between workers. What go
// tool objdump shows for Fence (go1.26, inlined into a caller):
//
//	amd64  XCHGL CX, 0x4(SP)    a locked exchange: nothing passes it, and the
//	       MOVL 0x4(SP), CX     store buffer is drained
//	arm64  STLRW R1, (R2)       store-release: ordered after all accesses before
//	       LDARW (R2), R1       it; load-acquire: ordered after every earlier
//	                            store-release and before all accesses that follow.
//	                            No LSE instruction is used, and a read-modify-write
//	                            alone would be no full barrier there.
//
// Load16 is MOVZX or MOVWLZX on amd64 and MOVHU on arm64, Store16 MOVW and MOVH,
// each at its place before and after those two.
//
// On amd64 loads are not reordered with loads, nor stores with stores, so
// Acquire and Release have only to keep the compiler from moving accesses; they
// are a load of a word on the stack. Elsewhere both are Fence: on arm64 neither
// a store-release nor a load-acquire of another word alone orders two plain
// accesses around it.
//
// The litmus test in this package shows on amd64 that store-load order holds
// with Fence and, as a control, that it does not hold without. On arm64 only the
// instructions were looked at; no arm64 machine ran the test.
//
// # The race detector
//
// The other side of the memory is a guest: there is no happens-before between it
// and us that the race detector could see. The accessors are marked with the
// directive norace, so that a test with both sides in one process is not
// reported.
package shm

import (
	"sync/atomic"
	"unsafe"
)

const _ = hostIsLittleEndian // see endian.go

// Load16 reads the 16-bit little-endian integer at p by one instruction. A
// *uint16 made by View is aligned.
//
//go:norace
func Load16(p *uint16) uint16 { return *p }

// Store16 writes v to p by one instruction.
//
//go:norace
func Store16(p *uint16, v uint16) { *p = v }

// Load32 reads the 32-bit little-endian integer at p by one instruction.
//
//go:norace
func Load32(p *uint32) uint32 { return *p }

// Store32 writes v to p by one instruction.
//
//go:norace
func Store32(p *uint32, v uint32) { *p = v }

// Load64 reads the 64-bit little-endian integer at p by one instruction.
//
//go:norace
func Load64(p *uint64) uint64 { return *p }

// Store64 writes v to p by one instruction.
//
//go:norace
func Store64(p *uint64, v uint64) { *p = v }

// Or32 sets bits in the 32-bit little-endian integer at p by one atomic
// instruction, which is a full barrier on amd64 and orders all accesses before it
// on arm64. It is for bitmaps that several writers and a reader share.
func Or32(p *uint32, bits uint32) { atomic.OrUint32(p, bits) }

// Pair64 is 16 bytes of guest memory, such as a ring descriptor, as two
// little-endian words.
type Pair64 [2]uint64

// LoadPair64 reads each word of p once. The two reads are not one: the guest
// may write between them.
//
//go:norace
func LoadPair64(p *Pair64) (lo, hi uint64) { return p[0], p[1] }

// StorePair64 writes the words of p, in no particular order.
//
//go:norace
func StorePair64(p *Pair64, lo, hi uint64) { p[0], p[1] = lo, hi }

// Pair32 is 8 bytes of guest memory, such as an element of the used ring, as
// two little-endian words, aligned to 4 bytes.
type Pair32 [2]uint32

// LoadPair32 reads each word of p once.
//
//go:norace
func LoadPair32(p *Pair32) (lo, hi uint32) { return p[0], p[1] }

// StorePair32 writes the words of p, in no particular order.
//
//go:norace
func StorePair32(p *Pair32, lo, hi uint32) { p[0], p[1] = lo, hi }

// Load64At reads the little-endian 64-bit integer at offset off of b, at any
// alignment; an aligned one is read by one instruction. It panics if b does not
// hold off+8 bytes.
//
//go:norace
func Load64At(b []byte, off int) uint64 {
	p := (*[8]byte)(b[off : off+8])
	return uint64(p[0]) | uint64(p[1])<<8 | uint64(p[2])<<16 | uint64(p[3])<<24 |
		uint64(p[4])<<32 | uint64(p[5])<<40 | uint64(p[6])<<48 | uint64(p[7])<<56
}

// Store64At writes the little-endian 64-bit integer at offset off of b, at any
// alignment. It panics if b does not hold off+8 bytes.
//
//go:norace
func Store64At(b []byte, off int, v uint64) {
	p := (*[8]byte)(b[off : off+8])
	p[0], p[1], p[2], p[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
	p[4], p[5], p[6], p[7] = byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56)
}

// Word is a type that View can lay over guest memory: every bit pattern of it
// is a valid value, and it has no padding.
type Word interface {
	uint16 | uint32 | uint64 | Pair32 | Pair64
}

// View lays []T over b, as many whole elements as fit, sharing its bytes. It
// returns false if b does not start at an address that T needs: alignment is
// checked here once and not at each access.
func View[T Word](b []byte) ([]T, bool) {
	var t T
	size, align := unsafe.Sizeof(t), unsafe.Alignof(t)
	n := uintptr(len(b)) / size
	if n == 0 {
		return nil, true
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%align != 0 {
		return nil, false
	}
	return unsafe.Slice((*T)(p), n), true
}
