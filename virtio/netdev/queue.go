package netdev

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// queue is what the three kinds of queue have in common: the ring, the
// accounting of kicks and calls, and whether a Poll may find something.
type queue struct {
	q      *ring.Device // nil while stopped
	size   int          // entries of the ring
	gen    uint32       // attachments so far, so that old tokens are known
	broken error        // what the guest broke; nil if nothing

	awake  bool // kicks are disabled, because the device looks by itself
	more   bool // a Poll may find chains: kicked, started, or budget ran out
	staged int  // used entries pushed and not yet published

	kicks    uint64     // kicks since the last look
	wakes    uint64     // calls of kick since the last look
	kickAt   vtime.Time // the first of them
	seen     uint16     // available index at the last look
	runKick  uint64     // chains taken since the last wake
	runValid bool       // there was a wake since the ring was started

	announced   int        // chains that a kick announced and that are not yet taken
	announcedAt vtime.Time // that kick

	runCall   uint64     // used entries published since the last delivered call
	callDue   bool       // a call was asked for and its result is not known
	callDueAt vtime.Time // publication that asked for it
	coal      coalescer  // when calls are made, by the guest's wish or the policy's

	forced     bool       // the next call is made whatever the ring says
	quietUntil vtime.Time // no call for what is published until then, unless for more

	up     atomic.Bool // a ring is attached, for others to read
	mirror mirror      // counters for others to read
	stats  Stats       // large, so that it stands behind what every packet needs
}

// attach starts the queue on a ring. The ring is processed once, kick or not
// (the guest may have filled it before and see no reason to kick again).
func (q *queue) attach(r *ring.Device) {
	q.q, q.size, q.gen = r, int(r.Size()), q.gen+1
	q.broken, q.awake, q.more, q.staged = nil, false, true, 0
	q.kicks, q.wakes, q.runKick, q.runValid = 0, 0, 0, false
	q.announced, q.runCall, q.callDue = 0, 0, false
	q.seen = r.NextAvail() + r.Pending()
	q.up.Store(true)
}

// detach stops the queue and returns its ring, which it no longer touches.
func (q *queue) detach() *ring.Device {
	r := q.q
	q.q, q.gen, q.broken, q.more, q.staged = nil, q.gen+1, nil, false, 0
	q.coal.settle()
	q.up.Store(false)
	q.forced, q.quietUntil = false, 0
	return r
}

func (q *queue) running() bool { return q.q != nil && q.broken == nil }

// kick accounts n kicks that arrived together.
func (q *queue) kick(now vtime.Time, n uint64) {
	if n == 0 {
		return
	}
	q.stats.Kicks += n
	q.stats.Wakes++
	q.stats.KicksCoalesced += n - 1
	if q.q == nil {
		return
	}
	if q.runValid {
		q.stats.PacketsPerKick.Add(q.runKick)
	}
	q.runKick, q.runValid = 0, true
	if q.kicks == 0 {
		q.kickAt = now
	}
	q.kicks += n
	q.wakes++
	q.more = true
}

// look reads the available index and attributes what is new to the kicks
// since the last look, or to the device being awake. The queue holds some chains
// that it took before and has not used: a ring that is empty beside those is not.
func (q *queue) look(held int) {
	if !q.awake {
		q.q.DisableKicks()
		q.awake = true
	}
	pending := q.q.Pending()
	avail := q.q.NextAvail() + pending
	fresh := avail - q.seen
	q.seen = avail
	if q.kicks == 0 {
		if fresh > 0 {
			q.stats.KicksSuppressed += uint64(fresh)
			q.stats.SuppressedBatches++
		}
		return
	}
	if fresh == 0 {
		q.stats.KicksEmpty += q.wakes
	}
	if fresh == pending && held == 0 {
		q.announced, q.announcedAt = int(fresh), q.kickAt
	}
	q.kicks, q.wakes = 0, 0
}

// took accounts a chain taken off the ring and returns the time of the kick
// that announced it, vtime.Never if none did.
func (q *queue) took() vtime.Time {
	q.runKick++
	if q.announced == 0 {
		return vtime.Never
	}
	q.announced--
	return q.announcedAt
}

// push stages a used entry.
func (q *queue) push(head uint16, n uint32) {
	q.q.Push(head, n)
	q.staged++
}

// served accounts the latency of a chain that a kick at kickAt announced and
// whose used entry is published now.
func (q *queue) served(now, kickAt vtime.Time) {
	if kickAt != vtime.Never {
		q.stats.KickToUsed.Add(nanos(now.Sub(kickAt)))
	}
}

// publish makes the staged used entries, which are as many packets, visible and
// asks whether the guest has to be called.
func (q *queue) publish(now vtime.Time, w *Work) Call { return q.publishPackets(now, w, q.staged) }

// publishPackets is publish for used entries of n packets.
func (q *queue) publishPackets(now vtime.Time, w *Work, n int) Call {
	fresh := q.staged > 0
	if fresh {
		w.Completed += q.show(now, n)
	}
	switch {
	case q.coal.n == 0:
		return Call{}
	case fresh && q.forced || q.coal.due(now, q.size) && (fresh || now >= q.quietUntil):
		return q.settle()
	case fresh:
		q.stats.CallsSuppressed[CallCoalesce]++
	}
	return Call{Reason: CallCoalesce}
}

// publishLast is publish for a queue that stops: no call is held back.
func (q *queue) publishLast(now vtime.Time) Call {
	if q.staged > 0 {
		q.show(now, q.staged)
	}
	if q.coal.n == 0 {
		return Call{}
	}
	return q.settle()
}

// callNext returns when a call that waits is due, vtime.Never if none does.
func (q *queue) callNext() vtime.Time {
	if q.coal.n == 0 {
		return vtime.Never
	}
	return max(q.coal.next(), q.quietUntil)
}

// recallTime is how long a queue whose used entries were published without a
// call, because the other queue of the pair makes one, waits before it asks
// whether the guest has seen them.
const recallTime = 25 * time.Microsecond

// show makes the staged used entries, of n packets, visible and returns how many
// there were.
func (q *queue) show(now vtime.Time, n int) (shown int) {
	q.staged = 0
	shown = int(q.q.Publish()) // with IN_ORDER not what waits for its turn
	if shown > 0 {
		q.runCall += uint64(shown)
		q.coal.add(now, n)
	}
	return shown
}

// settle asks the ring whether the guest wants to be called for what was
// published.
func (q *queue) settle() Call {
	since := q.coal.since
	q.coal.settle()
	need, why := q.q.NeedCall()
	c := Call{Needed: need, Reason: CallReason(why)}
	if q.forced && !need {
		c, need = Call{Needed: true, Reason: CallForced}, true
	}
	q.forced, q.quietUntil = false, 0
	if !need {
		q.stats.CallsSuppressed[c.Reason]++
		return c
	}
	if !q.callDue {
		q.callDue, q.callDueAt = true, since
	}
	return c
}

// callResult accounts what became of a call.
func (q *queue) callResult(now vtime.Time, err error) {
	if err != nil {
		q.stats.CallsFailed++
		return
	}
	q.stats.Calls++
	q.stats.PacketsPerCall.Add(q.runCall)
	q.runCall = 0
	if q.callDue {
		q.callDue = false
		q.stats.UsedToCall.Add(nanos(now.Sub(q.callDueAt)))
	}
}

// rearm re-enables kicks and looks once more.
func (q *queue) rearm() (more bool) {
	q.awake = false
	q.more = q.q.EnableKicks()
	return q.more
}

// fault handles an error of the ring's Next: a chain that was taken is returned
// and counted, anything else breaks the queue until it is attached again.
func (q *queue) fault(c *ring.Chain, err error) {
	if !c.HasHead {
		q.stats.Drops[faultOf(err)]++
		q.broken = fmt.Errorf("%w: %w", ErrBroken, err)
		q.more = false
		return
	}
	q.reject(c.Head, faultOf(err))
}

// faultOf returns the reason to count for an error of the ring's Next.
func faultOf(err error) DropReason {
	f, _ := err.(ring.Fault)
	return FaultDrop(f)
}

// reject returns a chain unused and counts why.
func (q *queue) reject(head uint16, why DropReason) {
	q.stats.Drops[why]++
	q.took()
	q.push(head, 0)
}

func nanos(d time.Duration) uint64 { return uint64(max(d, 0)) }
