// Package ring is the virtqueue, split (virtio 1.3 §2.7) and packed (§2.8), both
// sides: Device takes chains and gives them back, Driver is a guest's side over
// the same bytes. It is without clock, file descriptors, goroutines, locks and
// notifications: NeedCall, NeedKick and their like say whether the other side
// wants to be told, and the caller tells it. Which of the two layouts a ring has,
// and whether its chains come back in order, is in the features of its Config;
// the methods are the same.
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

// MaxSize is the largest queue size (virtio 1.3 §2.7, §2.8.10.1).
const MaxSize = 32768

// Alignment in bytes of the three parts of a split ring (virtio 1.3 §2.7). Of a
// packed ring, the descriptor ring is aligned to DescAlign and both event
// structures to EventAlign (virtio 1.3 §2.8).
const (
	DescAlign  = 16
	AvailAlign = 2
	UsedAlign  = 4
	EventAlign = 4
)

// Causes for which a ring is refused when it is set up.
var (
	// ErrSize: the queue size of a split ring is a power of two, that of a packed
	// one any number, both between 1 and MaxSize.
	ErrSize      = errors.New("queue size is not a power of two (packed: a number) between 1 and 32768")
	ErrMisplaced = errors.New("ring part is not aligned")
	// ErrBase: a base of a packed ring names a position beyond the ring, or more
	// chains under way than it holds.
	ErrBase = errors.New("base is not a state that the ring can have")
	// ErrInflight: a region for chains in flight is too short or belongs to
	// another ring.
	ErrInflight = errors.New("inflight region does not fit the ring")
	// ErrLog: a dirty log is not aligned.
	ErrLog = errors.New("dirty log is not aligned to 4 bytes")
)

// Config says where a ring lies and what was negotiated for it.
type Config struct {
	Size  uint16 // entries; split: a power of two, at most MaxSize
	Desc  uint64 // guest physical address of the descriptor table, or ring
	Avail uint64 // guest physical address of the available ring; packed: of the driver's event structure
	Used  uint64 // guest physical address of the used ring; packed: of the device's event structure
	// Features are those that were negotiated. RING_PACKED decides the layout;
	// INDIRECT_DESC, EVENT_IDX and IN_ORDER count too, the rest is ignored.
	Features virtio.Features

	// Base is where the ring starts, as GET_VRING_BASE and SET_VRING_BASE of
	// vhost-user have it. Split: the index of the first available entry that a
	// Device takes, in the low 16 bits; a Driver starts both of its indices there,
	// which the specification has at 0. Packed: the position of the next available
	// descriptor in bits 0 to 14 and its wrap counter in bit 15, the same of the
	// next used one in the upper half. If the upper half is 0 and the lower one is
	// not below 0x8000, the used position is the available one, since virtio-user
	// sends 0x8000 for a ring that starts; else it is taken literally. StartBase is
	// the base of a new ring.
	Base uint32
	// BaseFromUsed makes a Device start at the used index it finds in memory
	// (packed: in Base) instead of the available one in Base: what to do when a
	// front-end resumes a ring whose chains were taken but never given back.
	// Without it Base is taken literally.
	BaseFromUsed bool

	// ZeroIsStart makes a Device take Base 0 of a packed ring, which literally is a
	// position a lap on, for StartBase if the first descriptor has no mark of having
	// been used, as it would have: Linux in user mode gives 0 for a new ring of
	// either layout.
	ZeroIsStart bool

	// Inflight, if not nil, is the ring's part of the memory in which a Device
	// keeps a record of the chains that it has taken and not given back, so that
	// the next Device can go on if this one dies: at least InflightBytes, aligned to
	// 8 bytes, zero for a new ring. What is found there decides over Base. Device
	// only.
	Inflight []byte
	// Log is where a Device notes the guest's pages that were written. The zero
	// value notes nothing. Device only.
	Log Log
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

	// Serial says that both sides of the ring run on one goroutine, so that no
	// access needs a full barrier between it and the next: a simulator's ring.
	Serial bool
}

// DefaultIndirectEntries holds what a transmitted packet of Linux needs: a net
// header, MAX_SKB_FRAGS fragments and the linear part (drivers/net/virtio_net.c
// start_xmit, v6.1), and one to spare.
const DefaultIndirectEntries = 20

// Bytes is a number of bytes for each part of a ring.
type Bytes struct{ Desc, Avail, Used uint64 }

// Packed reports whether the ring is a packed one.
func (cfg *Config) Packed() bool { return cfg.Features.Has(virtio.FeatureRingPacked) }

// BytesNeeded returns the length of each part of the ring.
func (cfg *Config) BytesNeeded() Bytes {
	if cfg.Packed() {
		return PackedBytesNeeded(cfg.Size)
	}
	return BytesNeeded(cfg.Size)
}

// Alignment returns the alignment of each part of the ring.
func (cfg *Config) Alignment() Bytes {
	if cfg.Packed() {
		return Bytes{Desc: DescAlign, Avail: EventAlign, Used: EventAlign}
	}
	return Bytes{Desc: DescAlign, Avail: AvailAlign, Used: UsedAlign}
}

// StartBase returns the Base of a new ring: 0, or for a packed ring both
// positions 0 and both wrap counters 1 (virtio 1.3 §2.8.1).
func StartBase(f virtio.Features) uint32 {
	if f.Has(virtio.FeatureRingPacked) {
		return 0x8000_8000
	}
	return 0
}

// ValidSize returns ErrSize, wrapped, if a ring with these features cannot have n
// entries.
func ValidSize(n int, f virtio.Features) error {
	if n < 1 || n > MaxSize || n&(n-1) != 0 && !f.Has(virtio.FeatureRingPacked) {
		return fmt.Errorf("%d: %w", n, ErrSize)
	}
	return nil
}

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
	if err := ValidSize(n, cfg.Features); err != nil {
		return p, err
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
