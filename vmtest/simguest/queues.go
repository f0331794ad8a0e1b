package simguest

import (
	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// ackPacket is an ACK on its way to the guest, its frame in full.
type ackPacket struct {
	at   vtime.Time // arrival at the host
	flow int32
	ack  uint32
	syn  bool // a SYN-ACK
	n    int
	buf  [128]byte
	next *ackPacket
}

func (a *ackPacket) frame() []byte { return a.buf[:a.n] }

// ackQueue is a linked FIFO of ACKs. The zero value is empty.
type ackQueue struct{ head, tail *ackPacket }

func (q *ackQueue) push(a *ackPacket) {
	a.next = nil
	if q.tail == nil {
		q.head = a
	} else {
		q.tail.next = a
	}
	q.tail = a
}

func (q *ackQueue) peek() *ackPacket { return q.head }

// pop takes the first ACK of a queue that has one.
func (q *ackQueue) pop() *ackPacket {
	a := q.head
	if q.head = a.next; q.head == nil {
		q.tail = nil
	}
	a.next = nil
	return a
}

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

func (q *inbound) push(a arrival) {
	if q.n == len(q.ring) {
		grown := make([]arrival, max(64, 2*q.n))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(q.n-1)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = a
	if q.n++; q.n == 1 {
		q.timer.Set(a.at)
	}
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
