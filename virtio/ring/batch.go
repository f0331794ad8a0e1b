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
// for.
func (d *Device) NextBatch(b *Batch, limit int, write bool) int {
	b.N = 0
	if d.next == d.seen {
		if more, f := d.look(); f != 0 || !more {
			return 0 // Next finds the fault again
		}
	}
	n := min(int(d.seen-d.next), limit, BatchMax)
	for i := range n {
		b.Heads[i] = shm.Load16(&d.availRing[(d.next+uint16(i))&d.mask])
	}
	want := uint64(0)
	if write {
		want = descWrite << 32
	}
	taken := n
	for i := range n {
		buf, ok := d.single(b.Heads[i], want)
		if !ok {
			taken = i
			break
		}
		b.Bufs[i] = buf
	}
	if write {
		shm.WillWrite(b.Bufs[:taken])
	} else {
		shm.WillRead(b.Bufs[:taken])
	}
	b.N = taken
	d.next += uint16(taken)
	d.out += uint16(taken)
	return taken
}

// single returns the buffer of a chain that is one descriptor with the flags
// want.
func (d *Device) single(head uint16, want uint64) ([]byte, bool) {
	if int(head) >= len(d.desc) {
		return nil, false
	}
	addr, meta := shm.LoadPair64(&d.desc[head])
	n := uint64(uint32(meta))
	if meta&((descNext|descWrite|descIndirect)<<32) != want || n == 0 || n > uint64(d.maxBytes) {
		return nil, false
	}
	return d.cursor.Slice(addr, n)
}
