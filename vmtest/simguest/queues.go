package simguest

import (
	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// arrival is a segment that reaches its receiver.
type arrival struct {
	at   vtime.Time
	flow int32
	seg  link.Segment
}

// inbound is a FIFO of arrivals in a ring that doubles when it is full, with a
// timer for the first one: a link never lets a packet overtake.
type inbound struct {
	timer   sim.Timer
	ring    []arrival
	head, n int
}

// push adds an arrival and returns its segment, to be filled in.
func (q *inbound) push(at vtime.Time, flow int32) *link.Segment {
	if q.n == len(q.ring) {
		grown := make([]arrival, max(64, 2*q.n))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(q.n-1)]
		}
		q.ring, q.head = grown, 0
	}
	a := &q.ring[(q.head+q.n)&(len(q.ring)-1)]
	a.at, a.flow = at, flow
	if q.n++; q.n == 1 {
		q.timer.Set(at)
	}
	return &a.seg
}

func (q *inbound) peek() *arrival { return &q.ring[q.head] }

// pop takes the first arrival; it is valid until the next push.
func (q *inbound) pop() *arrival {
	a := &q.ring[q.head]
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return a
}

func (q *inbound) rearm() {
	if q.n > 0 {
		q.timer.Set(q.peek().at)
	}
}
