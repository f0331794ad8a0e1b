package host

import (
	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Inbound is a packet on its way to the guest, its frame in full. It belongs to
// whoever has it, and passes from hand to hand.
type Inbound struct {
	At   vtime.Time    // arrival at the host
	Flow int32         // whose it is
	Ack  uint32        // what it acknowledges, relative
	SYN  bool          // a SYN-ACK
	Hdr  virtio.NetHdr // for the guest
	Big  []byte        // the frame, if it does not fit buf

	n    int
	buf  [128]byte
	next *Inbound
}

// Frame is the frame.
func (a *Inbound) Frame() []byte {
	if len(a.Big) > 0 {
		return a.Big
	}
	return a.buf[:a.n]
}

// Build makes the frame that f describes the packet's own, with a net header that
// says that its checksum is right.
func (a *Inbound) Build(f *frame.TCPSpec) {
	a.Hdr = virtio.NetHdr{Flags: virtio.HdrDataValid}
	a.Big = nil
	a.n = len(frame.AppendTCP(a.buf[:0], f))
}

// Queue is a linked FIFO of packets for the guest. The zero value is empty.
type Queue struct{ head, tail *Inbound }

// Push appends a packet, which is in no other queue.
func (q *Queue) Push(a *Inbound) {
	a.next = nil
	if q.tail == nil {
		q.head = a
	} else {
		q.tail.next = a
	}
	q.tail = a
}

// Peek returns the first packet, nil if there is none.
func (q *Queue) Peek() *Inbound { return q.head }

// Pop takes the first packet of a queue that has one.
func (q *Queue) Pop() *Inbound {
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

// arrivals is a FIFO of arrivals in a ring that doubles when it is full, with a
// timer for the first one: a link never lets a packet overtake.
type arrivals struct {
	timer   sim.Timer
	ring    []arrival
	head, n int
}

func (q *arrivals) push(a arrival) {
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

func (q *arrivals) peek() *arrival { return &q.ring[q.head] }

// pop takes the first arrival; it is valid until the next push.
func (q *arrivals) pop() *arrival {
	a := &q.ring[q.head]
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return a
}

func (q *arrivals) rearm() {
	if q.n > 0 {
		q.timer.Set(q.peek().at)
	}
}
