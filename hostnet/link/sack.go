package link

import "github.com/vnetbench/vnetbench/virtio/vtime"

// Blocks of selective acknowledgement that a receiver remembers (TCP_NUM_SACKS), and
// how many make it stop putting acknowledgements off (TCP_SACK_BLOCKS_EXPECTED, all
// releases since v4.18).
const (
	keptSACKs     = 4
	expectedSACKs = 2
)

// sackList is what a receiver says of its runs out of order, the one that changed
// last first (tcp_sock.selective_acks).
type sackList struct {
	blocks [keptSACKs]Range
	n      int
}

// touches reports whether no number lies between two runs.
func (b Range) touches(d Range) bool { return !before(b.End, d.Start) && !before(d.End, b.Start) }

// extend makes a block one with a run that touches it (tcp_sack_extend).
func (b *Range) extend(d Range) bool {
	if !b.touches(d) {
		return false
	}
	if before(d.Start, b.Start) {
		b.Start = d.Start
	}
	if before(b.End, d.End) {
		b.End = d.End
	}
	return true
}

// find is the block that a run touches, or how many there are.
func (l *sackList) find(d Range) int {
	i := 0
	for i < l.n && !l.blocks[i].touches(d) {
		i++
	}
	return i
}

// put notes a run that came at block i, which is the result of find
// (tcp_sack_new_ofo_skb and tcp_sack_maybe_coalesce, v6.1).
func (l *sackList) put(i int, d Range) {
	if i < l.n {
		d.extend(l.blocks[i])
	} else if l.n < keptSACKs {
		l.n++
	} else {
		i--
	}
	copy(l.blocks[1:i+1], l.blocks[:i])
	l.blocks[0] = d
	for k := 1; k < l.n; {
		if !l.blocks[0].extend(l.blocks[k]) {
			k++
			continue
		}
		l.drop(k)
	}
}

func (l *sackList) drop(i int) {
	copy(l.blocks[i:l.n-1], l.blocks[i+1:l.n])
	l.n--
}

// remove drops the blocks up to next (tcp_sack_remove, v6.1).
func (l *sackList) remove(next uint32) {
	for i := 0; i < l.n; {
		if before(next, l.blocks[i].Start) {
			i++
			continue
		}
		l.drop(i)
	}
}

// remember notes a run that came ahead of a gap. If there are many already, what was
// put off goes first, as things were before.
func (r *Receiver) remember(now vtime.Time, d Range) {
	i := r.blocks.find(d)
	if i >= expectedSACKs && r.putBack > 0 {
		r.sendAck(now)
	}
	r.blocks.put(i, d)
}
