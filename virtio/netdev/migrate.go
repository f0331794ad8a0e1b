package netdev

import (
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// SetLog changes where the queue of that direction notes the guest's pages that
// it writes; the zero Log notes nothing. Buffers that RX had taken in advance go
// back to the ring first, since the ring knows their addresses only if it had a
// log when they were taken. Without a ring it does nothing. The error is that of
// ring.Device.SetLog.
func (p *Pair) SetLog(dir Dir, l ring.Log) error {
	q := p.queue(dir)
	if q.q == nil {
		return nil
	}
	if dir == DirRX {
		p.RX.release()
	}
	return q.q.SetLog(l)
}

// SetLog is Pair.SetLog for the control queue.
func (c *Ctrl) SetLog(l ring.Log) error {
	if c.q == nil {
		return nil
	}
	return c.q.SetLog(l)
}

// LeaveTX stops the transmit queue as DetachTX does, but leaves the chains of
// frames that a port still holds in flight: whoever attaches the ring again finds
// them in its record (ring.Config.Inflight) and sends them anew. The port must
// not send them any more.
func (p *Pair) LeaveTX(now vtime.Time) (*ring.Device, Call) {
	return p.TX.letGo(now, p.TX.finishSent)
}

// finishSent stages the used entries of the frames that were sent, whether the
// policy holds them or not.
func (t *TX) finishSent(now vtime.Time) {
	for t.due = 0; t.pend.n > 0; {
		t.finish(now, t.pend.pop())
	}
}
