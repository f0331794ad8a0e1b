package qdisc

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// fqFlow is the queue of one flow of fq.
type fqFlow struct {
	key    uint64
	bucket *fqFlow // next flow of the same bucket

	inOrder chain // packets whose times ascend
	early   chain // packets that came with a time before that of the last one, sorted
	n       int

	credit   int64
	band     uint8
	detached bool       // in no list and not put aside
	age      int64      // tick at which it was detached
	next     vtime.Time // no packet before this
	order    uint64     // when it was put aside, among those with the same next
	link     *fqFlow    // next flow of the same list
}

func (f *fqFlow) add(n *node) {
	f.n++
	if f.inOrder.head == nil || n.at >= f.inOrder.tail.at {
		f.inOrder.push(n)
		return
	}
	f.early.insert(n)
}

// first returns the queue that the next packet is in; there may be none.
func (f *fqFlow) first() *chain {
	e, o := f.early.head, f.inOrder.head
	if e != nil && (o == nil || e.at < o.at) {
		return &f.early
	}
	return &f.inOrder
}

func (f *fqFlow) peek() *node { return f.first().head }

// pop takes the next packet of a flow that has one.
func (f *fqFlow) pop() *node {
	f.n--
	return f.first().pop()
}

// fqList is a list of flows that take turns.
type fqList struct{ first, last *fqFlow }

func (l *fqList) push(f *fqFlow) {
	if l.first == nil {
		l.first = f
	} else {
		l.last.link = f
	}
	l.last, f.link = f, nil
}

// pop takes the first flow out of a list that has one.
func (l *fqList) pop() { l.first = l.first.link }

// fqHeap is the flows put aside, by time and then by the order they came in.
type fqHeap struct {
	flows []*fqFlow
	count uint64
}

func (h *fqHeap) less(i, j int) bool {
	a, b := h.flows[i], h.flows[j]
	if a.next != b.next {
		return a.next < b.next
	}
	return a.order < b.order
}

func (h *fqHeap) push(f *fqFlow) {
	f.order = h.count
	h.count++
	h.flows = append(h.flows, f)
	for i := len(h.flows) - 1; i > 0 && h.less(i, (i-1)/2); i = (i - 1) / 2 {
		h.flows[i], h.flows[(i-1)/2] = h.flows[(i-1)/2], h.flows[i]
	}
}

// pop takes the first flow out of a heap that has one.
func (h *fqHeap) pop() {
	last := len(h.flows) - 1
	h.flows[0] = h.flows[last]
	h.flows[last] = nil
	h.flows = h.flows[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			return
		}
		if c+1 < last && h.less(c+1, c) {
			c++
		}
		if !h.less(c, i) {
			return
		}
		h.flows[i], h.flows[c] = h.flows[c], h.flows[i]
		i = c
	}
}

// fqTable finds flows by key.
type fqTable struct {
	buckets  []*fqFlow // a power of two
	free     *fqFlow   // forgotten flows, for new ones
	flows    int       // in the buckets
	inactive int       // of these, without a packet
	lifetime int64     // ticks after which a detached flow may be forgotten
}

// fqForgetMax is how many flows one look-up forgets at most (FQ_GC_MAX).
const fqForgetMax = 8

func newFQTable(buckets int, lifetime int64) fqTable {
	return fqTable{buckets: make([]*fqFlow, buckets), lifetime: lifetime}
}

// crowded reports whether v6.1 would begin to forget flows.
func (t *fqTable) crowded() bool {
	return t.flows >= 2*len(t.buckets) && t.inactive > t.flows/2
}

// find returns the flow with a key, or a new one, detached. With collect, it
// forgets flows on the way that have been detached for long at tick now.
func (t *fqTable) find(key uint64, now int64, collect bool) (f *fqFlow, found bool) {
	at := &t.buckets[key*0x9e3779b97f4a7c15>>32&uint64(len(t.buckets)-1)]
	for forgot := 0; *at != nil; {
		f = *at
		if f.key == key {
			return f, true
		}
		if collect && forgot < fqForgetMax && f.detached && now > f.age+t.lifetime {
			*at = f.bucket
			t.forget(f)
			forgot++
			continue
		}
		at = &f.bucket
	}
	f = t.make()
	f.key, f.detached, f.age = key, true, now|1
	*at = f
	t.flows++
	t.inactive++
	return f, false
}

func (t *fqTable) forget(f *fqFlow) {
	t.flows--
	t.inactive--
	f.bucket, t.free = t.free, f
}

func (t *fqTable) make() *fqFlow {
	f := t.free
	if f == nil {
		return new(fqFlow)
	}
	t.free = f.bucket
	*f = fqFlow{}
	return f
}

// ticks turns time into the kernel's coarse clock (jiffies).
type ticks struct{ period vtime.Time }

func newTicks(hz int) ticks { return ticks{vtime.Time(time.Second) / vtime.Time(hz)} }

func (t ticks) at(now vtime.Time) int64 { return int64(now / t.period) }

// of returns the ticks that cover d.
func (t ticks) of(d time.Duration) int64 {
	return int64((vtime.Time(d) + t.period - 1) / t.period)
}
