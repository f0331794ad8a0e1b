package skb

// List is a FIFO of packets, linked by their Next: a packet is on one list at a
// time. The zero value is empty. It is not safe for concurrent use.
type List struct {
	head, tail *SKB
	n          int
}

// Len is the number of packets.
func (l *List) Len() int { return l.n }

// Push appends a packet.
func (l *List) Push(p *SKB) {
	p.Next = nil
	if l.tail == nil {
		l.head = p
	} else {
		l.tail.Next = p
	}
	l.tail = p
	l.n++
}

// Pop takes the first packet of a list that has one.
func (l *List) Pop() *SKB {
	p := l.head
	l.head, p.Next = p.Next, nil
	if l.head == nil {
		l.tail = nil
	}
	l.n--
	return p
}

// Unpop puts a packet back in front.
func (l *List) Unpop(p *SKB) {
	p.Next = l.head
	l.head = p
	if l.tail == nil {
		l.tail = p
	}
	l.n++
}
