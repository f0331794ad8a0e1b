package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// maxCommand is the longest command in bytes that the control queue reads: a
// MAC table of some 2700 addresses. A longer one is answered with an error.
const maxCommand = 16 << 10

// ActionKind says what a command of the control queue changed.
type ActionKind uint8

// The kinds of action. The device has already applied each to itself; a
// composer acts on those that concern it.
const (
	actNone ActionKind = iota
	// ActPairs: the guest uses Pairs queue pairs from now on; Device.Steer may
	// have another choice among them.
	ActPairs
	// ActMAC: the station address is MAC; the configuration space has it too.
	ActMAC
	// ActRXMode: a mode or an address list of the receive filter changed.
	ActRXMode
	// ActVLAN: the list of VLANs changed.
	ActVLAN
	// ActOffloads: the guest takes Offloads (FeatureGuestCSum and so on) from
	// now on; a tap may be told not to build what is not among them.
	ActOffloads
	// ActAnnounced: the guest has seen the request to announce itself.
	ActAnnounced
	// ActHash: the guest wants other hashes in its net headers.
	ActHash
	// ActCoalesce: calls are held back for longer or less long; a queue that
	// rests has to be asked for its Next again.
	ActCoalesce
)

// Action is something that a command of the control queue changed.
type Action struct {
	Kind     ActionKind
	Pairs    int
	MAC      [6]byte
	Offloads virtio.Features
}

// Ctrl is the control queue (virtio 1.3 §5.1.6.5). It may be polled while the
// pairs run on other workers. It is not itself safe for concurrent use.
type Ctrl struct {
	queue
	dev     *Device
	chain   ring.Chain
	buf     []byte
	result  []byte // what a command answers beside its status
	actions []Action
}

func newCtrl(d *Device) *Ctrl { return &Ctrl{dev: d} }

// Attach starts the control queue on a ring, which makes VQ_PAIRS_SET decide
// which pairs receive: the first one until the driver says more.
func (c *Ctrl) Attach(now vtime.Time, q *ring.Device) {
	c.attach(q)
	if c.buf == nil {
		c.buf = make([]byte, maxCommand)
	}
	c.dev.ctrlRuns.Store(true)
}

// Detach stops the control queue and returns its ring, nil if none was
// attached.
func (c *Ctrl) Detach(now vtime.Time) *ring.Device {
	c.dev.ctrlRuns.Store(false)
	return c.detach()
}

// SetMemory moves the ring to another memory, as Pair.SetMemory does.
func (c *Ctrl) SetMemory(mem *shm.Memory) error {
	if c.q == nil {
		return nil
	}
	c.more = true
	return c.q.SetMemory(mem)
}

// Missing is Pair.Missing for the control queue.
func (c *Ctrl) Missing() (m ring.Missing, ok bool) {
	if c.q == nil {
		return m, false
	}
	return c.q.Missing()
}

// Attached reports whether the queue has a ring.
func (c *Ctrl) Attached() bool { return c.q != nil }

// Snapshot returns a copy of the counters.
func (c *Ctrl) Snapshot() Stats { return c.stats }

// Kick accounts n kicks that arrived together.
func (c *Ctrl) Kick(now vtime.Time, n uint64) { c.kick(now, n) }

// CallResult accounts what became of a call.
func (c *Ctrl) CallResult(now vtime.Time, err error) { c.callResult(now, err) }

// Poll answers at most the budget's commands, each with OK or ERR as its
// effect on the device was. The actions say what changed, in order; the slice
// is valid until the next Poll. The error is that of TX.Poll.
func (c *Ctrl) Poll(now vtime.Time, b Budget) (Work, Call, []Action, error) {
	c.actions = c.actions[:0]
	if !c.running() {
		return Work{}, Call{}, nil, c.broken
	}
	var w Work
	if b.takes() && (c.more || c.q.Pending() > 0) {
		c.look(0)
		for b.within(&w, c.size) && c.takeOne(now, &w) {
		}
	}
	call := c.publish(now, &w)
	return w, call, c.actions, c.broken
}

func (c *Ctrl) takeOne(now vtime.Time, w *Work) bool {
	ch := &c.chain
	ok, err := c.q.Next(ch)
	switch {
	case err != nil:
		c.fault(ch, err)
		w.Dropped++
		return c.broken == nil
	case !ok:
		c.more = false
		return false
	case ch.InLen == 0:
		c.reject(ch.Head, DropNoAck)
		w.Dropped++
		return true
	}
	n := c.answer(ch, c.command(gather(c.buf, ch.Out), int64(ch.OutLen)))
	c.stats.Packets++
	c.stats.Bytes += uint64(ch.OutLen)
	c.stats.Descs += uint64(ch.Descs)
	w.Packets++
	w.Bytes += int(ch.OutLen)
	w.Descs += ch.Descs
	c.push(ch.Head, n)
	c.served(now, c.took())
	return true
}

// answer writes the status, and behind it the result of a command that has one,
// and returns how many bytes it wrote. A result that does not fit is an error
// (virtio 1.3 §5.1.6.5).
func (c *Ctrl) answer(ch *ring.Chain, ack byte) uint32 {
	if ack == ackErr || int64(len(c.result)) >= int64(ch.InLen) {
		ack, c.result = ackErr, c.result[:0]
		c.stats.Refused++
	}
	ch.In[0][0] = ack
	scatter(ch.In, 1, c.result)
	return uint32(1 + len(c.result))
}

// gather copies pieces to buf as far as they fit and returns what it copied.
func gather(buf []byte, iov [][]byte) []byte {
	n := 0
	for _, p := range iov {
		n += copy(buf[n:], p)
		if n == len(buf) {
			break
		}
	}
	return buf[:n]
}

// Next returns when to Poll again without a kick: now or vtime.Never.
func (c *Ctrl) Next(now vtime.Time) vtime.Time {
	if c.running() && c.more {
		return now
	}
	return vtime.Never
}

// Rearm re-enables kicks, as TX.Rearm does.
func (c *Ctrl) Rearm() (more bool) { return c.running() && (c.more || c.rearm()) }
