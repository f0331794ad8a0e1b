package ring

import (
	"fmt"

	"github.com/vnetbench/vnetbench/virtio/shm"
)

// The record of a packed ring has a header of four words: features; version,
// desc_num, free_head and old_free_head; used_idx, old_used_idx and the wrap
// counters of both in a byte each; nothing. An entry is four words as well: the
// flag in bits 0 to 7, then from bit 16 on next, last and num; counter; id, flags
// and len; addr. Used elements overwrite the ring's descriptors, so each
// descriptor is kept in an entry.

// recoverPacked takes up what the record says, if there is one.
func (d *Device) recoverPacked() (err error) {
	if d.cfg.Inflight == nil {
		return nil
	}
	if d.fl, err = d.cfg.newFlight(); err != nil {
		return err
	}
	f, p := d.fl, &d.pk
	f.next, f.last = make([]uint16, d.size), make([]uint16, d.size)
	total := uint32(0)
	if f.version() != 0 {
		if err := d.finishPacked(); err != nil {
			return err
		}
		if total, err = f.findPacked(); err != nil {
			return err
		}
		p.next = p.used.on(uint16(total), d.size)
	}
	if err := f.rebuild(); err != nil {
		return err
	}
	d.hideUsed(total)
	f.setUsed(p.used, p.used)
	shm.Release()
	f.setVersion(flightVersion, d.size)
	return nil
}

// setUsed writes both used positions and wrap counters.
func (f *flight) setUsed(used, old spot) {
	shm.Store64(&f.head[1][0], uint64(used.off)|uint64(old.off)<<16|
		uint64(used.wrap>>15)<<32|uint64(old.wrap>>15)<<40)
}

// finishPacked completes the bookkeeping of a batch that the driver was shown, if
// the device before died over it, or undoes that of one that was not.
func (d *Device) finishPacked() error {
	f := d.fl
	w := shm.Load64(&f.head[1][0])
	used := spot{off: uint16(w), wrap: uint16(w >> 32 << 15)}
	old := spot{off: uint16(w >> 16), wrap: uint16(w >> 40 << 15)}
	if used.off >= d.size || old.off >= d.size {
		return fmt.Errorf("%w: used positions %d and %d of %d", ErrInflight, used.off, old.off, d.size)
	}
	if used == old || d.availableAt(old) {
		d.pk.used = old
		return nil
	}
	i := uint16(f.word() >> 32)
	for n := d.size; n > 0 && i < d.size; n-- {
		e := &f.entries[2*i][0]
		mark(e, 0)
		i = uint16(shm.Load64(e) >> 16)
		crash()
	}
	d.pk.used = used
	return nil
}

// findPacked collects the chains in flight and returns the number of their
// descriptors.
func (f *flight) findPacked() (total uint32, err error) {
	size := uint16(len(f.next))
	for i := range size {
		w, counter := shm.LoadPair64(&f.entries[2*i])
		if w&inFlight == 0 {
			continue
		}
		r := flown{counter: counter, entry: i, num: uint16(w >> 48)}
		if total += uint32(r.num); r.num == 0 || total > uint32(size) {
			return 0, fmt.Errorf("%w: %d descriptors in flight, chain of %d", ErrInflight, total, r.num)
		}
		f.heads = append(f.heads, r)
	}
	f.sort()
	return total, nil
}

// hideUsed makes the used elements among the n descriptors in flight available
// ones: they were written ahead of the first of their batch, and never shown. The
// driver would take them for used as soon as it gets there.
func (d *Device) hideUsed(n uint32) {
	for at := d.pk.used; n > 0; n-- {
		w := &d.ring[at.off][1]
		if v := shm.Load64(w); v&bothFlags == at.usedFlags() {
			shm.Store64(w, v&^bothFlags|at.availFlags())
			if d.dirty != nil {
				d.logRing(at, 1)
			}
		}
		at = at.on(1, d.size)
	}
}

// rebuild makes the free list of the entries that no chain in flight has.
func (f *flight) rebuild() error {
	size := len(f.next)
	taken := make([]bool, size)
	for _, r := range f.heads {
		i := int(r.entry)
		for n := r.num; n > 0; n-- {
			if i >= size || taken[i] {
				return fmt.Errorf("%w: chain of entry %d has no entries of its own", ErrInflight, r.entry)
			}
			taken[i] = true
			f.last[r.entry] = uint16(i)
			f.next[i] = uint16(shm.Load64(&f.entries[2*i][0]) >> 16)
			i = int(f.next[i])
		}
	}
	f.free = uint16(size)
	for i := size - 1; i >= 0; i-- {
		if !taken[i] {
			f.next[i] = f.free
			f.free = uint16(i)
			shm.Store64(&f.entries[2*i][0], uint64(f.next[i])<<16)
		}
	}
	f.setFields(f.free, f.free)
	return nil
}

// walkRecorded reads a chain of the record into c.
func (d *Device) walkRecorded(c *Chain, r *flown) (id, slots uint16, f Fault) {
	i := r.entry
	for n := uint16(1); n <= r.num; n++ {
		w, addr := shm.LoadPair64(&d.fl.entries[2*int(i)+1])
		id = uint16(w)
		if f == 0 {
			flags := w >> 16 & 0xffff
			f = d.addPacked(c, addr, w>>32|flags<<flagShift, n)
		}
		i = d.fl.next[i]
	}
	return id, r.num, f
}

// takePacked records the chain that was taken last, whose descriptors are still in
// the ring, from position at on.
func (d *Device) takePacked(c *tracked, at spot) {
	f := d.fl
	f.fresh++
	head, i, last := f.free, f.free, f.free
	for n := c.slots; n > 0; n-- {
		addr, w := shm.LoadPair64(&d.ring[at.off])
		shm.StorePair64(&f.entries[2*int(i)+1], w>>32&0xffff_ffff|w<<32, addr)
		last, i = i, f.next[i]
		at = at.on(1, d.size)
		crash()
	}
	c.flight, f.last[head] = head, last
	e := &f.entries[2*int(head)]
	shm.Store64(&e[1], f.counter)
	f.counter++
	crash()
	shm.Store64(&e[0], 1|uint64(f.next[head])<<16|uint64(last)<<32|uint64(c.slots)<<48)
	crash()
	f.free = i
	f.setFields(i, i)
	crash()
}

// untakePacked records that a chain was put back.
func (f *flight) untakePacked(c *tracked) {
	crash()
	mark(&f.entries[2*int(c.flight)][0], 0)
	crash()
	f.release(c.flight)
	f.setFields(f.free, f.free)
	crash()
}

// release puts the entries of a chain in front of the free list.
func (f *flight) release(head uint16) {
	last := f.last[head]
	f.next[last] = f.free
	f.free = head
	e := &f.entries[2*int(last)][0]
	shm.Store64(e, shm.Load64(e)&^(0xffff<<16)|uint64(f.next[last])<<16)
}

// stagePacked links the staged chains into the free list and writes where the used
// position will be, before they are shown.
func (f *flight) stagePacked(used, shown spot) {
	old := uint16(f.word() >> 48)
	for _, head := range f.staged {
		f.release(head)
		crash()
	}
	f.setFields(f.free, old)
	crash()
	f.setUsed(used, shown)
	crash()
}

// donePacked records that the staged chains were shown.
func (f *flight) donePacked(used spot) {
	crash()
	for _, head := range f.staged {
		mark(&f.entries[2*int(head)][0], 0)
		crash()
	}
	f.staged = f.staged[:0]
	f.setFields(f.free, f.free)
	crash()
	f.setUsed(used, used)
	crash()
}
