package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// expireSoon makes the deadline of what is held the next Poll.
func (p *Pair) expireSoon() {
	if len(p.TX.held) > 0 {
		p.TX.heldAt, p.TX.over = 0, true
	}
	if p.RX.flows != nil && p.RX.flows.waiting > 0 {
		p.RX.thinAt = 0
	}
}

// expire ends a hold: used entries first and without a call, then the ACKs that
// wait, whose call has the guest look for both (virtnet_poll cleans the transmit
// ring of its pair, v6.12). If it did not look, the transmit queue calls later.
func (p *Pair) expire(now vtime.Time) {
	t, r := p.TX, p.RX
	acks := r.flows != nil && r.flows.waiting > 0
	t.heldAt = vtime.Never
	if len(t.held) > 0 {
		t.publishHeld(now, acks)
	}
	if acks {
		r.deliverAllWaiting()
	}
	r.thinAt = vtime.Never
}

// publishHeld publishes the used entries that were held at the last deadline
// already; those that came since wait for the next one, so that the sender has
// some in flight all the time. With quiet the guest is not called for them now.
func (t *TX) publishHeld(now vtime.Time, quiet bool) {
	if t.over {
		t.old = len(t.held)
	}
	t.over = false
	for _, head := range t.held[:t.old] {
		t.heldBytes -= int(t.slots[head].bytes)
		t.finish(now, head)
	}
	t.held = t.held[:copy(t.held, t.held[t.old:])]
	if t.old = len(t.held); t.old > 0 {
		t.heldAt = now.Add(maxHold)
	}
	if t.q == nil || t.broken != nil {
		return
	}
	if t.staged == 0 {
		return
	}
	t.carried += t.show(now, t.staged)
	if quiet {
		t.quietUntil = now.Add(recallTime)
	}
}

// overtake prepares for the used entry of a chain that is not held while others
// are: the guest had not foreseen it, and is called whatever its wish says. A ring
// that has to be used in order lets it pass only with the others before it.
func (t *TX) overtake(now vtime.Time) {
	t.forced = true
	if t.rules.acked.Has(virtio.FeatureInOrder) {
		for _, head := range t.held {
			t.finish(now, head)
		}
		t.held, t.heldBytes, t.old, t.heldAt = t.held[:0], 0, 0, vtime.Never
	}
}

// keep takes a chain whose frame is done into what is held, and reports whether
// it did: not if the flow is no longer held.
func (t *TX) keep(now vtime.Time, head uint16) bool {
	s := &t.slots[head]
	f := &t.pair.RX.flows.flows[s.flow]
	if !f.send.batch {
		return false
	}
	t.held = append(t.held, head)
	t.heldBytes += int(s.bytes)
	t.pair.ctl.arm(now, t.pair, f)
	if t.heldBytes >= heldBytes || len(t.held) >= min(heldPackets, t.size/4) {
		t.heldAt, t.over = now, true
	}
	return true
}
