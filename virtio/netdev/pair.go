package netdev

import (
	"fmt"

	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Pair is a receive and a transmit queue. One owner at a time calls its
// methods and those of its queues.
type Pair struct {
	RX *RX
	TX *TX

	dev    *Device
	index  int
	policy Policy
	ctl    *control // the adaptive policy; nil if it is not in force
}

func newPair(d *Device, i int) *Pair {
	p := &Pair{dev: d, index: i}
	p.RX = newRX(p)
	p.TX = newTX(p)
	p.apply(d.cfg.Policy)
	return p
}

// Policy returns the policy in force.
func (p *Pair) Policy() Policy { return p.policy }

// SetPolicy changes the policy of the pair. What the former one holds is let go
// at the next Poll, which Next then asks for. It may allocate. The error wraps
// ErrPolicy; the policy is then unchanged.
func (p *Pair) SetPolicy(n Policy) error {
	if err := n.validate(); err != nil {
		return err
	}
	p.expireSoon()
	p.apply(n)
	return nil
}

func (p *Pair) apply(n Policy) {
	t, r := p.TX, p.RX
	p.policy, t.policy = n, n
	t.special = n.DelayTime > 0 || n.PollTime > 0 || n.Merge || n.Adaptive
	t.direct = !t.special && !n.Holding()
	t.svc.set(&n)
	t.svc.reset()
	t.more = t.q != nil // kicks may be off that no one would turn on again
	t.join.on, t.join.may = n.Merge, n.Merge || n.Adaptive
	if t.q != nil {
		t.join.start(t.size)
	}
	for _, q := range []*queue{&t.queue, &r.queue} {
		q.coal.setDefault(n)
	}
	if r.flows != nil {
		r.flows.forget()
	}
	if p.ctl = nil; n.Adaptive {
		p.ctl = &control{}
	}
	if r.thins = n.ThinTime > 0 || n.Adaptive; r.thins && r.flows == nil {
		r.flows = &flowTable{}
	}
}

// Index returns the number of the pair, from 0: its rings are 2*Index() (RX)
// and 2*Index()+1 (TX).
func (p *Pair) Index() int { return p.index }

// Device returns the device that the pair belongs to.
func (p *Pair) Device() *Device { return p.dev }

// SetPort sets the wire that TX sends to; nil is none, and what the guest
// sends is then dropped and counted. Frames that the former port still holds
// are completed as before, and a queue that waited for it to be writable goes
// on.
func (p *Pair) SetPort(port Port) {
	p.TX.port = p.dev.watched(port, p.index)
	p.TX.cut.setPort(port)
	p.TX.unblock()
}

// AttachTX starts the transmit queue on a ring that the caller has laid over
// the guest's memory with the features that were acknowledged. The ring is
// looked at once without a kick. Tokens of an earlier attachment are ignored
// from here on.
func (p *Pair) AttachTX(now vtime.Time, q *ring.Device) { p.TX.start(q) }

// AttachRX starts the receive queue, as AttachTX does the transmit queue.
func (p *Pair) AttachRX(now vtime.Time, q *ring.Device) {
	p.RX.start(q)
	p.updateLive()
}

// DetachTX stops the transmit queue: every chain that it holds is completed
// and published, and from then on the guest's memory is not touched. Held
// frames are thereby given back although a port may still read them: drain
// until InFlight is 0 first if that matters. It returns the ring, whose
// NextAvail is what the front-end resumes from, nil if none was attached, and
// whether the guest needs a last call.
func (p *Pair) DetachTX(now vtime.Time) (*ring.Device, Call) { return p.TX.stop(now) }

// DetachRX stops the receive queue: what was delivered is published, a
// reservation is aborted, and frames that waited for buffers are dropped.
func (p *Pair) DetachRX(now vtime.Time) (*ring.Device, Call) {
	q, c := p.RX.stop(now)
	p.updateLive()
	return q, c
}

// SetMemory moves the rings to another memory, when the front-end changes its
// table while they run. Buffers that RX had taken in advance go back first, a
// reservation is aborted. What ports still hold lies in the old memory, which
// has to stay mapped until TX.InFlight is 0. On an error, which names the ring
// and is of ring.NewDevice's kinds, that ring has not moved and must be
// detached.
func (p *Pair) SetMemory(mem *shm.Memory) error {
	if p.RX.q != nil {
		p.RX.release()
		if err := p.RX.q.SetMemory(mem); err != nil {
			return fmt.Errorf("pair %d rx: %w", p.index, err)
		}
		p.RX.more, p.RX.starved = true, false
	}
	if p.TX.q != nil {
		if err := p.TX.q.SetMemory(mem); err != nil {
			return fmt.Errorf("pair %d tx: %w", p.index, err)
		}
		p.TX.more = true
	}
	return nil
}

// Missing returns what a chain of that direction's ring waits for: a translation,
// which SetMemory brings. ok is false if none waits.
func (p *Pair) Missing(dir Dir) (m ring.Missing, ok bool) {
	q := p.queue(dir)
	if q.q == nil {
		return m, false
	}
	return q.q.Missing()
}

// SetEnabled enables or disables the rings, independently of whether they are
// attached. A TX ring that is attached but disabled is consumed and discarded
// (counted as DropDisabled), an RX ring delivers nothing. Both are enabled
// after New and Reset.
func (p *Pair) SetEnabled(rx, tx bool) {
	p.RX.enabled = rx
	if p.TX.enabled != tx {
		p.TX.enabled, p.TX.more = tx, p.TX.q != nil
	}
	p.RX.more = p.RX.more || rx && p.RX.q != nil
	p.updateLive()
}

// Kick accounts n kicks that arrived together (the value of an eventfd, 1 for
// an in-band message) for the queue of that direction, which then wants to be
// polled. n = 0 is ignored: a spurious wake-up without a kick.
func (p *Pair) Kick(now vtime.Time, dir Dir, n uint64) {
	if dir == DirRX {
		p.RX.Kick(now, n)
		return
	}
	p.TX.Kick(now, n)
}

// CallResult accounts what became of a call of the queue of that direction: err
// is nil if it was delivered.
func (p *Pair) CallResult(now vtime.Time, dir Dir, err error) {
	if dir == DirRX {
		p.RX.CallResult(now, err)
		return
	}
	p.TX.CallResult(now, err)
}

func (p *Pair) queue(dir Dir) *queue {
	if dir == DirRX {
		return &p.RX.queue
	}
	return &p.TX.queue
}

func (p *Pair) updateLive() {
	p.dev.setLive(p.index, p.RX.q != nil && p.RX.enabled)
}

func (p *Pair) reset() {
	p.RX.abandon()
	p.TX.abandon()
	p.RX.enabled, p.TX.enabled = true, true
	p.dev.setLive(p.index, false)
}
