package host

import (
	"time"

	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// The worker's weights: what one direction may take before the other has its
// turn (VHOST_NET_PKT_WEIGHT and VHOST_NET_WEIGHT, drivers/vhost/net.c, v4.17
// and later).
const (
	weightPackets = 256
	weightBytes   = 0x80000
)

// hdrTrailer is the net header's length, which the host model charges like the
// frame's own bytes.
const hdrTrailer = virtio.NetHdrLen

// service is what a worker's CPU is busy with.
type service uint8

const (
	serveNothing service = iota
	serveTX
	serveRX
)

// Owner is whoever composes a guest and its host. Its methods are called from
// within the loop's events and from the device's.
type Owner interface {
	// Taken is a packet that a worker took off the device. The frame in iov is
	// valid until Sent. It fills in what the worker does not know: whose packet
	// it is, and its numbers.
	Taken(now vtime.Time, pair int, o *Outgoing, h *virtio.NetHdr, iov [][]byte)
	// Sent is a packet that its worker has finished.
	Sent(now vtime.Time, pair int, o *Outgoing)
	// Delivered is a packet that is in the guest's ring; it is the owner's again.
	Delivered(now vtime.Time, a *Inbound)
	// Interrupt is a call for one of the pair's rings.
	Interrupt(now vtime.Time, pair int, dir netdev.Dir)
	// Broken takes the error of a poll.
	Broken(err error)
}

// Worker is the host's thread for one queue pair: a serial CPU that takes
// transmitted packets off the device and puts packets for the guest into it,
// by turns. It polls the device with a budget of one packet, so that a used
// entry appears after its cost and not before. It is the device's port too.
type Worker struct {
	Busy time.Duration // CPU time in all

	owner Owner
	pair  *netdev.Pair
	*thread
	home    *thread   // its own
	mates   []*Worker // with which the device's policy may have it share a thread; nil if it may not
	place   int       // in the thread
	turns   int       // packets served since the others had their turn
	serving service
	turn    netdev.Dir
	packets int // taken in this turn
	bytes   int

	out Outgoing // in service, from the guest
	in  Queue    // waiting for their turn, to the guest
	cur *Inbound // in service, to the guest
}

// Outgoing is what a worker remembers of a packet while it serves it. Flow, Seq,
// Ack and TSVal are the owner's to fill in.
type Outgoing struct {
	Info    frame.Info // what the device found in the frame
	Flow    int32      // -1: of no flow
	Seq     uint32     // relative: data begins at 1
	Ack     uint32     // relative
	Rule    tcp.Rule   // that gave it its length; only if the trace wants it
	Len     int        // frame bytes
	Parts   int        // packets of the guest's that it was made of
	TSVal   uint32     // timestamp option
	TSEcr   uint32     // in it, what the other end is sent back; 0: none
	GSO     int32      // payload of a segment; 0 if not GSO
	Started vtime.Time
}

// Payload is the TCP payload of the packet.
func (o *Outgoing) Payload() int { return o.Len - o.Info.Payload }

// NewWorkers returns the workers of a device's pairs. Each has a thread of its
// own, unless the device's policy has pairs share one.
func NewWorkers(loop *sim.Loop, owner Owner, m *Model, d *netdev.Device) []*Worker {
	var out []*Worker
	for i := range d.Pairs() {
		out = append(out, NewWorker(loop, owner, m, d.Pair(i)))
	}
	group(out, d.Config().Policy)
	return out
}

// group has the workers of pairs share threads as the policy says, in groups of
// consecutive pairs: from the beginning, or when the pairs wish it.
func group(workers []*Worker, p netdev.Policy) {
	n := p.SharePairs
	if n == 0 && p.Adaptive {
		n = netdev.DefaultSharePairs
	}
	for i, k := range workers {
		first := i - i%max(n, 1)
		mates := workers[first:min(first+n, len(workers))]
		switch {
		case len(mates) < 2:
		case p.Adaptive:
			k.mates = mates
		case i != first:
			k.join(workers[first].thread)
		}
	}
}

// NewWorker returns the worker of a pair, asleep, and makes it the pair's port.
func NewWorker(loop *sim.Loop, owner Owner, m *Model, p *netdev.Pair) *Worker {
	k := &Worker{owner: owner, pair: p}
	k.home = newThread(loop, m)
	k.join(k.home)
	p.SetPort(k)
	return k
}

// Kick is the arrival of a notification for one of the pair's rings.
func (k *Worker) Kick(now vtime.Time, dir netdev.Dir) {
	k.pair.Kick(now, dir, 1)
	k.wake(now, k, netdev.DirTX)
}

// Arrive queues a packet for the guest.
func (k *Worker) Arrive(now vtime.Time, a *Inbound) {
	k.in.Push(a)
	k.wake(now, k, netdev.DirRX)
}

// end finishes the packet in service.
func (k *Worker) end(now vtime.Time) {
	switch k.serving {
	case serveTX:
		k.owner.Sent(now, k.pair.Index(), &k.out)
	case serveRX:
		k.deliver(now)
	}
	k.serving = serveNothing
}

// begin takes a packet of the direction whose turn it is. It returns false if
// there was none; the turn has then passed to the other direction.
func (k *Worker) begin(now vtime.Time) bool {
	if k.turn == netdev.DirTX {
		return k.beginTX(now)
	}
	a := k.in.Peek()
	if a == nil || k.spent() {
		k.turnTo(netdev.DirTX)
		return false
	}
	k.in.Pop()
	k.cur, k.serving = a, serveRX
	k.packets++
	k.bytes += len(a.Frame())
	k.occupy(now, k.model.Of(Rx))
	return true
}

func (k *Worker) beginTX(now vtime.Time) bool {
	tx := k.pair.TX
	budget := netdev.Budget{Packets: 1}
	if k.spent() {
		budget.Packets = -1
	}
	call, err := tx.Advance(now, budget)
	if err != nil {
		k.owner.Broken(err)
	}
	if call.Needed {
		k.call(now, netdev.DirTX)
	}
	if k.pair.RX.Next(now) <= now {
		k.poll(now)
	}
	if k.serving == serveTX {
		return true
	}
	if tx.Done().Dropped > 0 && budget.Packets > 0 {
		return false
	}
	if budget.Packets > 0 && len(k.workers) == 1 && tx.Rearm() {
		return false // looked at once more by the next begin
	}
	k.turnTo(netdev.DirRX)
	return false
}

// spent reports whether the direction used up its weight.
func (k *Worker) spent() bool { return k.packets >= weightPackets || k.bytes >= weightBytes }

func (k *Worker) turnTo(to netdev.Dir) { k.turn, k.packets, k.bytes = to, 0, 0 }

// idle reports whether neither direction has anything to do now.
func (k *Worker) idle(now vtime.Time) bool {
	return k.in.Peek() == nil && k.pair.TX.Next(now) > now
}

// complete publishes what has come due while the thread slept.
func (k *Worker) complete(now vtime.Time) {
	call, err := k.pair.TX.Advance(now, netdev.Budget{Packets: -1})
	if err != nil {
		k.owner.Broken(err)
	}
	if call.Needed {
		k.call(now, netdev.DirTX)
	}
	k.poll(now)
}

// deliver puts the packet in service into the guest's ring.
func (k *Worker) deliver(now vtime.Time) {
	a := k.cur
	k.cur = nil
	k.pair.RX.Deliver(now, &a.Hdr, a.Frame())
	k.poll(now)
	k.owner.Delivered(now, a)
}

// poll publishes what was delivered. A queue that has run out of buffers asks for
// a kick.
func (k *Worker) poll(now vtime.Time) {
	for more := true; more; more = k.pair.RX.Rearm() {
		_, call, err := k.pair.RX.Poll(now, netdev.Budget{})
		if call.Needed {
			k.call(now, netdev.DirRX)
		}
		if err != nil {
			k.owner.Broken(err)
			return
		}
	}
}

// call interrupts the guest.
func (k *Worker) call(now vtime.Time, dir netdev.Dir) {
	k.debt += k.model.Of(Call)
	k.pair.CallResult(now, dir, nil)
	k.owner.Interrupt(now, k.pair.Index(), dir)
}

// occupy makes the CPU busy for d, and for what it owes.
func (k *Worker) occupy(now vtime.Time, d time.Duration) {
	d += k.debt
	k.debt = 0
	k.Busy += d
	k.free = now.Add(d)
}

// Send takes a packet of the guest into service: it is done, and on the wire,
// when the worker's CPU has dealt with it.
func (k *Worker) Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, _ netdev.Token) (vtime.Time, netdev.SendResult) {
	o := &k.out
	tx := k.pair.TX
	info, n := tx.Frame()
	o.Info, o.Len, o.Parts = *info, n, tx.Parts()
	o.Started, o.GSO, o.Flow = now, 0, -1
	if h.GSOType != virtio.GSONone {
		o.GSO = int32(h.GSOSize)
	}
	k.owner.Taken(now, k.pair.Index(), o, h, iov)
	k.serving = serveTX
	k.packets++
	k.bytes += o.Len + hdrTrailer
	cost := k.model.TX(o.Len + hdrTrailer)
	if o.Parts > 1 {
		cost += time.Duration(o.Parts-1) * k.model.Of(Join)
	}
	k.occupy(now, cost)
	return k.free, netdev.Sent
}

// Flush does nothing: a packet leaves when its service ends.
func (k *Worker) Flush(vtime.Time) {}
