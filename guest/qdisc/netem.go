package qdisc

import (
	"time"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// netem delays packets and carries them at a rate (net/sched/sch_netem.c, v6.1
// and v6.12, which agree). A packet is due a delay after it came. With a rate, it
// is due after that and after the packet before it, if that one still waits, by
// the time that PktLen takes at the rate: the headers of every segment are paid
// for. The packet before is forgotten once it has left, so the rate is that of
// the queue, not of the line.
//
// The limit is in packets, and a packet of many segments is one. A packet that
// finds the queue full is dropped and its sender told; a listed drop comes
// before that test and is not told. Whoever was charged for a packet is relieved
// when it is queued, not when it leaves, so that a sender's own limits do not see
// the queue (skb_orphan_partial).
//
// Deviation: there is no jitter, reordering, duplication, corruption, slots and
// no random loss, so packets never overtake each other and none is cut; losses
// are listed by number instead.
type netem struct {
	common
	q     fifo
	delay time.Duration
	rate  uint64 // bytes per second, 0 if there is none
	limit int
	drops []uint64 // numbers of packets to lose, ascending; those behind are gone
}

func newNetem(c common, s *Spec) *netem {
	return &netem{
		common: c, delay: s.Delay, rate: uint64(s.RateBps) / 8, limit: int(s.Limit),
		drops: s.Drop,
	}
}

func (q *netem) Enqueue(now vtime.Time, p *skb.SKB) Fate {
	q.counts.In++
	if q.listed() {
		q.counts.Lost++
		p.Free()
		return Lost
	}
	if q.delay != 0 || q.rate != 0 {
		p.Orphan()
	}
	if q.length() >= q.limit {
		return q.refuse(p)
	}
	it := item{p: p, len: PktLen(p)}
	it.at = q.due(now, it.len)
	q.q.push(it)
	q.enqueued(it.len)
	return Queued
}

// listed reports whether the packet that came last is to be lost.
func (q *netem) listed() bool {
	if len(q.drops) == 0 || q.drops[0] != q.counts.In {
		return false
	}
	q.drops = q.drops[1:]
	return true
}

// due returns when a packet of so many bytes that comes now may leave.
func (q *netem) due(now vtime.Time, bytes int64) vtime.Time {
	due := now.Add(q.delay)
	if q.rate == 0 {
		return due
	}
	if !q.q.empty() {
		due = max(due, q.q.back().at)
	}
	return due.Add(time.Duration(uint64(bytes) * uint64(time.Second) / q.rate))
}

func (q *netem) Dequeue(now vtime.Time) (*skb.SKB, bool) {
	q.expire(now)
	if q.q.empty() {
		return nil, false
	}
	if at := q.q.front().at; at > now {
		q.arm(at, 0)
		return nil, false
	}
	it := q.q.pop()
	q.dequeued(it.len)
	return it.p, true
}
