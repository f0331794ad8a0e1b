// Package ring is the split virtqueue (virtio 1.3 §2.7), both sides: Device
// takes chains and gives them back, Driver is a guest's side over the same
// bytes. It is without clock, file descriptors, goroutines, locks and
// notifications: NeedCall, NeedKick and their like say whether the other side
// wants to be told, and the caller tells it.
//
// Everything that Device reads was written by a guest. What breaks the rules of
// the specification is a Fault; nothing of it panics, and the work of one Next
// is bounded by the queue size and by 64 Ki descriptors of an indirect table.
// Guest memory is validated when it is used, each word being read once.
//
// Nothing here allocates per chain, once the slices of the caller's Chain have
// grown.
package ring

import (
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// MaxSize is the largest queue size of a split ring (virtio 1.3 §2.7).
const MaxSize = 32768

// Alignment in bytes of the three parts of a split ring (virtio 1.3 §2.7).
const (
	DescAlign  = 16
	AvailAlign = 2
	UsedAlign  = 4
)

// Causes for which a ring is refused when it is set up.
var (
	ErrSize      = errors.New("queue size is not a power of two between 1 and 32768")
	ErrMisplaced = errors.New("ring part is not aligned")
)

// Config says where a ring lies and what was negotiated for it.
type Config struct {
	Size     uint16          // entries: a power of two, at most MaxSize
	Desc     uint64          // guest physical address of the descriptor table
	Avail    uint64          // guest physical address of the available ring
	Used     uint64          // guest physical address of the used ring
	Features virtio.Features // INDIRECT_DESC and EVENT_IDX count, the rest is ignored

	// Base is the index of the first available entry that a Device takes; a
	// Driver starts both of its indices there, which the specification has at 0.
	Base uint16
	// BaseFromUsed makes a Device start at the used index it finds in memory
	// instead of Base: what to do when a front-end resumes a ring whose chains
	// were taken but never given back. Without it Base is taken literally.
	BaseFromUsed bool
	// MaxChainBytes bounds the sum of a chain's descriptor lengths. 0 is the
	// most that a Chain can count, 4 GiB less a byte. Device only.
	MaxChainBytes uint32

	// IndirectBase is the guest physical address of the Driver's indirect
	// tables, IndirectBytes(Size, IndirectEntries) bytes aligned to DescAlign. It
	// is used only if INDIRECT_DESC was negotiated. Driver only.
	IndirectBase uint64
	// IndirectEntries is the size of each table in descriptors; 0 is
	// DefaultIndirectEntries. Driver only.
	IndirectEntries uint16
	// ZeroEvent makes Driver.DisableCalls write 0 to used_event if EVENT_IDX was
	// negotiated, as Linux does since v5.13 (virtqueue_disable_cb_split). Before,
	// it left the old value there. Driver only.
	ZeroEvent bool
}

// DefaultIndirectEntries holds what a transmitted packet of Linux needs: a net
// header, MAX_SKB_FRAGS fragments and the linear part (drivers/net/virtio_net.c
// start_xmit, v6.1), and one to spare.
const DefaultIndirectEntries = 20

// Bytes is the length of each part of a split ring.
type Bytes struct{ Desc, Avail, Used uint64 }

// BytesNeeded returns the length in bytes of each part of a ring of size
// entries, the event fields included (virtio 1.3 §2.7).
func BytesNeeded(size uint16) Bytes {
	n := uint64(size)
	return Bytes{Desc: 16 * n, Avail: 6 + 2*n, Used: 6 + 8*n}
}

// IndirectBytes returns the length in bytes of the Driver's indirect tables for
// a ring of size entries and tables of that many descriptors each; entries 0 is
// DefaultIndirectEntries.
func IndirectBytes(size, entries uint16) uint64 {
	if entries == 0 {
		entries = DefaultIndirectEntries
	}
	return uint64(size) * uint64(entries) * 16
}

// Flags of a descriptor, of the available ring and of the used ring (virtio 1.3
// §2.7.5, §2.7.6, §2.7.8).
const (
	descNext     = 1
	descWrite    = 2
	descIndirect = 4

	availNoInterrupt = 1
	usedNoNotify     = 1
)

// parts is a split ring laid over guest memory.
type parts struct {
	desc      []shm.Pair64 // addr, then len | flags<<32 | next<<48
	availRing []uint16
	usedRing  []shm.Pair32 // id, len

	availFlags, availIdx, usedEvent *uint16
	usedFlags, usedIdx, availEvent  *uint16
}

// place validates cfg's geometry and lays the parts over mem. Each part must lie
// in one region.
func (cfg *Config) place(mem *shm.Memory) (parts, error) {
	var p parts
	n := int(cfg.Size)
	if n == 0 || n > MaxSize || n&(n-1) != 0 {
		return p, fmt.Errorf("%d: %w", n, ErrSize)
	}
	need := BytesNeeded(cfg.Size)
	desc, ok, err := view[shm.Pair64](mem, "descriptor table", cfg.Desc, need.Desc, DescAlign)
	if !ok {
		return p, err
	}
	avail, ok, err := view[uint16](mem, "available ring", cfg.Avail, need.Avail, AvailAlign)
	if !ok {
		return p, err
	}
	used, ok, err := view[uint16](mem, "used ring", cfg.Used, need.Used, UsedAlign)
	if !ok {
		return p, err
	}
	elems, ok, err := view[shm.Pair32](mem, "used ring", cfg.Used+4, need.Used-6, UsedAlign)
	if !ok {
		return p, err
	}
	return parts{
		desc: desc, availRing: avail[2 : 2+n], usedRing: elems,
		availFlags: &avail[0], availIdx: &avail[1], usedEvent: &avail[2+n],
		usedFlags: &used[0], usedIdx: &used[1], availEvent: &used[2+4*n],
	}, nil
}

// view lays []T over the n bytes at gpa, or says why that cannot be.
func view[T shm.Word](mem *shm.Memory, what string, gpa, n, align uint64) (v []T, ok bool, err error) {
	if gpa%align != 0 {
		return nil, false, fmt.Errorf("%s at %#x: %w to %d bytes", what, gpa, ErrMisplaced, align)
	}
	b, ok := mem.Slice(gpa, n)
	if !ok {
		return nil, false, fmt.Errorf("%s at %#x, %d bytes in one region: %w", what, gpa, n, shm.ErrUnmapped)
	}
	if v, ok = shm.View[T](b); !ok {
		return nil, false, fmt.Errorf("%s at %#x: %w in the mapping", what, gpa, ErrMisplaced)
	}
	return v, true, nil
}

// needEvent reports whether the step from old to new passes event: the rule of
// EVENT_IDX for both directions (virtio 1.3 §2.7.10).
func needEvent(event, new, old uint16) bool {
	return new-event-1 < new-old
}
