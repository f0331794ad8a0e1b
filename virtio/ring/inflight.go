package ring

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// flight is the record of the chains that a Device has taken and not given back,
// in memory that survives it (vhost-user, INFLIGHT_SHMFD, whose layouts it has). It
// is read when a Device starts, and only written from then on: whoever shares the
// memory can spoil no more than the next start.
//
// The order of its stores is that of the program, which is what counts when a
// process is killed between two of them; Release keeps the compiler to it.
type flight struct {
	head    []shm.Pair64 // the header: one pair for a split ring, two for a packed one
	entries []shm.Pair64 // likewise for each entry
	counter uint64       // of the next chain taken
	heads   []flown      // chains that the device before this one left, oldest first
	at      int          // of heads, those taken again
	fresh   uint32       // chains taken since, less those put back
	staged  []uint16     // entries of the chains staged

	// Of a packed ring. An entry that is no chain's is in the free list.
	next []uint16 // entry that follows in a chain or in the free list
	last []uint16 // by the chain's first entry: its last one
	free uint16   // first of the free list
}

// flown is a chain found in the record.
type flown struct {
	counter uint64
	entry   uint16
	num     uint16 // packed: its descriptors
}

const (
	flightVersion = 1
	inFlight      = 0xff // of an entry's first word
	noEntry       = 0xffff
)

// InflightBytes returns the length in bytes of Config.Inflight for a ring of size
// entries with these features.
func InflightBytes(size uint16, f virtio.Features) uint64 {
	if f.Has(virtio.FeatureRingPacked) {
		return 32 + 32*uint64(size)
	}
	return 16 + 16*uint64(size)
}

// crashHook is called between any two stores of the record, and between them and
// those to the ring, by tests that let a Device die there.
var crashHook func()

func crash() {
	shm.Release()
	if crashHook != nil {
		crashHook()
	}
}

// newFlight lays a record over cfg.Inflight.
func (cfg *Config) newFlight() (*flight, error) {
	need := InflightBytes(cfg.Size, cfg.Features)
	if uint64(len(cfg.Inflight)) < need {
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrInflight, len(cfg.Inflight), need)
	}
	words, ok := shm.View[shm.Pair64](cfg.Inflight[:need])
	if !ok {
		return nil, fmt.Errorf("%w: not aligned to 8 bytes", ErrInflight)
	}
	n := 1
	if cfg.Packed() {
		n = 2
	}
	f := &flight{head: words[:n], entries: words[n:], staged: make([]uint16, 0, cfg.Size)}
	switch v := f.version(); {
	case v > flightVersion:
		return nil, fmt.Errorf("%w: version %d", ErrInflight, v)
	case v != 0 && f.size() != cfg.Size: // the ring was made anew meanwhile
		f.setVersion(0, 0)
	}
	return f, nil
}

// The second word of both headers has version, number of entries, and two fields
// that differ: last_batch_head and used_idx, or free_head and old_free_head.
func (f *flight) word() uint64    { return shm.Load64(&f.head[0][1]) }
func (f *flight) version() uint16 { return uint16(f.word()) }
func (f *flight) size() uint16    { return uint16(f.word() >> 16) }

func (f *flight) setVersion(v, size uint16) {
	w := f.word() &^ 0xffff_ffff
	shm.Store64(&f.head[0][1], w|uint64(v)|uint64(size)<<16)
}

// setFields writes the two fields of the second word.
func (f *flight) setFields(a, b uint16) {
	w := f.word() & 0xffff_ffff
	shm.Store64(&f.head[0][1], w|uint64(a)<<32|uint64(b)<<48)
}

// mark sets or clears the flag of an entry's first word.
func mark(w *uint64, on uint64) { shm.Store64(w, shm.Load64(w)&^inFlight|on) }

// resubmits reports whether chains of the device before are left to be taken.
func (f *flight) resubmits() bool { return f.at < len(f.heads) }

// left returns their number.
func (f *flight) left() uint16 { return uint16(len(f.heads) - f.at) }

// sort puts the chains found in the order in which they were taken.
func (f *flight) sort() {
	slices.SortStableFunc(f.heads, func(a, b flown) int { return cmp.Compare(a.counter, b.counter) })
	if n := len(f.heads); n > 0 {
		f.counter = f.heads[n-1].counter + 1
	}
}

// stage notes that a used element of the chain was written.
func (f *flight) stage(entry uint16) {
	crash()
	f.staged = append(f.staged, entry)
}

// again takes the last chain back, if it was found in the record: it is in flight
// as it was.
func (f *flight) again() bool {
	if f.fresh > 0 {
		f.fresh--
		return false
	}
	f.at--
	return true
}

// resubmit takes a chain that the device before took and did not give back.
func (d *Device) resubmit(c *Chain) (ok bool, err error) {
	r := &d.fl.heads[d.fl.at]
	d.fl.at++
	id, slots, f := r.entry, uint16(1), Fault(0)
	if d.packed {
		id, slots, f = d.walkRecorded(c, r)
	} else {
		f = d.walk(c, r.entry)
	}
	d.out++
	c.Head, c.HasHead = d.track.take(id, slots, f == 0 && c.InLen == 0), true
	d.track.at(c.Head).flight = r.entry
	if d.dirty != nil {
		d.dirty.keep(c.Head)
	}
	if f != 0 {
		return false, f
	}
	return true, nil
}

// Close says that no Device will follow to take up the chains in flight, if there
// are none: the next one starts at its Config.Base. Without a record, or with
// chains in flight, nothing happens. The Device must not be used afterwards.
func (d *Device) Close() {
	if d.fl != nil && d.out == 0 && d.pushed == 0 && d.Staged() == 0 && !d.fl.resubmits() {
		d.fl.setVersion(0, 0)
	}
}
