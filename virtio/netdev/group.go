package netdev

import "github.com/vnetbench/vnetbench/virtio/vtime"

// QuantumPackets and QuantumBytes are the most that one queue of a Group does
// before it is the next one's turn. The count of packets keeps a flood of small
// ones from holding the others up (Linux a2ac99905f1e, which bounded vhost-net
// so, saw a byte bound alone delay the other direction by 100 ms and more).
const (
	QuantumPackets = 64
	QuantumBytes   = 256 << 10
)

// Outcome is what a Group's Poll has to tell about one queue: a call to make,
// or that the guest broke it.
type Outcome struct {
	Pair *Pair
	Dir  Dir
	Call Call
	Err  error
}

// Group is the pairs that one worker serves, in turn. It is not safe for
// concurrent use.
type Group struct {
	pairs []*Pair
	turn  int // index of the queue whose turn it is; TX of pair i is 2*i+1
	out   []Outcome
}

// NewGroup makes a group of pairs.
func NewGroup(pairs ...*Pair) *Group {
	return &Group{pairs: pairs, out: make([]Outcome, 0, 2*len(pairs))}
}

// Pairs returns the pairs of the group. The slice is the group's own: it is
// read only.
func (g *Group) Pairs() []*Pair { return g.pairs }

// Poll goes once over the queues, each getting at most a quantum and what is
// left of the budget. The next Poll continues after the last queue that had a
// turn. The outcomes are those of queues that need a call or that broke; the
// slice is valid until the next Poll.
func (g *Group) Poll(now vtime.Time, b Budget) (Work, []Outcome) {
	var w Work
	g.out = g.out[:0]
	for range 2 * len(g.pairs) {
		turn, ok := b.rest(&w)
		if !ok {
			break
		}
		p, dir := g.pairs[g.turn/2], Dir(g.turn%2)
		if g.turn++; g.turn == 2*len(g.pairs) {
			g.turn = 0
		}
		one, call, err := p.poll(now, dir, turn)
		w.Add(one)
		if call.Needed || err != nil {
			g.out = append(g.out, Outcome{Pair: p, Dir: dir, Call: call, Err: err})
		}
	}
	return w, g.out
}

// poll polls the queue of one direction.
func (p *Pair) poll(now vtime.Time, dir Dir, b Budget) (Work, Call, error) {
	if dir == DirRX {
		return p.RX.Poll(now, b)
	}
	return p.TX.Poll(now, b)
}

// rest returns what of the budget is left after w, at most a quantum.
func (b Budget) rest(w *Work) (Budget, bool) {
	if !b.takes() {
		return b, true
	}
	r := Budget{Packets: QuantumPackets, Bytes: QuantumBytes}
	if b.Packets > 0 {
		r.Packets = min(r.Packets, b.Packets-w.Packets-w.Dropped)
	}
	if b.Bytes > 0 {
		r.Bytes = min(r.Bytes, b.Bytes-w.Bytes)
	}
	return r, r.Packets > 0 && r.Bytes > 0
}

// Next returns the earliest of the times at which a queue wants to be polled.
func (g *Group) Next(now vtime.Time) vtime.Time {
	next := vtime.Never
	for _, p := range g.pairs {
		next = min(next, p.TX.Next(now), p.RX.Next(now))
	}
	return next
}

// Rearm re-enables the kicks of every queue, and reports whether one of them
// has something to do after all.
func (g *Group) Rearm() (more bool) {
	for _, p := range g.pairs {
		if p.TX.Rearm() {
			more = true
		}
		if p.RX.Rearm() {
			more = true
		}
	}
	return more
}
