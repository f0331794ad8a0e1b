package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// RX is a receive queue: it puts frames into buffers that the guest offers.
// Small frames come by Deliver, which copies; large ones by Reserve and
// Commit, so that a port reads them straight into guest memory. Either way the
// guest sees them at the next Poll. A frame that finds too few buffers waits
// in the spill, and what comes later waits behind it, so that order is kept.
type RX struct {
	queue
	pair    *Pair
	enabled bool
	starved bool // a frame was kept out for want of buffers since the last look
	mrg     bool
	hashing bool       // HASH_REPORT
	thins   bool       // ACKs may begin to wait
	thinAt  vtime.Time // when those that wait are delivered; vtime.Never if none does

	hdrLen int
	spill  spill
	box    passBox // from other pairs
	bufs   buffers
	ahead  ahead
	view   frameView
	work   Work // since the last Poll

	chain  ring.Chain
	whole  [1][]byte // a frame in one piece, as pieces
	cutter cutter

	reserved bool
	data     [][]byte // the reservation
	room     int      // bytes of it that are guest memory; the rest is tail
	tail     []byte

	flows *flowTable // where ACKs wait; nil unless a policy needed it
	clock vtime.Time // the last time that the queue was told

	linear  []byte // scratch: a frame in one piece
	spare   []byte // scratch: a frame out of the way of one that goes before it
	segment []byte // scratch: a segment of it
}

func newRX(p *Pair) *RX { return &RX{pair: p, enabled: true, thinAt: vtime.Never} }

// Snapshot returns a copy of the counters.
func (r *RX) Snapshot() Stats { return r.stats }

// Attached reports whether the queue has a ring.
func (r *RX) Attached() bool { return r.q != nil }

// Kick accounts kicks, as Pair.Kick does.
func (r *RX) Kick(now vtime.Time, n uint64) {
	r.kick(now, n)
	r.reflect()
}

// CallResult accounts what became of a call, as Pair.CallResult does.
func (r *RX) CallResult(now vtime.Time, err error) {
	r.callResult(now, err)
	r.reflect()
}

// Waiting returns the number of frames in the spill.
func (r *RX) Waiting() int { return r.spill.frames }

// Held returns the number of ACKs that the policy keeps waiting.
func (r *RX) Held() int {
	if r.flows == nil {
		return 0
	}
	return r.flows.waiting
}

// Starved reports whether a frame was kept out for want of buffers: a Reserve
// that failed, or a frame that went to the spill. A port that has more frames
// keeps them until the guest kicks; Rearm asks for that kick.
func (r *RX) Starved() bool { return r.starved }

// Poll first moves frames out of the spill, at most the budget's, and then
// publishes everything that was delivered since the last Poll with one store.
// Work covers the deliveries since the last Poll. The error is that of TX.Poll.
func (r *RX) Poll(now vtime.Time, b Budget) (Work, Call, error) {
	if !r.running() {
		return Work{}, Call{}, r.broken
	}
	r.clock = now
	if now >= r.thinAt {
		r.pair.expire(now)
	}
	if b.takes() && (r.more || r.q.Pending() > 0 || r.q.NextAvail() != r.seen) {
		r.look(r.bufs.len() + r.ahead.len())
		r.more = false
	}
	r.takePassed()
	var done Work
	for r.spill.frames > 0 && !r.reserved && r.enabled && b.within(&done, r.size) {
		if !r.unspill(&done) {
			break
		}
	}
	call := r.publishPackets(now, &r.work, r.work.Packets)
	w := r.work
	r.work = Work{}
	r.reflect()
	return w, call, r.broken
}

// Next returns when to Poll again without a kick: now if something waits to be
// published, or frames wait and there may be new buffers; else the time at which
// a call is due that is held back, or the policy's next deadline, or vtime.Never.
func (r *RX) Next(now vtime.Time) vtime.Time {
	if !r.running() {
		return vtime.Never
	}
	if r.staged > 0 || r.more && r.spill.frames > 0 || r.box.front() != nil {
		return now
	}
	return max(now, min(r.thinAt, r.callNext()))
}

// Rearm asks for a kick when the guest offers buffers, if the queue is
// starved; otherwise it needs none, and returns false. True means that there
// are buffers already: Poll, and try again.
func (r *RX) Rearm() (more bool) {
	return r.running() && r.starved && r.rearm()
}

// live reports whether the queue delivers.
func (r *RX) live() bool { return r.running() && r.enabled }

// drop counts a frame that is not delivered.
func (r *RX) drop(d DropReason) DropReason {
	r.stats.Drops[d]++
	r.work.Dropped++
	r.reflect()
	return d
}

func (r *RX) start(q *ring.Device) {
	r.abandon()
	d := r.pair.dev
	r.attach(q)
	r.coal.start(d.Coalescing(DirRX))
	r.mirror.on, r.hashing = d.acked.Has(virtio.FeatureDeviceStats), d.acked.Has(virtio.FeatureHashReport)
	r.reflect()
	r.hdrLen, r.mrg = d.hdrLen(), d.acked.Has(virtio.FeatureMrgRxBuf)
	r.spill.limit = d.cfg.SpillBytes
}

// stop publishes what was delivered, gives the other buffers back to the ring
// and lets it go.
func (r *RX) stop(now vtime.Time) (*ring.Device, Call) {
	if r.q == nil {
		return nil, Call{}
	}
	var c Call
	r.deliverAllWaiting()
	r.release()
	if r.broken == nil {
		c = r.publishLast(now)
	}
	q := r.q
	r.abandon()
	return q, c
}

// release puts the buffers that were taken and not used back.
func (r *RX) release() {
	r.Abort()
	r.q.Unget(uint16(r.ahead.len() + r.bufs.clear()))
	r.ahead.at = r.ahead.N
}

// abandon lets the ring go without a write to guest memory.
func (r *RX) abandon() {
	r.stats.Drops[DropStopped] += uint64(r.spill.frames)
	if r.flows != nil {
		r.stats.Drops[DropStopped] += uint64(r.flows.waiting)
		r.flows.clear()
	}
	for ; r.box.front() != nil; r.box.drop() {
		r.stats.Drops[DropStopped]++
	}
	r.thinAt = vtime.Never
	r.detach()
	r.bufs.clear()
	r.ahead.at = r.ahead.N
	r.spill.clear()
	r.starved, r.reserved, r.work = false, false, Work{}
}
