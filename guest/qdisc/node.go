package qdisc

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// node is what a discipline with many queues keeps of a packet that waits.
type node struct {
	p    *skb.SKB
	next *node
	at   vtime.Time // fq: when it may leave; fq_codel: when it came
	len  int64      // PktLen
	band uint8      // fq: band that it was counted in
}

// nodes recycles nodes, so that the steady state needs no allocation.
type nodes struct{ free *node }

func (f *nodes) get(p *skb.SKB) *node {
	n := f.free
	if n == nil {
		n = new(node)
	} else {
		f.free = n.next
	}
	n.p, n.next, n.len = p, nil, PktLen(p)
	return n
}

// put takes back a node that is in no queue and returns its packet.
func (f *nodes) put(n *node) *skb.SKB {
	p := n.p
	n.p, n.next = nil, f.free
	f.free = n
	return p
}

// chain is a queue of nodes.
type chain struct{ head, tail *node }

func (c *chain) push(n *node) {
	if c.head == nil {
		c.head = n
	} else {
		c.tail.next = n
	}
	c.tail = n
}

// pop takes the first node of a queue that has one.
func (c *chain) pop() *node {
	n := c.head
	c.head, n.next = n.next, nil
	return n
}

// insert puts a node behind those whose time is not later than its own.
func (c *chain) insert(n *node) {
	if c.head == nil || n.at >= c.tail.at {
		c.push(n)
		return
	}
	at := &c.head
	for n.at >= (*at).at {
		at = &(*at).next
	}
	n.next, *at = *at, n
}

// item is what a discipline with one queue keeps of a packet that waits.
type item struct {
	p   *skb.SKB
	at  vtime.Time // netem: when it may leave
	len int64      // PktLen
}

// fifo is a queue of items in a ring that grows when it is full.
type fifo struct {
	buf        []item // a power of two, or empty
	head, tail uint   // of the next to take, of the next to fill
}

func (f *fifo) empty() bool  { return f.head == f.tail }
func (f *fifo) front() *item { return &f.buf[f.head&uint(len(f.buf)-1)] }
func (f *fifo) back() *item  { return &f.buf[(f.tail-1)&uint(len(f.buf)-1)] }

func (f *fifo) push(it item) {
	if f.tail-f.head == uint(len(f.buf)) {
		f.grow()
	}
	f.buf[f.tail&uint(len(f.buf)-1)] = it
	f.tail++
}

// pop takes the first item of a queue that has one.
func (f *fifo) pop() item {
	it := *f.front()
	f.front().p = nil
	f.head++
	return it
}

func (f *fifo) grow() {
	old, n := f.buf, f.tail-f.head
	f.buf = make([]item, max(64, 2*len(old)))
	for i := range n {
		f.buf[i] = old[(f.head+i)&uint(len(old)-1)]
	}
	f.head, f.tail = 0, n
}
