package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// TX is a transmit queue: it takes frames off the ring, gives them to the
// port, and gives their buffers back when the port is done with them and the
// completion policy agrees.
type TX struct {
	queue
	pair     *Pair
	port     Port
	enabled  bool
	blocked  bool // the port was full; no frame is taken until Writable
	learns   bool // the device steers, so that flows are noted
	observed bool // there is an observer
	special  bool // a policy other than hold is in force
	direct   bool // no policy is that keeps a finished frame
	over     bool // all of held is to be let go

	due      int        // entries at the front of pend whose time has come
	withheld int        // of those, the ones that came due in this Poll
	carried  int        // used entries published since the last Poll
	parts    int        // of the frame that the port is given
	heldAt   vtime.Time // when held is published; vtime.Never if it is empty
	slots    []slot     // by head
	pend     pending    // sent, not yet completed
	work     Work
	rules    txRules
	hasher   frame.FlowHasher
	chain    ring.Chain
	view     frameView

	policy Policy
	svc    service
	cut    cutTX
	join   joiner
	burst  burst
	whole  [1][]byte // a frame in one piece, as pieces

	held      []uint16 // chains whose frame is done, and that the adaptive policy holds
	heldBytes int
	old       int // of held, those that were there at the last deadline
}

// slot is what a TX queue remembers of a chain that it holds.
type slot struct {
	kickAt   vtime.Time // the kick that announced it, vtime.Never if none did
	state    slotState
	follows  bool   // follower goes with it: they are one packet for the port
	hold     bool   // the adaptive policy may hold it: its flow and its bytes are
	follower uint16 // the chain that is the next part of its packet
	flow     int16
	bytes    int32
}

type slotState uint8

const (
	slotFree  slotState = iota // the guest's
	slotSent                   // in pend
	slotLater                  // the port's, until Complete
)

func newTX(p *Pair) *TX {
	t := &TX{pair: p, enabled: true, observed: p.dev.cfg.Observer != nil, parts: 1, heldAt: vtime.Never}
	t.svc.reset()
	return t
}

// Policy returns the policy in force.
func (t *TX) Policy() Policy { return t.policy }

// Snapshot returns a copy of the counters.
func (t *TX) Snapshot() Stats { return t.stats }

// Attached reports whether the queue has a ring.
func (t *TX) Attached() bool { return t.q != nil }

// InFlight returns the number of chains that were taken and whose used entry
// is not yet published: the port's, and those that the policy holds.
func (t *TX) InFlight() int {
	if t.q == nil {
		return 0
	}
	return int(t.q.InFlight())
}

// Blocked reports whether the queue sleeps until Writable.
func (t *TX) Blocked() bool { return t.blocked }

// Kick accounts kicks, as Pair.Kick does.
func (t *TX) Kick(now vtime.Time, n uint64) {
	t.kick(now, n)
	t.reflect()
}

// CallResult accounts what became of a call, as Pair.CallResult does.
func (t *TX) CallResult(now vtime.Time, err error) {
	t.callResult(now, err)
	t.reflect()
}

// Poll completes what is due, takes at most the budget's packets and gives
// them to the port, completes what the port finished at once, and publishes
// all used entries with one store. Call says whether the guest has to be
// interrupted for them. An error wraps ErrBroken: the guest broke the ring,
// and the queue rests until it is attached again.
func (t *TX) Poll(now vtime.Time, b Budget) (Work, Call, error) {
	call, err := t.Advance(now, b)
	return t.work, call, err
}

// Done returns what the last Poll or Advance did. It is the queue's, and valid until
// the next one.
func (t *TX) Done() *Work { return &t.work }

// Advance is Poll for a caller that seldom asks what was done: Done says it.
func (t *TX) Advance(now vtime.Time, b Budget) (Call, error) {
	if !t.running() {
		t.work = Work{}
		return Call{}, t.broken
	}
	t.work = Work{Completed: t.carried}
	t.carried = 0
	t.withheld = 0
	if now >= t.heldAt {
		t.pair.expire(now)
	}
	t.complete(now)
	if t.cut.active && !t.blocked {
		t.resumeCut(now)
	}
	if b.takes() && !t.blocked && (t.more || t.q.Pending() > 0) && (!t.special || t.mayTake(now)) {
		t.look(0)
		t.take(now, b)
	}
	if t.special && b.takes() {
		t.more = t.svc.looked(now, t.work.Packets+t.work.Dropped, !t.more)
		if t.join.flows > 0 && !t.more {
			t.stats.Floor += t.join.floor()
		}
	}
	if t.pend.n > 0 {
		t.complete(now)
	}
	call := t.publish(now, &t.work)
	if c := t.pair.ctl; c != nil {
		c.published(now, t, call)
	}
	if t.withheld > 0 {
		t.stats.CallsSuppressed[CallHold]++
		if !call.Needed {
			call.Reason = CallHold
		}
	}
	t.reflect()
	return call, t.broken
}

// take gives packets to the port until the budget or the ring is empty, or the
// port is full.
func (t *TX) take(now vtime.Time, b Budget) {
	for b.within(&t.work, t.size) && !t.cut.active {
		if t.join.on {
			if !t.takeJoined(now) {
				break
			}
			continue
		}
		if b.Packets != 1 && t.takeBatch(now, b) { // a batch of one gains nothing
			continue
		}
		if t.blocked || !t.takeOne(now) || b.Packets == 1 {
			break
		}
	}
	if t.work.Packets > 0 {
		t.port.Flush(now)
	}
}

// takeOne takes one chain off the ring, and reports whether there may be more.
func (t *TX) takeOne(now vtime.Time) bool {
	got, more := t.next()
	if !got {
		return more
	}
	return t.handle(now, &t.chain, 1)
}

// next takes the next chain off the ring into t.chain. Without one it says whether
// there may be more: a chain that cannot be read is dropped, and the ring may be
// empty.
func (t *TX) next() (got, more bool) {
	c := &t.chain
	ok, err := t.q.Next(c)
	switch {
	case err != nil:
		t.fault(c, err)
		t.work.Dropped++
		return false, t.broken == nil
	case !ok:
		t.more = false
		return false, false
	}
	return true, true
}

// handle sends the frame of a chain or drops it, and reports whether the port
// takes more. If not, the last n chains that were taken go back.
func (t *TX) handle(now vtime.Time, c *ring.Chain, n uint16) bool {
	if r := t.admit(c); r != DropNone {
		t.reject(c.Head, r)
		t.work.Dropped++
		return true
	}
	return t.send(now, c, n)
}

// send gives the frame in t.view to the port, and reports whether that takes
// more. If not, the last n chains that were taken go back.
func (t *TX) send(now vtime.Time, c *ring.Chain, n uint16) bool {
	if t.cut.limited && !t.cut.takesIt(&t.view.hdr) {
		if t.sendCut(now, c) {
			return true
		}
		t.q.Unget(n - 1)
		return false
	}
	t.slots[c.Head].state = slotLater
	done, r := t.port.Send(now, &t.view.hdr, t.view.iov, makeToken(t.gen, c.Head))
	return t.sent(now, c.Head, c.Descs, done, r, n)
}

// admit decides whether the chain holds a frame that may be sent, and if so
// leaves it in t.view.
func (t *TX) admit(c *ring.Chain) DropReason {
	switch {
	case !t.enabled:
		return DropDisabled
	case c.InLen > 0:
		return DropDirection
	case t.slots[c.Head].state != slotFree:
		return DropHeadBusy
	case int64(c.OutLen) < int64(t.rules.hdrLen+ethHdrLen):
		return DropShort
	case int64(c.OutLen) > int64(t.rules.hdrLen+t.rules.tso+maxL2Len):
		return DropOversize
	case t.port == nil:
		return DropNoPort
	}
	t.view.open(c.Out, t.rules.hdrLen, int(c.OutLen))
	if t.observed {
		t.view.raw = t.view.hdr
	}
	return t.rules.check(&t.view)
}

// sent does what the port's answer asks for with the frame in t.view, and reports
// whether it took it. If not, the last n chains that were taken go back.
func (t *TX) sent(now vtime.Time, head uint16, descs int, done vtime.Time, r SendResult, n uint16) bool {
	s := &t.slots[head]
	switch {
	case r == Full:
		s.state = slotFree
		t.q.Unget(n)
		t.blocked = true
		t.stats.FullStops++
		return false
	case r == Later:
		s.kickAt = t.took()
	case t.direct && done <= now && t.pend.n == 0:
		s.state = slotFree
		t.push(head, 0)
		t.served(now, t.took())
	default:
		s.state, s.kickAt = slotSent, t.took()
		t.pend.insert(max(done, now), head)
	}
	t.saw(now)
	t.account(now, head, descs)
	return true
}

// account counts the frame in t.view, the chain head of some descriptors, as
// sent.
func (t *TX) account(now vtime.Time, head uint16, descs int) {
	t.stats.Descs += uint64(descs)
	t.work.Descs += descs
	t.view.count(&t.stats, &t.work)
	if c := t.pair.ctl; c != nil {
		t.slots[head].hold = c.sent(now, t.pair, &t.view, &t.slots[head])
	}
	t.learn()
}

// learn notes where the flow of the frame in t.view sends, if the device steers.
func (t *TX) learn() {
	if t.learns && t.view.info.Layer >= frame.LayerIP {
		t.pair.dev.flows.learn(t.hasher.Hash(t.view.front, &t.view.info), t.pair.index)
	}
}

// Frame returns what the queue found in the frame that it gives to its port. It is
// valid during the call of Send.
func (t *TX) Frame() (info *frame.Info, bytes int) {
	if t.view.unparsed {
		t.view.parse(t.view.iov, t.view.len)
	}
	return &t.view.info, t.view.len
}

// Parts returns of how many of the guest's packets that frame was made: 1, or
// more if the policy joined them. It is valid during the call of Send.
func (t *TX) Parts() int { return t.parts }

// Next returns when to Poll again without a kick: now if there may be frames
// to take or a completion is due, the time of the next completion, or
// vtime.Never. A queue whose port is full waits for Writable and for
// completions only.
func (t *TX) Next(now vtime.Time) vtime.Time {
	if !t.running() {
		return vtime.Never
	}
	if t.more && !t.blocked {
		return now
	}
	return max(now, min(t.pend.next(&t.policy, t.size), t.callNext(), t.heldAt, t.svc.next()))
}

// Rearm re-enables kicks and looks at the ring once more, when a Poll has found
// it empty. True means that there are frames, so that the caller must Poll
// instead of sleeping. A queue that sleeps until Writable needs no kicks, and
// gets none.
func (t *TX) Rearm() (more bool) {
	if !t.running() || t.blocked {
		return false
	}
	if t.special && !t.more {
		return t.rearmService()
	}
	return t.more || t.rearm()
}

// Writable tells the queue that its port, which was full, takes frames again.
func (t *TX) Writable(now vtime.Time) { t.unblock() }

func (t *TX) unblock() {
	if t.blocked {
		t.blocked = false
		t.more = t.q != nil
	}
}

func (t *TX) start(q *ring.Device) {
	t.abandon()
	d := t.pair.dev
	t.attach(q)
	t.coal.start(d.Coalescing(DirTX))
	t.mirror.on = d.acked.Has(virtio.FeatureDeviceStats)
	t.reflect()
	t.rules, t.learns = d.txRules(), len(d.pairs) > 1
	if len(t.slots) != t.size {
		t.slots = make([]slot, t.size)
		t.pend = newPending(t.size)
		t.held = make([]uint16, 0, t.size)
	}
	t.join.start(t.size)
}

// stop completes everything that is held, publishes it and lets the ring go.
func (t *TX) stop(now vtime.Time) (*ring.Device, Call) {
	return t.letGo(now, t.finishAll)
}

// letGo lets the ring go after finish has staged what is to be completed, and
// that is published.
func (t *TX) letGo(now vtime.Time, finish func(vtime.Time)) (*ring.Device, Call) {
	if t.q == nil {
		return nil, Call{}
	}
	var c Call
	if t.broken == nil {
		finish(now)
		c = t.publishLast(now)
	}
	q := t.q
	t.abandon()
	return q, c
}

// abandon lets the ring go without a write to guest memory.
func (t *TX) abandon() {
	t.detach()
	t.blocked, t.due, t.cut.active = false, 0, false
	t.pend.clear()
	t.held, t.heldBytes, t.old, t.over = t.held[:0], 0, 0, false
	t.heldAt, t.carried = vtime.Never, 0
	t.svc.reset()
	clear(t.slots)
}
