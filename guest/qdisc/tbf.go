package qdisc

import (
	"time"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// tbf is a token bucket in front of a queue that is limited in bytes
// (net/sched/sch_tbf.c with bfifo, v6.1 and v6.12, which agree). Tokens are
// nanoseconds: the bucket holds the time that a burst takes at the rate and is
// full at first; time fills it, and a packet takes out the time of its PktLen. If
// that is more than there is, the packet waits for exactly the rest. Tokens are
// only counted when a packet leaves, so nothing is lost to rounding in between.
//
// A packet longer than the burst, by PktLen, could never leave. One of several
// segments is cut in front of the queue, if each segment fits, and the segments
// are limited and charged one by one; another is dropped.
//
// Deviation: there is no peak rate, no minimum packet unit and no link layer
// overhead, and the queue within is always bfifo.
type tbf struct {
	common
	split  splitter
	q      fifo
	cut    skb.List // segments of the packet in hand
	rate   rate
	burst  int64         // longest packet, bytes
	depth  time.Duration // of the bucket
	tokens time.Duration // when last counted
	since  vtime.Time    // when they were last counted
	limit  int64         // bytes
}

func newTBF(c common, s *Spec, split splitter) *tbf {
	q := &tbf{common: c, split: split, burst: s.Burst, limit: s.Limit}
	q.rate = newRate(uint64(s.RateBps) / 8)
	q.depth = q.rate.time(s.Burst)
	q.tokens = q.depth
	return q
}

func (q *tbf) Enqueue(_ vtime.Time, p *skb.SKB) Fate {
	q.counts.In++
	if PktLen(p) <= q.burst {
		return q.add(p)
	}
	if p.Segs > 1 && int64(p.HdrLen+p.GSOSize) <= q.burst {
		return q.addSegments(p)
	}
	return q.refuse(p)
}

// add puts a packet into the queue of bytes.
func (q *tbf) add(p *skb.SKB) Fate {
	n := PktLen(p)
	if q.backlog+n > q.limit {
		return q.refuse(p)
	}
	q.q.push(item{p: p, len: n})
	q.enqueued(n)
	return Queued
}

// addSegments cuts a packet. It is dropped only if no segment finds room.
func (q *tbf) addSegments(p *skb.SKB) Fate {
	q.counts.Segmented++
	q.counts.Segments += uint64(p.Segs)
	q.split.segment(p, &q.cut)
	fate := Refused
	for q.cut.Len() > 0 {
		if q.add(q.cut.Pop()) == Queued {
			fate = Queued
		}
	}
	return fate
}

func (q *tbf) Dequeue(now vtime.Time) (*skb.SKB, bool) {
	q.expire(now)
	if q.q.empty() {
		return nil, false
	}
	have := min(q.tokens+min(now.Sub(q.since), q.depth), q.depth)
	left := have - q.rate.time(q.q.front().len)
	if left < 0 {
		q.arm(now.Add(-left), 0)
		q.counts.Overlimit++
		return nil, false
	}
	q.tokens, q.since = left, now
	it := q.q.pop()
	q.dequeued(it.len)
	return it.p, true
}
