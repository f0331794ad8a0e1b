package netdev

import "github.com/vnetbench/vnetbench/virtio/vtime"

// Complete gives a frame back that the port kept (its Send answered Later):
// its buffers are free now. A token from before the queue was stopped or reset,
// or that was completed before, is ignored and counted. The used entry is
// published by the next Poll, which Next then asks for.
func (t *TX) Complete(tok Token, now vtime.Time) {
	head := int(tok.head())
	if t.q == nil || tok.gen() != t.gen || head >= len(t.slots) || t.slots[head].state != slotLater {
		t.stats.StaleTokens++
		return
	}
	for more := true; more; {
		s := &t.slots[head]
		s.state = slotSent
		t.pend.insert(now, uint16(head))
		more, head = s.follows, int(s.follower)
		s.follows = false
	}
}

// complete moves what has come due out of pend, unless the policy holds it.
func (t *TX) complete(now vtime.Time) {
	p := &t.pend
	for t.due < p.n && p.at(t.due).done <= now {
		t.due++
		t.withheld++
	}
	if t.due == 0 || t.holds(now) {
		return
	}
	for t.withheld = 0; t.due > 0; t.due-- {
		head := p.pop()
		if t.slots[head].hold && t.keep(now, head) {
			t.withheld++
			continue
		}
		if len(t.held) > 0 {
			t.overtake(now)
		}
		t.finish(now, head)
	}
}

// finishAll stages the used entries of every chain that the queue holds.
func (t *TX) finishAll(now vtime.Time) {
	t.finishSent(now)
	for head := range t.slots {
		if t.slots[head].state != slotFree {
			t.finish(now, uint16(head))
		}
	}
}

// holds reports whether the policy keeps the frames that are due back.
func (t *TX) holds(now vtime.Time) bool {
	if !t.policy.Holding() {
		return false
	}
	return t.due < t.policy.enough(t.size) && now < t.pend.at(0).done.Add(t.policy.HoldTime)
}

// finish stages the used entry of a chain that the queue holds.
func (t *TX) finish(now vtime.Time, head uint16) {
	s := &t.slots[head]
	s.state, s.hold = slotFree, false
	t.push(head, 0)
	t.served(now, s.kickAt)
}

// enough is the number of finished packets that are published together: never
// more than the ring holds, since the guest would wait for them.
func (p *Policy) enough(size int) int {
	if p.HoldPackets == 0 {
		return size
	}
	return min(p.HoldPackets, size)
}

// pending is a FIFO of frames that were sent, in order of the time at which
// their buffers are free, with room for a whole ring. Entries of equal time
// keep their order.
type pending struct {
	ring []pendingEntry // a power of two of them
	head int
	n    int
}

type pendingEntry struct {
	done vtime.Time
	head uint16
}

func newPending(size int) pending { return pending{ring: make([]pendingEntry, size)} }

func (p *pending) at(i int) *pendingEntry { return &p.ring[(p.head+i)&(len(p.ring)-1)] }

func (p *pending) clear() { p.head, p.n = 0, 0 }

// insert adds an entry behind all that are not later. A port that finishes in
// the order of sending makes it one step.
func (p *pending) insert(done vtime.Time, head uint16) {
	if p.n == len(p.ring) {
		panic("netdev: more frames pending than the ring has entries")
	}
	i := p.n
	for p.n++; i > 0 && p.at(i-1).done > done; i-- {
		*p.at(i) = *p.at(i - 1)
	}
	*p.at(i) = pendingEntry{done: done, head: head}
}

func (p *pending) pop() uint16 {
	e := p.at(0)
	p.head++
	p.n--
	return e.head
}

// next returns when the policy lets the first entries through.
func (p *pending) next(pol *Policy, size int) vtime.Time {
	if p.n == 0 {
		return vtime.Never
	}
	first := p.at(0).done
	if !pol.Holding() {
		return first
	}
	deadline := first.Add(pol.HoldTime)
	if n := pol.enough(size); p.n >= n {
		return min(deadline, p.at(n-1).done)
	}
	return deadline
}
