package netdev

import "github.com/vnetbench/vnetbench/virtio/ring"

// ResetQueue resets one queue of the pair, as a driver does by queue_reset if
// RING_RESET was negotiated (virtio 1.3 §2.6.1): the queue forgets its ring at
// once. What it held is not given back, frames in the spill are dropped and
// counted, tokens that a port holds become stale, and guest memory is not written.
// Counters, filters, policies and the other queues stay as they are. The queue
// starts again by AttachRX or AttachTX, with a ring of any size at any place. It
// returns the old ring, nil if none was attached.
//
// On vhost-user a front-end asks for the base instead and sets the ring up anew,
// which is DetachRX or DetachTX.
func (p *Pair) ResetQueue(dir Dir) *ring.Device {
	q := p.queue(dir).q
	if dir == DirRX {
		p.RX.abandon()
		p.updateLive()
		return q
	}
	p.TX.abandon()
	return q
}

// ResetQueue is Pair.ResetQueue for the control queue.
func (c *Ctrl) ResetQueue() *ring.Device {
	q := c.q
	c.detach()
	c.dev.ctrlRuns.Store(false)
	return q
}
