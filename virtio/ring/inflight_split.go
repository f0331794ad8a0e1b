package ring

import "github.com/vnetbench/vnetbench/virtio/shm"

// The record of a split ring has a header of two words: features; version,
// desc_num, last_batch_head and used_idx. An entry, that of the descriptor with
// its number, is two words as well: the flag in bits 0 to 7 and next in bits 48 to
// 63; counter.

// recoverSplit takes up what the record says, if there is one.
func (d *Device) recoverSplit() (err error) {
	if d.cfg.Inflight == nil {
		return nil
	}
	if d.fl, err = d.cfg.newFlight(); err != nil {
		return err
	}
	f := d.fl
	if f.version() == 0 {
		f.initSplit(d.used)
		return nil
	}
	f.finishSplit(d.used)
	for i := range f.entries {
		if flag, counter := shm.LoadPair64(&f.entries[i]); flag&inFlight != 0 {
			f.heads = append(f.heads, flown{counter: counter, entry: uint16(i)})
		}
	}
	f.sort()
	if shm.Load16(d.availIdx)-d.used < uint16(len(f.heads)) { // the driver has made the ring anew
		f.heads = nil
		f.initSplit(d.used)
		return nil
	}
	d.next = d.used + uint16(len(f.heads))
	return nil
}

// initSplit makes a record without chains.
func (f *flight) initSplit(used uint16) {
	for i := range f.entries {
		shm.StorePair64(&f.entries[i], 0, 0)
	}
	f.setFields(0, used)
	shm.Release()
	f.setVersion(flightVersion, uint16(len(f.entries)))
}

// finishSplit completes the bookkeeping of a batch that the driver was shown, if
// the device before died over it.
func (f *flight) finishSplit(used uint16) {
	w := f.word()
	i := uint16(w >> 32)
	left := min(int(used-uint16(w>>48)), len(f.entries))
	for ; left > 0 && int(i) < len(f.entries); left-- {
		e := &f.entries[i][0]
		mark(e, 0)
		i = uint16(shm.Load64(e) >> 48)
		crash()
	}
	f.setFields(uint16(w>>32), used)
}

// takeSplit records that the chain which starts at a descriptor was taken.
func (f *flight) takeSplit(c *tracked, head uint16) {
	f.fresh++
	c.flight = noEntry
	if int(head) >= len(f.entries) {
		return
	}
	c.flight = head
	crash()
	shm.Store64(&f.entries[head][1], f.counter)
	f.counter++
	crash()
	mark(&f.entries[head][0], 1)
	crash()
}

// untakeSplit records that a chain was put back.
func (f *flight) untakeSplit(c *tracked) {
	crash()
	if c.flight != noEntry {
		mark(&f.entries[c.flight][0], 0)
	}
	crash()
}

// stageSplit links the staged chains, before they are shown.
func (f *flight) stageSplit() {
	used := uint16(f.word() >> 48)
	last := uint16(f.word() >> 32)
	for _, i := range f.staged {
		if i == noEntry {
			continue
		}
		e := &f.entries[i][0]
		shm.Store64(e, shm.Load64(e)&(1<<48-1)|uint64(last)<<48)
		last = i
		crash()
		f.setFields(last, used)
		crash()
	}
}

// doneSplit records that the staged chains were shown.
func (f *flight) doneSplit(used uint16) {
	crash()
	for _, i := range f.staged {
		if i != noEntry {
			mark(&f.entries[i][0], 0)
			crash()
		}
	}
	f.staged = f.staged[:0]
	f.setFields(uint16(f.word()>>32), used)
	crash()
}
