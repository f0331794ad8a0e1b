package qdisc

import (
	"math"
	"time"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Pacer is implemented by an Owner of packets that has a pacing rate, in bytes
// per second, math.MaxUint64 if it has none: fq spaces by it packets that have no
// departure time of their own (sk_pacing_rate; kernels before 4.20 give TCP's
// packets none).
type Pacer interface{ PacingRate() uint64 }

// noRate is the rate of what is not limited.
const noRate = math.MaxUint64

// fqBands are the bands of fq since 6.7.
const fqBands = 3

// weights are the bytes that each band may send before the next has its turn.
var weights = [fqBands]int64{589824, 196608, 65536}

// fqFastMax is how many packets the fast path keeps while others wait.
const fqFastMax = 8

// fq is the fair queue that enforces pacing (net/sched/sch_fq.c, v6.1 and v6.12).
//
// Every flow, which is a socket, has its own queue. A packet that carries a
// departure time (SKB.Tstamp) leaves no earlier; if that is beyond the horizon the
// packet is dropped, or its time is brought back to the horizon. Flows with a
// packet that may leave are served in turn, new flows before old ones. In its
// turn a flow sends while it has credit, in bytes by PktLen; one without gets a
// quantum more and goes to the end of the old flows. A flow whose next packet is
// not due yet is put aside, in a queue ordered by time. When no flow has anything
// to send the watchdog is set to the first of these, with a slack of 10 µs; the
// flows that have become due then, or whenever a packet is looked for, go to the
// end of the old flows, in the order of their times. So a packet may leave up to
// the slack later than its time. A router leaves a packet the departure time that
// it came with (since 5.18), which is over by then (skb_clear_tstamp).
//
// A flow without packets stays in its list until its turn comes: a new one passes
// through the old flows, lest it gain by always being new. Then it is detached.
// If it stays so for longer than 40 ms, in ticks, it comes back with a quantum of
// credit at least, unless it owes some; after 3 s it may be forgotten.
//
// A packet without a departure time spaces its flow by its length, or a quantum
// if that is more, over the rate of its socket, once the flow's credit is used
// up; half of that time at most is given back for a packet that left late. A
// limit on every flow's rate does the same to packets with a time.
//
// 6.7 added the bands of pfifo_fast, with weights, each with the limit in packets
// for itself, and the fast path: a packet that is due, while no flow has anything
// to send, goes to a queue of its own, which is served first and knows no flow.
// A flow that was detached is listed in the band that it had before, and takes the
// new packet's band only when it is listed next.
//
// Deviations: flows are found by SKB.Flow, or by hash for a router, in our own
// table, where the kernel compares addresses of sockets; so which of the flows
// that share a bucket is forgotten after 3 s may differ. A quantum of less than 256
// bytes is refused, as by v6.12. There is no packet of
// network control priority, the one kind that v6.1 serves before all flows.
type fq struct {
	common
	nodes nodes
	table fqTable
	bands [fqBands]fqBand
	band  int    // being served
	fast  fqFlow // the fast path, in no list
	late  fqHeap // flows put aside
	due   vtime.Time
	ticks ticks

	quantum, initial int64
	limit, flowLimit int
	maxRate, lowRate uint64 // bytes per second
	refill           int64  // ticks
	slack, horizon   time.Duration
	mark             time.Duration // a packet later than this gets a congestion mark
	sw               FQSpec        // switches
}

// fqBand is the flows of one band that have, or lately had, packets.
type fqBand struct {
	fresh, old fqList
	credit     int64
	packets    int // in flows of this band
}

func newFQ(c common, s *Spec) *fq {
	f := &s.FQ
	q := &fq{
		common: c, due: vtime.Never, ticks: newTicks(s.HZ), sw: *f,
		quantum: f.Quantum, initial: f.InitialQuantum,
		limit: int(s.Limit), flowLimit: f.FlowLimit,
		maxRate: bytesOrNone(s.RateBps), lowRate: uint64(f.LowRateBps) / 8,
		slack: f.Slack, horizon: f.Horizon, mark: f.CEThreshold,
	}
	q.refill = q.ticks.of(f.Refill)
	q.table = newFQTable(f.Buckets, 3*int64(s.HZ))
	return q
}

// bytesOrNone turns bits per second, of which 0 means no limit, into bytes.
func bytesOrNone(bps int64) uint64 {
	if bps == 0 {
		return noRate
	}
	return uint64(bps) / 8
}

func (q *fq) Enqueue(now vtime.Time, p *skb.SKB) Fate {
	q.counts.In++
	b := q.bandOf(p)
	if q.full(b) {
		return q.refuse(p)
	}
	at := now
	if p.Tstamp != 0 {
		if p.Tstamp > now.Add(q.horizon) {
			q.counts.TooFar++
			if !q.sw.HorizonCap {
				return q.refuse(p)
			}
			p.Tstamp = now.Add(q.horizon)
		}
		at = p.Tstamp
	}
	f := q.flowFor(now, p, at)
	if f != &q.fast {
		if f.n >= q.flowLimit {
			return q.refuse(p)
		}
		q.list(now, f, b)
	}
	n := q.nodes.get(p)
	n.at, n.band = at, b
	f.add(n)
	q.enqueued(n.len)
	return Queued
}

// bandOf is the band of a packet; before 6.7 there is one.
func (q *fq) bandOf(p *skb.SKB) uint8 {
	if !q.sw.Bands {
		return 0
	}
	return uint8(band(p))
}

func (q *fq) full(band uint8) bool {
	if q.sw.Bands {
		return q.bands[band].packets >= q.limit
	}
	return q.length() >= q.limit
}

// flowFor returns where a packet that may leave at at goes.
func (q *fq) flowFor(now vtime.Time, p *skb.SKB, at vtime.Time) *fqFlow {
	if q.sw.Bands && q.fastPath(now, at) {
		return &q.fast
	}
	key := uint64(uint32(p.Flow)) << 1
	if q.sw.ByHash {
		key = uint64(p.Hash&(fqOrphans-1))<<1 | 1
	}
	collect := q.sw.Bands || q.table.crowded()
	f, found := q.table.find(key, q.ticks.at(now), collect)
	if !found {
		f.credit = q.initial
	}
	return f
}

// fqOrphans is the number of flows that packets without a socket are dealt into
// by their hash (orphan_mask, v6.1).
const fqOrphans = 1024

// fastPath reports whether a packet may go around the flows (fq_fastpath_check,
// v6.12).
func (q *fq) fastPath(now, at vtime.Time) bool {
	if at > now || q.maxRate != noRate {
		return false
	}
	if q.length() == 0 {
		return true
	}
	return q.table.flows == q.table.inactive+len(q.late.flows) && q.fast.n < fqFastMax && q.due > now
}

// list makes sure that a flow that gets a packet of band b is in a list.
func (q *fq) list(now vtime.Time, f *fqFlow, b uint8) {
	if f.detached {
		f.detached = false
		q.bands[f.band].fresh.push(f)
		if q.ticks.at(now) > f.age+q.refill && f.credit >= 0 {
			f.credit = max(f.credit, q.quantum)
		}
		if !q.sw.Bands {
			q.table.inactive--
		}
	}
	f.band = b
	q.bands[b].packets++
	if q.sw.Bands && f.n == 0 {
		q.table.inactive--
	}
}

func (q *fq) Dequeue(now vtime.Time) (*skb.SKB, bool) {
	q.expire(now)
	if q.n == 0 {
		return nil, false
	}
	if q.fast.n > 0 {
		return q.take(&q.fast), true
	}
	q.wake(now)
	f := q.next(now)
	if f == nil {
		if q.due != vtime.Never {
			q.arm(q.due, q.slack)
		}
		return nil, false
	}
	n := f.peek()
	if now.Sub(max(n.at, f.next)) > q.mark && setCE(n.p) {
		q.counts.Marked++
	}
	bytes := n.len
	q.bands[n.band].packets--
	p := q.take(f)
	if q.sw.Bands && f.n == 0 {
		q.table.inactive++
	}
	f.credit -= bytes
	q.bands[q.band].credit -= bytes
	q.space(now, f, p, bytes)
	return p, true
}

// take removes the next packet of a flow.
func (q *fq) take(f *fqFlow) *skb.SKB {
	n := f.pop()
	q.dequeued(n.len)
	return q.nodes.put(n)
}

// wake lists the flows that were put aside and are due (fq_check_throttled).
func (q *fq) wake(now vtime.Time) {
	if q.due > now {
		return
	}
	q.due = vtime.Never
	for len(q.late.flows) > 0 {
		f := q.late.flows[0]
		if f.next > now {
			q.due = f.next
			return
		}
		q.late.pop()
		q.bands[f.band].old.push(f)
	}
}

// next returns the flow whose turn it is, which has a packet that may leave and
// is the first of its list, or nil.
func (q *fq) next(now vtime.Time) *fqFlow {
	for idle := 0; ; {
		l := q.head()
		if l == nil {
			if !q.turn(&idle) {
				return nil
			}
			continue
		}
		idle = 0
		f := l.first
		if f.credit <= 0 {
			f.credit += q.quantum
			l.pop()
			q.bands[f.band].old.push(f)
			continue
		}
		n := f.peek()
		if n == nil {
			q.retire(now, l, f)
			continue
		}
		at := max(n.at, f.next)
		if now >= at {
			return f
		}
		l.pop()
		q.putAside(f, at)
	}
}

// head returns the list of the band being served whose first flow is next, or
// nil if the band's turn is over.
func (q *fq) head() *fqList {
	b := &q.bands[q.band]
	if q.sw.Bands && b.credit <= 0 {
		return nil
	}
	if b.fresh.first != nil {
		return &b.fresh
	}
	if b.old.first != nil {
		return &b.old
	}
	return nil
}

// turn goes on to the next band, and reports false when all of them had credit
// and nothing to send. idle counts those.
func (q *fq) turn(idle *int) bool {
	if !q.sw.Bands {
		return false
	}
	for *idle++; *idle <= fqBands; *idle++ {
		q.band = (q.band + 1) % fqBands
		b := &q.bands[q.band]
		b.credit = min(b.credit+weights[q.band], weights[q.band])
		if b.credit > 0 {
			return true
		}
		*idle = 0
	}
	return false
}

// retire takes a flow without packets out of its list.
func (q *fq) retire(now vtime.Time, l *fqList, f *fqFlow) {
	l.pop()
	b := &q.bands[q.band]
	if l == &b.fresh && (q.sw.Bands || b.old.first != nil) {
		q.bands[f.band].old.push(f)
		return
	}
	f.detached, f.age = true, q.ticks.at(now)|1
	if !q.sw.Bands {
		q.table.inactive++
	}
}

// putAside keeps a flow, which is in no list, until at.
func (q *fq) putAside(f *fqFlow, at vtime.Time) {
	f.next = at
	q.late.push(f)
	q.counts.Throttled++
	q.due = min(q.due, at)
}

// space sets the time of a flow's next packet after one of so many bytes left.
func (q *fq) space(now vtime.Time, f *fqFlow, p *skb.SKB, bytes int64) {
	if q.sw.NoPacing {
		return
	}
	rate := q.maxRate
	if p.Tstamp == 0 {
		if o, ok := p.Owner.(Pacer); ok {
			rate = min(rate, o.PacingRate())
		}
		if rate <= q.lowRate {
			f.credit = 0
		} else {
			bytes = max(bytes, q.quantum)
			if f.credit > 0 {
				return
			}
		}
	}
	if rate == noRate {
		return
	}
	wait := spacing(bytes, rate)
	if f.next != 0 {
		wait -= min(wait/2, now.Sub(f.next))
	}
	f.next = now.Add(wait)
}

// spacing is the time of so many bytes at a rate, one second at most.
func spacing(bytes int64, rate uint64) time.Duration {
	n := uint64(bytes) * uint64(time.Second)
	if rate != 0 {
		n /= rate
	}
	return time.Duration(min(n, uint64(time.Second)))
}
