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
)

// Buf is one buffer of a chain: Len bytes at a guest physical address.
type Buf struct {
	Addr uint64
	Len  uint32
}

// Driver is a guest's side of a split ring, in the manner of Linux
// (drivers/virtio/virtio_ring.c, v6.1): the same descriptors, in the same slots,
// with the same bytes. It is not safe for concurrent use; the device's side may
// run at the same time.
type Driver struct {
	parts
	mask     uint16
	eventIdx bool
	callsOff bool
	force    bool // 2^16 chains since NeedKick was asked

	avail  uint16 // entries written to the available ring, modulo 2^16
	shown  uint16 // avail.idx
	kicked uint16 // avail.idx when NeedKick was last asked
	reaped uint16 // used elements read

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
	next  uint16 // next slot of the chain or of the free list
	descs uint16 // slots of the chain that starts here; 0 if none does
	last  uint16 // last slot of that chain
}

// NewDriver sets a ring up in memory that no device uses yet: it writes every
// byte of it. The error wraps ErrSize, ErrMisplaced or shm.ErrUnmapped.
func NewDriver(mem *shm.Memory, cfg Config) (*Driver, error) {
	p, err := cfg.place(mem)
	if err != nil {
		return nil, err
	}
	q := &Driver{
		parts: p, size: cfg.Size, mask: cfg.Size - 1, zeroEvent: cfg.ZeroEvent,
		eventIdx: cfg.Features.Has(virtio.FeatureEventIdx),
		avail:    cfg.Base, shown: cfg.Base, kicked: cfg.Base, reaped: cfg.Base,
		slots: make([]slot, cfg.Size), free: cfg.Size,
	}
	if cfg.Features.Has(virtio.FeatureIndirectDesc) {
		if err := q.placeTables(mem, cfg); err != nil {
			return nil, err
		}
	}
	q.init(cfg.Base)
	return q, nil
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

// init writes the ring's bytes and links all slots into the free list.
func (q *Driver) init(base uint16) {
	for i := range q.slots {
		next := uint16(i + 1)
		q.slots[i] = slot{next: next}
		shm.StorePair64(&q.desc[i], 0, uint64(next)<<48)
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
	default:
		q.addDirect(out, in)
	}
	head := q.head
	s := &q.slots[head]
	s.token, s.descs = token, uint16(n)
	q.head = q.slots[s.last].next
	q.free -= uint16(n)
	shm.Store16(&q.availRing[q.avail&q.mask], head)
	q.avail++
	return nil
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
	for k := range out {
		setEntry(table, k, &out[k], 0)
	}
	for k := range in {
		setEntry(table, len(out)+k, &in[k], descWrite)
	}
	s := &q.slots[q.head]
	s.last = q.head
	shm.StorePair64(&q.desc[q.head], q.base+uint64(first)*16,
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
	shm.Store16(q.availIdx, q.shown)
	if q.shown-q.kicked < added {
		q.force = true
	}
}

// HasUsed reports whether Reap would return a chain.
func (q *Driver) HasUsed() bool {
	return q.err == nil && shm.Load16(q.usedIdx) != q.reaped
}

// Reap returns the token of a chain that the device is done with, and the bytes
// it wrote; ok is false if there is none. While calls are enabled with EVENT_IDX
// it asks for a call at the next element (virtqueue_get_buf_ctx_split, v6.1).
func (q *Driver) Reap() (token uint32, n uint32, ok bool) {
	if !q.HasUsed() {
		return 0, 0, false
	}
	shm.Acquire()
	id, n := shm.LoadPair32(&q.usedRing[q.reaped&q.mask])
	if id >= uint32(len(q.slots)) || q.slots[id].descs == 0 {
		q.err = fmt.Errorf("used element %d has id %d: %w", q.reaped, id, ErrBadUsed)
		return 0, 0, false
	}
	token = q.release(uint16(id))
	q.reaped++
	if q.eventIdx && !q.callsOff {
		shm.Store16(q.usedEvent, q.reaped)
		shm.Fence()
	}
	return token, n, true
}

// release puts the slots of the chain at head in front of the free list.
func (q *Driver) release(head uint16) (token uint32) {
	s := &q.slots[head]
	q.slots[s.last].next = q.head
	q.head = head
	q.free += s.descs
	s.descs = 0
	return s.token
}

// DetachUnused takes back a chain that the device never gave back, for a driver
// that has stopped the device (virtqueue_detach_unused_buf, v6.1); ok is false
// if there is none. Its cost grows with the queue size.
func (q *Driver) DetachUnused() (token uint32, ok bool) {
	for i := range q.slots {
		if q.slots[i].descs != 0 {
			token = q.release(uint16(i))
			q.avail--
			shm.Store16(q.availIdx, q.avail)
			q.shown = q.avail
			return token, true
		}
	}
	return 0, false
}
