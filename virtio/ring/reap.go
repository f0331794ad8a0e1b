package ring

import (
	"fmt"

	"github.com/vnetbench/vnetbench/virtio/shm"
)

// HasUsed reports whether Reap would return a chain.
func (q *Driver) HasUsed() bool {
	switch {
	case q.err != nil:
		return false
	case q.packed:
		return q.batch || q.usedAt(q.pk.used)
	}
	return shm.Load16(q.usedIdx) != q.reaped
}

// Reap returns the token of a chain that the device is done with, and the bytes
// it wrote; ok is false if there is none. While calls are enabled with EVENT_IDX
// it asks for a call at the next element (virtqueue_get_buf_ctx_split and
// virtqueue_get_buf_ctx_packed, v6.1).
func (q *Driver) Reap() (token uint32, n uint32, ok bool) {
	if !q.HasUsed() {
		if q.batch && q.err == nil {
			q.err = fmt.Errorf("used index %d: %w: id %d is of a later chain", q.reaped, ErrBadUsed, q.lastOf)
		}
		return 0, 0, false
	}
	shm.Acquire()
	head, n := q.oldest, uint32(0)
	if !q.batch {
		id, len := q.element()
		if int(id) >= int(q.size) || q.slots[id].descs == 0 {
			q.err = fmt.Errorf("used element %d has id %d: %w", q.reaped, id, ErrBadUsed)
			return 0, 0, false
		}
		if q.inOrder {
			q.batch, q.lastOf, q.lastLen = true, uint16(id), len
		} else {
			head, n = uint16(id), len
		}
	}
	if q.inOrder {
		if n, ok = q.unbatch(head); !ok {
			return 0, 0, false
		}
	}
	descs := q.slots[head].descs
	token = q.release(head)
	q.reaped++
	if q.packed {
		q.reapedPacked(descs)
	} else if q.eventIdx && !q.callsOff {
		shm.Store16(q.usedEvent, q.reaped)
		q.fence()
	}
	return token, n, true
}

// element reads the next used element.
func (q *Driver) element() (id, n uint32) {
	if q.packed {
		return q.elementPacked()
	}
	return shm.LoadPair32(&q.usedRing[q.reaped&q.mask])
}

// unbatch returns the bytes written to the chain at head, the oldest of those that
// a used element stands for. Those before the last are used completely (virtio
// 1.3 §2.7.15).
func (q *Driver) unbatch(head uint16) (n uint32, ok bool) {
	s := &q.slots[head]
	if s.descs == 0 {
		q.err = fmt.Errorf("used element %d ends with id %d: %w in order", q.reaped, q.lastOf, ErrBadUsed)
		return 0, false
	}
	q.oldest = q.slots[s.last].next
	if head == q.lastOf {
		q.batch = false
		return q.lastLen, true
	}
	return s.room, true
}

// release puts the slots of the chain at head in front of the free list. With
// IN_ORDER the slots are free in the order of the ring already.
func (q *Driver) release(head uint16) (token uint32) {
	s := &q.slots[head]
	if !q.inOrder {
		q.slots[s.last].next = q.head
		q.head = head
	}
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
			q.shown = q.avail
			if !q.packed {
				shm.Store16(q.availIdx, q.avail)
			}
			return token, true
		}
	}
	return 0, false
}
