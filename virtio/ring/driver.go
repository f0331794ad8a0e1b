package ring

import (
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// Causes for which a Driver refuses a request or gives up on its ring.
var (
	// ErrFull: the ring has no room for the chain; reap first.
	ErrFull = errors.New("ring is full")
	// ErrNoBuffer: a chain needs at least one buffer.
	ErrNoBuffer = errors.New("chain has no buffer")
	// ErrBadUsed: the device gave back what it was not given. The Driver reaps
	// nothing more.
	ErrBadUsed = errors.New("used element is not an outstanding chain")
	// ErrOutstanding: a queue is reset while chains are the device's.
	ErrOutstanding = errors.New("chains are outstanding")
)

// Buf is one buffer of a chain: Len bytes at a guest physical address.
type Buf struct {
	Addr uint64
	Len  uint32
}

// Driver is a guest's side of a ring, in the manner of Linux
// (drivers/virtio/virtio_ring.c, v6.1): the same descriptors, in the same slots,
// with the same bytes. With IN_ORDER, which Linux has not before v6.18, it takes
// the slots in the order of the ring, as virtio 1.3 §2.7.5.1 asks, and understands
// used elements that stand for several chains. It is not safe for concurrent use;
// the device's side may run at the same time.
type Driver struct {
	parts       // of a split ring
	packedParts // of a packed one
	pk          packedDriver
	packed      bool
	inOrder     bool

	mask     uint16
	eventIdx bool
	serial   bool // no other goroutine has the device's side
	callsOff bool
	called   bool // a call came since calls were enabled
	force    bool // 2^16 chains since NeedKick was asked

	avail  uint16 // chains added, modulo 2^16; split: as the available index counts
	shown  uint16 // of these, published
	kicked uint16 // shown when NeedKick was last asked
	reaped uint16 // chains reaped; split: as the used index counts

	oldest  uint16 // IN_ORDER: slot of the chain that is reaped next
	batch   bool   // IN_ORDER: a used element stands for chains not yet reaped,
	lastOf  uint16 // of which this is the last
	lastLen uint32 // and has these bytes

	head  uint16 // first free slot, if free > 0
	free  uint16 // free slots
	slots []slot

	tables  []shm.Pair64 // indirect tables, one per slot; nil without INDIRECT_DESC
	entries uint16       // descriptors per table
	base    uint64       // guest address of tables

	zeroEvent bool
	size      uint16
	err       error
}

// slot is what a Driver remembers of a descriptor: it trusts nothing that it
// would have to read back from shared memory.
type slot struct {
	token uint32
	room  uint32 // bytes that the device may write
	next  uint16 // next slot of the chain or of the free list
	descs uint16 // slots of the chain that starts here; 0 if none does
	last  uint16 // last slot of that chain
}

// NewDriver sets a ring up in memory that no device uses yet: it writes every
// byte of it. The error wraps ErrSize, ErrMisplaced, ErrBase or shm.ErrUnmapped.
func NewDriver(mem *shm.Memory, cfg Config) (*Driver, error) {
	base := uint16(cfg.Base)
	if cfg.Packed() {
		base = 0
	}
	q := &Driver{
		size: cfg.Size, mask: cfg.Size - 1, zeroEvent: cfg.ZeroEvent,
		packed:   cfg.Packed(),
		inOrder:  cfg.Features.Has(virtio.FeatureInOrder),
		eventIdx: cfg.Features.Has(virtio.FeatureEventIdx),
		serial:   cfg.Serial,
		avail:    base, shown: base, kicked: base, reaped: base,
		slots: make([]slot, cfg.Size), free: cfg.Size,
	}
	if err := q.placeRing(mem, &cfg); err != nil {
		return nil, err
	}
	if cfg.Features.Has(virtio.FeatureIndirectDesc) {
		if err := q.placeTables(mem, cfg); err != nil {
			return nil, err
		}
	}
	for i := range q.slots {
		q.slots[i] = slot{next: uint16(i + 1)}
	}
	if q.inOrder {
		q.slots[q.size-1].next = 0
	}
	if q.packed {
		q.initPacked()
	} else {
		q.init(base)
	}
	return q, nil
}

func (q *Driver) placeRing(mem *shm.Memory, cfg *Config) (err error) {
	if !q.packed {
		q.parts, err = cfg.place(mem)
		return err
	}
	if q.packedParts, err = cfg.placePacked(mem); err != nil {
		return err
	}
	avail, used, err := cfg.startSpots()
	if err == nil && avail != used {
		err = fmt.Errorf("%#x: %w: a driver starts with nothing under way", cfg.Base, ErrBase)
	}
	q.pk.next, q.pk.used = avail, used
	q.oldest = used.off
	if q.inOrder {
		q.head = avail.off
	}
	return err
}

// Reset makes the ring anew, at another place or of another size, when the driver
// has reset its queue and has taken back what was outstanding (virtio 1.3 §2.6.1,
// RING_RESET). Features may not change. It returns ErrOutstanding, wrapped, or an
// error of NewDriver's kinds; then nothing has changed.
func (q *Driver) Reset(mem *shm.Memory, cfg Config) error {
	if n := q.Outstanding(); n != 0 {
		return fmt.Errorf("%d chains: %w", n, ErrOutstanding)
	}
	fresh, err := NewDriver(mem, cfg)
	if err != nil {
		return err
	}
	*q = *fresh
	return nil
}

func (q *Driver) placeTables(mem *shm.Memory, cfg Config) (err error) {
	q.entries, q.base = cfg.IndirectEntries, cfg.IndirectBase
	if q.entries == 0 {
		q.entries = DefaultIndirectEntries
	}
	n := IndirectBytes(cfg.Size, q.entries)
	q.tables, _, err = view[shm.Pair64](mem, "indirect tables", q.base, n, DescAlign)
	return err
}

// init writes the ring's bytes.
func (q *Driver) init(base uint16) {
	for i := range q.slots {
		shm.StorePair64(&q.desc[i], 0, uint64(q.slots[i].next)<<48)
		shm.Store16(&q.availRing[i], 0)
		shm.StorePair32(&q.usedRing[i], 0, 0)
	}
	for _, p := range []*uint16{q.availFlags, q.usedFlags} {
		shm.Store16(p, 0)
	}
	for _, p := range []*uint16{q.availIdx, q.usedIdx, q.usedEvent, q.availEvent} {
		shm.Store16(p, base)
	}
}

// Free returns the number of free slots. A chain takes one slot per buffer, or,
// with INDIRECT_DESC, one in all.
func (q *Driver) Free() int { return int(q.free) }

// Size returns the queue size.
func (q *Driver) Size() int { return int(q.size) }

// Outstanding returns the number of chains made available and not reaped.
func (q *Driver) Outstanding() int { return int(q.avail - q.reaped) }

// Err returns why the Driver gave up on the ring, or nil.
func (q *Driver) Err() error { return q.err }

// Add writes a chain of device-readable and device-writable buffers into the
// ring. The device sees it after Publish; the buffers are the device's until
// Reap returns the token. With INDIRECT_DESC, a chain of two buffers and more
// goes to an indirect table; a chain that exceeds a table goes without
// (virtqueue_add_split, v6.1, whose tables are allocated to measure, but which
// does the same if that fails). It returns ErrFull or ErrNoBuffer, unwrapped.
func (q *Driver) Add(out, in []Buf, token uint32) error {
	n := len(out) + len(in)
	switch {
	case n == 0:
		return ErrNoBuffer
	case q.free == 0:
		return ErrFull
	case n > 1 && n <= int(q.entries):
		q.addIndirect(out, in)
		n = 1
	case n > int(q.free):
		return ErrFull
	case q.packed:
		q.addPacked(out, in)
	default:
		q.addDirect(out, in)
	}
	head := q.head
	s := &q.slots[head]
	s.token, s.descs = token, uint16(n)
	if q.inOrder {
		s.room = total(in)
	}
	q.head = q.slots[s.last].next
	q.free -= uint16(n)
	if !q.packed {
		shm.Store16(&q.availRing[q.avail&q.mask], head)
	}
	q.avail++
	return nil
}

// total returns the bytes of b.
func total(b []Buf) (n uint32) {
	for i := range b {
		n += b[i].Len
	}
	return n
}

// addDirect writes the buffers to free slots, in the order of the free list, and
// records the last of them.
func (q *Driver) addDirect(out, in []Buf) {
	i, last := q.head, q.head
	left := len(out) + len(in)
	for k := range out {
		left--
		last, i = i, q.setDesc(i, &out[k], 0, left > 0)
	}
	for k := range in {
		left--
		last, i = i, q.setDesc(i, &in[k], descWrite, left > 0)
	}
	q.slots[q.head].last = last
}

func (q *Driver) setDesc(i uint16, b *Buf, flags uint64, more bool) (next uint16) {
	if more {
		flags |= descNext
	}
	next = q.slots[i].next
	shm.StorePair64(&q.desc[i], b.Addr, uint64(b.Len)|flags<<32|uint64(next)<<48)
	return next
}

// addIndirect writes the buffers to the table of the first free slot, and the
// table's address to the slot.
func (q *Driver) addIndirect(out, in []Buf) {
	n := len(out) + len(in)
	first := int(q.head) * int(q.entries)
	table := q.tables[first : first+n]
	at := q.base + uint64(first)*16
	if q.packed {
		q.addIndirectPacked(table, at, out, in)
		return
	}
	for k := range out {
		setEntry(table, k, &out[k], 0)
	}
	for k := range in {
		setEntry(table, len(out)+k, &in[k], descWrite)
	}
	s := &q.slots[q.head]
	s.last = q.head
	shm.StorePair64(&q.desc[q.head], at,
		uint64(n)*16|descIndirect<<32|uint64(s.next)<<48)
}

// setEntry writes entry k of an indirect table; all but the last have NEXT.
func setEntry(table []shm.Pair64, k int, b *Buf, flags uint64) {
	next := uint64(0)
	if k+1 < len(table) {
		flags |= descNext
		next = uint64(k + 1)
	}
	shm.StorePair64(&table[k], b.Addr, uint64(b.Len)|flags<<32|next<<48)
}

// Publish shows the added chains to the device. Linux publishes in every
// virtqueue_add, so a model of it calls Publish after each Add.
func (q *Driver) Publish() {
	added := q.avail - q.shown
	if added == 0 {
		return
	}
	shm.Release()
	q.shown = q.avail
	if q.packed {
		q.publishPacked()
		return
	}
	shm.Store16(q.availIdx, q.shown)
	if q.shown-q.kicked < added {
		q.force = true
	}
}
