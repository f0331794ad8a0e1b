package ring

import "github.com/vnetbench/vnetbench/virtio/shm"

// packedDriver is where a Driver is in a packed ring.
type packedDriver struct {
	next  spot // where the next descriptor goes
	shown spot // next at the last Publish
	used  spot // where the next used element comes

	// The flags of the first chain added since Publish are written by it; what
	// follows lies behind, where the device does not look before.
	firstWord uint64
	added     uint32 // descriptors from shown to next
	since     uint32 // descriptors published since NeedKick was asked
	event     uint32 // the driver's event structure as last written
}

// initPacked writes the ring's bytes: no descriptor is available or used.
func (q *Driver) initPacked() {
	p := &q.pk
	none := p.next.usedFlags() ^ bothFlags // used a lap ago: neither, as seen from here
	for i := range q.ring {
		flags := none
		if i < int(p.next.off) {
			flags ^= bothFlags // this lap's part is used, the next one's is to come
		}
		shm.StorePair64(&q.ring[i], 0, flags)
	}
	p.shown = p.next
	q.storeEvent(eventEnable)
	shm.Store32(q.deviceEvent, 0)
}

// addPacked writes the buffers to descriptors from the next position on, all with
// the number of the first free slot, and takes as many slots (virtqueue_add_packed,
// v6.1).
func (q *Driver) addPacked(out, in []Buf) {
	id := q.head
	slot, last := id, id
	left := len(out) + len(in)
	for k := range out {
		left--
		q.putPacked(out[k].Addr, uint64(out[k].Len)|uint64(id)<<32, 0, left > 0)
		last, slot = slot, q.slots[slot].next
	}
	for k := range in {
		left--
		q.putPacked(in[k].Addr, uint64(in[k].Len)|uint64(id)<<32, descWrite, left > 0)
		last, slot = slot, q.slots[slot].next
	}
	q.slots[id].last = last
}

// addIndirectPacked writes the buffers to a table at a guest address and one
// descriptor for it (virtqueue_add_indirect_packed, v6.1).
func (q *Driver) addIndirectPacked(table []shm.Pair64, at uint64, out, in []Buf) {
	for k := range out {
		shm.StorePair64(&table[k], out[k].Addr, uint64(out[k].Len))
	}
	for k := range in {
		shm.StorePair64(&table[len(out)+k], in[k].Addr, uint64(in[k].Len)|descWrite<<flagShift)
	}
	q.slots[q.head].last = q.head
	q.putPacked(at, uint64(len(table))*16|uint64(q.head)<<32, descIndirect, false)
}

// putPacked writes one descriptor at the next position, w being its second word
// without flags.
func (q *Driver) putPacked(addr, w, flags uint64, more bool) {
	p := &q.pk
	if more {
		flags |= descNext
	}
	w |= flags<<flagShift | p.next.availFlags()
	d := &q.ring[p.next.off]
	if p.added == 0 {
		p.firstWord = w
		shm.Store64(&d[0], addr)
	} else {
		shm.StorePair64(d, addr, w)
	}
	p.next = p.next.on(1, q.size)
	p.added++
}

// publishPacked shows what was added by the flags of the first descriptor.
func (q *Driver) publishPacked() {
	p := &q.pk
	shm.Store64(&q.ring[p.shown.off][1], p.firstWord)
	p.shown = p.next
	p.since += p.added
	p.added = 0
	q.force = q.force || p.since > uint32(q.size)
}

// usedAt reports whether the descriptor at s is used.
func (q *Driver) usedAt(s spot) bool {
	return shm.Load64(&q.ring[s.off][1])&bothFlags == s.usedFlags()
}

// elementPacked reads the next used element. The length counts only if the device
// says that it wrote (virtio 1.3 §2.8.4).
func (q *Driver) elementPacked() (id, n uint32) {
	w := shm.Load64(&q.ring[q.pk.used.off][1])
	if w&(descWrite<<flagShift) != 0 {
		n = uint32(w)
	}
	return uint32(w >> 32 & 0xffff), n
}

// reapedPacked steps over a chain of n descriptors, and asks for a call at the next
// one if calls are asked for by position.
func (q *Driver) reapedPacked(n uint16) {
	p := &q.pk
	p.used = p.used.on(n, q.size)
	if !q.callsOff && p.event>>16 == eventDesc {
		p.event = eventDesc<<16 | uint32(p.used.word())
		shm.Store32(q.driverEvent, p.event)
		q.fence()
	}
}

// storeEvent writes the flags of the driver's event structure.
func (q *Driver) storeEvent(flags uint32) {
	q.pk.event = q.pk.event&0xffff | flags<<16
	shm.Store32(q.driverEvent, q.pk.event)
}

// disablePacked asks for no calls, but writes nothing if a call has come and
// EVENT_IDX is on: Linux takes it that there will be no other. That is wrong as long
// as calls were never enabled by position, as with a transmit queue without napi:
// then a call comes for each batch of used elements (seen of v6.12 in user mode).
func (q *Driver) disablePacked() {
	if !q.zeroEvent || !q.called {
		q.storeEvent(eventDisable)
	}
}

// enablePacked asks for a call when the element at s is used, or without EVENT_IDX
// at the next one. As in Linux, calls that were not disabled stay enabled as they
// are.
func (q *Driver) enablePacked(s spot) {
	p := &q.pk
	was, flags := q.callsOff, p.event>>16
	q.callsOff, q.called = false, false
	switch {
	case was && q.eventIdx:
		flags = eventDesc
	case was:
		flags = eventEnable
	}
	if q.eventIdx {
		p.event = uint32(s.word())
	}
	q.storeEvent(flags)
	q.fence()
}

func (q *Driver) needKickPacked() bool {
	p := &q.pk
	n, force := uint16(min(p.since, uint32(q.size))), q.force
	p.since, q.force = 0, false
	need, _ := wants(shm.Load32(q.deviceEvent), q.eventIdx, p.shown, n, q.size)
	return need || force
}
