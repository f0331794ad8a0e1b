package ring

import "github.com/vnetbench/vnetbench/virtio/shm"

// BatchMax is the most chains that a Batch holds.
const BatchMax = 64

// Batch is some chains of one descriptor each, taken together: what most chains
// are that carry packets. The caller owns it and passes it to NextBatch again and
// again. The buffers are guest memory, shared with the guest.
type Batch struct {
	N     int              // chains; the first N elements of the others are theirs
	Heads [BatchMax]uint16 // what Push takes
	Bufs  [BatchMax][]byte // the buffer of each
}

// NextBatch takes up to limit available chains into b as long as each is one
// descriptor, device-writable if write and device-readable if not, whose buffer
// lies in one region, and returns how many. It leaves what is not like that, and
// what breaks the rules, to Next; so 0 does not mean that there is none. Reading
// the available index, the entries and the descriptors one after the other lets
// the CPU fetch them together, and so do the buffers' first bytes, which it asks
// for. A Device that records chains in flight or dirty pages takes none so.
func (d *Device) NextBatch(b *Batch, limit int, write bool) int {
	b.N = 0
	if d.fl != nil || d.dirty != nil || d.broken {
		return 0
	}
	limit = min(limit, BatchMax)
	if d.packed {
		d.batchPacked(b, limit, write)
	} else {
		d.batchSplit(b, limit, write)
	}
	if write {
		shm.WillWrite(b.Bufs[:b.N])
	} else {
		shm.WillRead(b.Bufs[:b.N])
	}
	d.out += uint16(b.N)
	d.next += uint16(b.N)
	return b.N
}

// batchSplit fills b from a split ring.
func (d *Device) batchSplit(b *Batch, limit int, write bool) {
	if d.next == d.seen {
		if more, f := d.look(); f != 0 || !more {
			return // Next finds the fault again
		}
	}
	n := min(int(d.seen-d.next), limit)
	for i := range n {
		b.Heads[i] = shm.Load16(&d.availRing[(d.next+uint16(i))&d.mask])
	}
	want, cur := uint64(0), d.cursor(write)
	if write {
		want = descWrite << 32
	}
	for ; b.N < n; b.N++ {
		buf, ok := d.single(cur, b.Heads[b.N], want)
		if !ok {
			break
		}
		b.Bufs[b.N] = buf
	}
	if d.track != nil {
		for i, head := range b.Heads[:b.N] {
			b.Heads[i] = d.track.take(head, 1, !write)
		}
	}
}

// single returns the buffer of a split ring's chain that is one descriptor with
// the flags want, by way of the cursor.
func (d *Device) single(cur *shm.Cursor, head uint16, want uint64) ([]byte, bool) {
	if int(head) >= len(d.desc) {
		return nil, false
	}
	addr, meta := shm.LoadPair64(&d.desc[head])
	n := uint64(uint32(meta))
	if meta&((descNext|descWrite|descIndirect)<<32) != want || n == 0 || n > uint64(d.maxBytes) {
		return nil, false
	}
	return cur.Slice(addr, n)
}

// batchPacked fills b from a packed ring.
func (d *Device) batchPacked(b *Batch, limit int, write bool) {
	const mask = bothFlags | (descNext|descWrite|descIndirect)<<flagShift
	p := &d.pk
	want, cur := p.next.availFlags(), d.cursor(write)
	if write {
		want |= descWrite << flagShift
	}
	// Up to the end of the ring the flags that make a descriptor available are the
	// same.
	limit = min(limit, int(d.size-p.next.off), int(uint32(d.size)-p.slots))
	ring := d.ring[p.next.off:][:limit]
	n := 0
	for n < limit && shm.Load64(&ring[n][1])&mask == want {
		n++
	}
	shm.Acquire()
	for ; b.N < n; b.N++ {
		addr, w := shm.LoadPair64(&ring[b.N])
		k := uint64(uint32(w))
		if w&mask != want || k == 0 || k > uint64(d.maxBytes) {
			break
		}
		buf, ok := cur.Slice(addr, k)
		if !ok {
			break
		}
		b.Bufs[b.N], b.Heads[b.N] = buf, d.track.take(uint16(w>>32), 1, !write)
	}
	for range b.N {
		p.next = p.next.on(1, d.size)
		p.slots++
		d.look1(1)
	}
}
