package sim

// due is the FIFO of the events of the time that it is, in a ring that doubles
// when it is full: first those that the wheel had for that time, then those that
// were set since, which is their order.
type due struct {
	ring []dueEvent // a power of two, or empty
	head uint
	tail uint
}

// dueEvent is one of them, unless its slot has meanwhile another order: a timer
// was moved or stopped.
type dueEvent struct {
	order uint64
	slot  int32
}

func (q *due) push(e dueEvent) {
	if q.tail-q.head == uint(len(q.ring)) {
		q.grow()
	}
	q.ring[q.tail&uint(len(q.ring)-1)] = e
	q.tail++
}

func (q *due) grow() {
	ring := make([]dueEvent, max(16, 2*len(q.ring)))
	n := q.tail - q.head
	for i := range n {
		ring[i] = q.ring[(q.head+i)&uint(len(q.ring)-1)]
	}
	q.ring, q.head, q.tail = ring, 0, n
}

// first returns the slot of the first event that still stands, dropping those
// before it. ok is false if there is none.
func (l *Loop) first() (slot int32, ok bool) {
	q := &l.due
	for q.head != q.tail {
		e := &q.ring[q.head&uint(len(q.ring)-1)]
		if l.slots[e.slot].order == e.order {
			return e.slot, true
		}
		q.head++
	}
	return 0, false
}
