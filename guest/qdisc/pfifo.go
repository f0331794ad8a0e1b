package qdisc

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// pfifo is pfifo_fast: three bands, of which a lower one is always served first
// (net/sched/sch_generic.c). Before 4.16 the limit is on all of them together.
// Since then each band is a ring of that size, and room in it is given back not
// with every packet but in batches of 16, so that a full one takes none for a
// while (__ptr_ring_discard_one, v6.1).
type pfifo struct {
	common
	bands [bands]skb.List
	rings [bands]room
	limit int
	lock  bool // one limit for all, under the queue's lock
}

func newPFIFO(c common, s *Spec) *pfifo {
	q := &pfifo{common: c, limit: int(s.Limit), lock: !s.Rings}
	for i := range q.rings {
		q.rings[i] = newRoom(q.limit)
	}
	return q
}

func (q *pfifo) Bypass() bool { return true }

func (q *pfifo) Enqueue(_ vtime.Time, p *skb.SKB) Fate {
	q.counts.In++
	b := band(p)
	if q.lock && q.length() >= q.limit || !q.lock && !q.rings[b].fill() {
		return q.refuse(p)
	}
	q.bands[b].Push(p)
	q.enqueued(PktLen(p))
	return Queued
}

func (q *pfifo) Dequeue(vtime.Time) (*skb.SKB, bool) {
	for i := range q.bands {
		if b := &q.bands[i]; b.Len() > 0 {
			p := b.Pop()
			q.rings[i].drain()
			q.dequeued(PktLen(p))
			return p, true
		}
	}
	return nil, false
}

// room counts the free entries of a ring that takes them back in batches.
type room struct {
	size, batch int
	used        int // entries that cannot be filled
	head, tail  int // next entry to take; first that was taken and not given back
}

// ringBatch is how many entries a ring gives back at once: two cache lines of
// pointers (__ptr_ring_set_size, v6.1, on a machine with lines of 64 bytes).
const ringBatch = 16

func newRoom(size int) room {
	r := room{size: size, batch: ringBatch}
	if r.batch > size/2 {
		r.batch = 1
	}
	return r
}

func (r *room) fill() bool {
	if r.used == r.size {
		return false
	}
	r.used++
	return true
}

func (r *room) drain() {
	r.head++
	if r.head-r.tail >= r.batch || r.head >= r.size {
		r.used -= r.head - r.tail
		r.tail = r.head
	}
	if r.head >= r.size {
		r.head, r.tail = 0, 0
	}
}

// direct is noqueue on its own: what goes in comes out at once, in order. On a
// device without a queue, such as veth, a packet's time of departure is the time
// it was handed down (noqueue_qdisc_ops, v6.1).
type direct struct {
	common
	q skb.List
}

func (q *direct) Bypass() bool { return true }

func (q *direct) Enqueue(_ vtime.Time, p *skb.SKB) Fate {
	q.counts.In++
	q.q.Push(p)
	q.enqueued(PktLen(p))
	return Queued
}

func (q *direct) Dequeue(vtime.Time) (*skb.SKB, bool) {
	if q.q.Len() == 0 {
		return nil, false
	}
	p := q.q.Pop()
	q.dequeued(PktLen(p))
	return p, true
}
