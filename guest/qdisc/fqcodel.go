package qdisc

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// fqCodel is a fair queue with CoDel in each flow (net/sched/sch_fq_codel.c, v6.1
// and v6.12, which agree). Packets are dealt into 1024 queues by their hash.
// Queues that have packets take turns of a quantum, new ones before old ones, as
// in fq. CoDel looks at each packet that is taken out, and may drop it and those
// behind it, or mark them if they can be marked. Whether hardly anything waits is
// judged by the bytes of all queues.
//
// If there are more packets than the limit, or they take more memory, the queue
// with the most bytes loses half of them from its head, 64 packets at most. The
// packet that came last is not spared; its sender is told of congestion only if
// it was its own queue.
type fqCodel struct {
	common
	nodes nodes
	flows []codelFlow
	bytes []int64 // in each flow
	fresh codelList
	old   codelList

	quantum, mtu     int64
	limit, batch     int
	memory, maxMem   int64
	target, interval codelTime
	mark             codelTime // a packet that waited for longer gets a mark
	ecn              bool
}

// codelFlow is one queue of fq_codel.
type codelFlow struct {
	codel
	q       chain
	link    *codelFlow // next flow of the same list
	listed  bool
	deficit int64
	index   int
}

// codelList is a list of flows that take turns.
type codelList struct{ first, last *codelFlow }

func (l *codelList) push(f *codelFlow) {
	if l.first == nil {
		l.first = f
	} else {
		l.last.link = f
	}
	l.last, f.link = f, nil
}

// pop takes the first flow out of a list that has one.
func (l *codelList) pop() { l.first = l.first.link }

func newFQCodel(c common, s *Spec) *fqCodel {
	k := &s.Codel
	q := &fqCodel{
		common: c, flows: make([]codelFlow, k.Flows), bytes: make([]int64, k.Flows),
		quantum: k.Quantum, mtu: frameLen(s.MTU),
		limit: int(s.Limit), batch: k.DropBatch, maxMem: k.MemoryLimit,
		target: codelSpan(k.Target), interval: codelSpan(k.Interval),
		mark: codelOff, ecn: !k.NoECN,
	}
	if k.CEThreshold > 0 {
		q.mark = codelSpan(k.CEThreshold)
	}
	for i := range q.flows {
		q.flows[i].index = i
	}
	return q
}

// codelOff is a wait that none is longer than (CODEL_DISABLED_THRESHOLD, v6.1).
const codelOff codelTime = 1<<31 - 1

func (q *fqCodel) Bypass() bool { return true }

func (q *fqCodel) Enqueue(now vtime.Time, p *skb.SKB) Fate {
	q.counts.In++
	f := &q.flows[uint64(p.Hash)*uint64(len(q.flows))>>32]
	n := q.nodes.get(p)
	n.at = now
	f.q.push(n)
	q.bytes[f.index] += n.len
	q.enqueued(n.len)
	q.memory += int64(p.TrueSize)
	if !f.listed {
		f.listed, f.deficit = true, q.quantum
		q.fresh.push(f)
	}
	if q.length() <= q.limit && q.memory <= q.maxMem {
		return Queued
	}
	if q.shed() == f {
		return Congested
	}
	return Queued
}

// shed drops from the head of the longest queue, which it returns.
func (q *fqCodel) shed() *codelFlow {
	fat := 0
	for i, n := range q.bytes {
		if n > q.bytes[fat] {
			fat = i
		}
	}
	f, half := &q.flows[fat], q.bytes[fat]/2
	dropped := int64(0)
	for i := 0; f.q.head != nil && i < q.batch && (i == 0 || dropped < half); i++ {
		dropped += f.q.head.len
		q.cull(q.take(f))
		f.count++
	}
	return f
}

// take removes the first packet of a flow that has one.
func (q *fqCodel) take(f *codelFlow) *node {
	n := f.q.pop()
	q.bytes[f.index] -= n.len
	q.memory -= int64(n.p.TrueSize)
	q.n--
	q.backlog -= n.len
	return n
}

// cull drops a packet that was taken out.
func (q *fqCodel) cull(n *node) {
	q.counts.Culled++
	q.nodes.put(n).Free()
}

func (q *fqCodel) Dequeue(now vtime.Time) (*skb.SKB, bool) {
	for {
		l := &q.fresh
		if l.first == nil {
			l = &q.old
		}
		f := l.first
		if f == nil {
			return nil, false
		}
		if f.deficit <= 0 {
			f.deficit += q.quantum
			l.pop()
			q.old.push(f)
			continue
		}
		if n := q.pick(codelClock(now), f); n != nil {
			f.deficit -= n.len
			q.counts.Sent++
			return q.nodes.put(n), true
		}
		l.pop()
		if l == &q.fresh && q.old.first != nil {
			q.old.push(f)
		} else {
			f.listed = false
		}
	}
}

// pick takes the packet out of a flow that CoDel lets through, if there is one.
func (q *fqCodel) pick(now codelTime, f *codelFlow) *node {
	n, drop := q.look(now, f)
	switch {
	case n == nil:
		f.dropping = false
		return nil
	case f.dropping && !drop:
		f.dropping = false
	case f.dropping:
		n = q.goOn(now, f, n)
	case drop:
		if !q.marked(n) {
			q.cull(n)
			n, _ = q.look(now, f)
		}
		f.begin(now, q.interval)
	}
	if n != nil && f.waited.after(q.mark) && setCE(n.p) {
		q.counts.Marked++
	}
	return n
}

// goOn makes the drops that are due in the dropping state, n first, and returns
// the packet that is left.
func (q *fqCodel) goOn(now codelTime, f *codelFlow, n *node) *node {
	for f.dropping && now.notBefore(f.next) {
		f.count++
		f.improve()
		if q.marked(n) {
			f.schedule(f.next, q.interval)
			return n
		}
		q.cull(n)
		var drop bool
		if n, drop = q.look(now, f); !drop {
			f.dropping = false
		} else {
			f.schedule(f.next, q.interval)
		}
	}
	return n
}

// marked marks a packet that would be dropped, if that can be.
func (q *fqCodel) marked(n *node) bool {
	if !q.ecn || !setCE(n.p) {
		return false
	}
	q.counts.Marked++
	return true
}

// look takes the next packet out of a flow, if there is one, and says whether it
// waited for too long.
func (q *fqCodel) look(now codelTime, f *codelFlow) (n *node, drop bool) {
	if f.q.head == nil {
		f.above = 0
		return nil, false
	}
	n = q.take(f)
	waited := now - codelClock(n.at)
	return n, f.tooLong(now, waited, q.target, q.interval, q.backlog <= q.mtu)
}
