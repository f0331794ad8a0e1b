package qdisc

import "github.com/vnetbench/vnetbench/guest/skb"

// bands of pfifo_fast; a lower one is always served first.
const bands = 3

// band returns the band of a packet: its TOS decides through the priority that
// a route lookup derives from it (ip_tos2prio and prio2band, v6.1). Only the
// bits for low delay and for throughput matter; everything but IPv4 is best
// effort.
func band(p *skb.SKB) int {
	h := p.Hdr[:p.HdrLen]
	if len(h) < 16 || h[12] != 0x08 || h[13] != 0x00 {
		return 1
	}
	switch h[15] & 0x18 {
	case 0x10:
		return 0
	case 0x08:
		return 2
	}
	return 1
}

// list is a queue of packets linked by their Next.
type list struct {
	head, tail *skb.SKB
	n          int
}

func (l *list) push(p *skb.SKB) {
	p.Next = nil
	if l.tail == nil {
		l.head = p
	} else {
		l.tail.Next = p
	}
	l.tail = p
	l.n++
}

// pop takes the first packet of a list that has one.
func (l *list) pop() *skb.SKB {
	p := l.head
	l.head, p.Next = p.Next, nil
	if l.head == nil {
		l.tail = nil
	}
	l.n--
	return p
}

// unpop puts a packet back in front.
func (l *list) unpop(p *skb.SKB) {
	p.Next = l.head
	l.head = p
	if l.tail == nil {
		l.tail = p
	}
	l.n++
}
