package ring

import (
	"math/bits"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// tracker is what a Device knows of each chain that it has taken, if the number of
// its head is not enough. Chains are known to the caller by a handle below the
// queue size: what the driver calls them may be any number, and twice the same.
type tracker struct {
	chains []tracked // by handle
	free   []uint16  // handles not in use, of which the last is the next
	order  []uint16  // handles as they were taken, modulo its length, a power of two
	taken  uint32    // chains taken, less those put back: where order goes on

	inOrder bool
	oldest  uint32 // chains whose used element is written, which is in order
	batch   batch
}

// tracked is one chain.
type tracked struct {
	id     uint16 // the driver's number
	slots  uint16 // descriptors of the ring that it takes
	flight uint16 // its place in the record of chains in flight
	terse  bool   // nothing of it can be written, so that it needs no used element of its own
	done   bool   // pushed, but its turn has not come
	len    uint32 // bytes written, if done
}

// batch is a used element that stands for several chains, of which it names the
// last (virtio 1.3 §2.7.15, §2.8.12); only IN_ORDER has it.
type batch struct {
	open  bool
	at    spot   // packed: where the element goes
	index uint16 // split: likewise
	last  uint16 // number of the last chain
}

// newTracker makes a tracker if the ring needs one.
func (d *Device) newTracker() {
	inOrder := d.cfg.Features.Has(virtio.FeatureInOrder)
	if !d.packed && !inOrder && d.cfg.Inflight == nil {
		return
	}
	n := int(d.size)
	t := &tracker{
		chains: make([]tracked, n), free: make([]uint16, n),
		order: make([]uint16, 1<<bits.Len(uint(n-1))), inOrder: inOrder,
	}
	for i := range t.free {
		t.free[i] = uint16(n - 1 - i)
	}
	d.track = t
}

func (t *tracker) at(handle uint16) *tracked { return &t.chains[handle] }

// take gives a handle to a chain.
func (t *tracker) take(id, slots uint16, terse bool) (handle uint16) {
	last := len(t.free) - 1
	handle = t.free[last]
	t.free = t.free[:last]
	t.order[t.taken&uint32(len(t.order)-1)] = handle
	t.taken++
	c := &t.chains[handle]
	c.id, c.slots, c.terse, c.done = id, slots, terse, false
	return handle
}

// untake takes the handle of the chain taken last back.
func (t *tracker) untake() *tracked {
	t.taken--
	handle := t.order[t.taken&uint32(len(t.order)-1)]
	t.free = append(t.free, handle)
	return &t.chains[handle]
}

// ungetTracked puts the n chains taken last back.
func (d *Device) ungetTracked(n uint16) {
	for ; n > 0; n-- {
		c := d.track.untake()
		if d.fl != nil && d.fl.again() {
			continue
		}
		d.next--
		switch {
		case d.fl == nil:
		case d.packed:
			d.fl.untakePacked(c)
		default:
			d.fl.untakeSplit(c)
		}
		if d.packed {
			d.ungetPacked(c.slots)
		}
	}
}

// pushTracked writes the used element of a chain, or with IN_ORDER of those whose
// turn has come thereby.
func (d *Device) pushTracked(handle uint16, n uint32) {
	t := d.track
	if !t.inOrder {
		d.stage(handle, n)
		return
	}
	if d.pushed == 0 && t.order[t.oldest&uint32(len(t.order)-1)] == handle {
		t.oldest++
		d.stage(handle, n)
		return
	}
	c := &t.chains[handle]
	c.done, c.len = true, n
	d.pushed++
	for t.oldest != t.taken {
		handle := t.order[t.oldest&uint32(len(t.order)-1)]
		if c = &t.chains[handle]; !c.done {
			return
		}
		c.done = false
		d.pushed--
		t.oldest++
		d.stage(handle, c.len)
	}
}

// stage writes the used element of a chain and lets its handle go.
func (d *Device) stage(handle uint16, n uint32) {
	t := d.track
	c := &t.chains[handle]
	t.free = append(t.free, handle)
	if d.fl != nil {
		d.fl.stage(c.flight)
	}
	if !t.inOrder {
		d.element(d.used, d.pk.used, c.id, n)
	} else {
		d.batched(c, n)
	}
	d.used++
	if d.packed {
		d.pk.used = d.pk.used.on(c.slots, d.size)
	}
}

// batched lets the used element of a chain wait for the next chains, if none of
// its bytes was to be written, or ends the batch with it. A chain with writable
// buffers that got no element would count as filled up, and drivers exist that look
// for an element of each such chain (DPDK 22.11, virtio-user).
func (d *Device) batched(c *tracked, n uint32) {
	b := &d.track.batch
	if !b.open {
		b.open, b.at, b.index = true, d.pk.used, d.used
	}
	b.last = c.id
	if !c.terse || n > 0 {
		b.open = false
		d.element(b.index, b.at, b.last, n)
	}
}

// closeBatch writes the used element of the chains that wait for one.
func (d *Device) closeBatch() {
	if b := &d.track.batch; b.open {
		b.open = false
		d.element(b.index, b.at, b.last, 0)
	}
}

// element writes one used element, at the index of a split ring or at the position
// of a packed one.
func (d *Device) element(index uint16, at spot, id uint16, n uint32) {
	if !d.packed {
		shm.StorePair32(&d.usedRing[index&d.mask], uint32(id), n)
		return
	}
	w := uint64(n) | uint64(id)<<32
	if n > 0 {
		w |= descWrite << flagShift
	}
	d.stagePacked(at, w)
}
