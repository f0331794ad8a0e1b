package netdev

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Coalescing is when a queue calls the guest for what it has published: once
// there are MaxPackets packets, or MaxUsecs microseconds after the first of
// them, whichever comes first (virtio 1.3 §5.1.6.5.6.1). If either is 0, every
// publication is a reason to call. The guest's own suppression comes after it:
// a call that is due and not wanted is not made.
type Coalescing struct {
	MaxPackets uint32
	MaxUsecs   uint32
}

func (c Coalescing) pack() uint64 { return uint64(c.MaxPackets)<<32 | uint64(c.MaxUsecs) }

func unpackCoalescing(v uint64) Coalescing { return Coalescing{uint32(v >> 32), uint32(v)} }

// coalescer holds calls of one queue back. What is published while it does is
// visible to the guest at once; only the call comes later. The parameters may
// be set from anywhere, and take effect at the next look; the rest belongs to
// the queue's owner.
type coalescer struct {
	want atomic.Uint64 // Coalescing, packed

	have  uint64     // want at the last look
	param Coalescing // what it was
	other Coalescing // what holds where the guest has set nothing: the policy's
	n     uint32     // packets published since the last call was settled
	since vtime.Time // publication of the first of them
}

// set changes the parameters.
func (c *coalescer) set(p Coalescing) { c.want.Store(p.pack()) }

// setDefault sets what holds while the guest has set nothing: the policy's
// parameters.
func (c *coalescer) setDefault(p Policy) {
	c.other = Coalescing{}
	if p.CallTime > 0 {
		c.other = Coalescing{MaxPackets: uint32(p.CallPackets), MaxUsecs: uint32((p.CallTime + time.Microsecond - 1) / time.Microsecond)}
		if p.CallPackets == 0 {
			c.other.MaxPackets = math.MaxUint32
		}
	}
	if c.have == 0 {
		c.param = c.other
	}
}

// get returns the parameters.
func (c *coalescer) get() Coalescing { return unpackCoalescing(c.want.Load()) }

// look takes new parameters over, and reports whether calls are held back.
func (c *coalescer) look() bool {
	if v := c.want.Load(); v != c.have {
		c.have = v
		if c.param = unpackCoalescing(v); v == 0 {
			c.param = c.other
		}
	}
	return c.param.MaxPackets > 0 && c.param.MaxUsecs > 0
}

// add notes that n packets were published.
func (c *coalescer) add(now vtime.Time, n int) {
	if c.n == 0 {
		c.since = now
	}
	c.n += uint32(max(n, 1))
}

// due reports whether the call for what was published is to be made now. A
// guest with a full ring waits for it, so the ring's size is always enough.
func (c *coalescer) due(now vtime.Time, size int) bool {
	return !c.look() || c.n >= min(c.param.MaxPackets, uint32(size)) || now >= c.deadline()
}

func (c *coalescer) deadline() vtime.Time {
	return c.since.Add(time.Duration(c.param.MaxUsecs) * time.Microsecond)
}

// next returns when a call that is held back is due, vtime.Never if none is.
func (c *coalescer) next() vtime.Time {
	switch {
	case c.n == 0:
		return vtime.Never
	case !c.look():
		return c.since
	}
	return c.deadline()
}

// settle forgets what was published: a call for it was made, or not wanted.
func (c *coalescer) settle() { c.n = 0 }

// start begins anew with the device's parameters for queues of this kind: a
// queue that is reset loses its own (virtio 1.3 §5.1.6.5.6.2).
func (c *coalescer) start(p Coalescing) {
	c.settle()
	c.set(p)
}

// Coalescing returns what the guest has set for the queue.
func (q *queue) Coalescing() Coalescing { return q.coal.get() }

// Coalescing returns what the guest has set for every queue of a direction; a
// single queue may have other parameters.
func (d *Device) Coalescing(dir Dir) Coalescing {
	return unpackCoalescing(d.coal[min(dir, DirTX)].Load())
}

// setCoalescing sets the parameters of every queue of a direction, those that
// start later included.
func (d *Device) setCoalescing(dir Dir, c Coalescing) {
	d.coal[dir].Store(c.pack())
	for _, p := range d.pairs {
		p.queue(dir).coal.set(c)
	}
}
