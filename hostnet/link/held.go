package link

import "slices"

// heldPacket is one that came ahead of a gap, and the memory that it takes.
type heldPacket struct {
	Range
	frags, head int32 // HeadSize of the first segment
	truesize    uint32
}

// hold charges a packet that comes ahead of a gap, and reports whether it became part
// of the one before it (tcp_data_queue_ofo, v6.1). One that was there already is
// dropped.
//
// Deviation: of a packet that covers another both are kept.
func (r *Receiver) hold(s *Segment) (merged bool) {
	if !r.cfg.Process || s.Len == 0 {
		return false
	}
	d := Range{s.Seq, s.Seq + uint32(s.Len)}
	i := len(r.held)
	for i > 0 && before(d.Start, r.held[i-1].Start) {
		i--
	}
	frags, truesize := max(s.Frags, 1), uint32(max(s.TrueSize, s.Len))
	if i > 0 {
		p := &r.held[i-1]
		if !before(p.End, d.End) {
			return false
		}
		if p.End == d.Start && p.frags+frags <= maxFrags {
			more := s.merged(s.Len)
			p.End, p.frags, p.truesize = d.End, p.frags+frags, p.truesize+more
			r.buf.used += more
			return true
		}
	}
	r.held = slices.Insert(r.held, i, heldPacket{d, frags, s.HeadSize, truesize})
	r.buf.used += truesize
	return false
}

// release moves packets that no gap is before any more to where the process finds
// them, behind what is there up to from (tcp_ofo_queue, v6.1).
func (r *Receiver) release(from uint32) {
	k := 0
	for k < len(r.held) && !before(r.next, r.held[k].End) {
		p := &r.held[k]
		r.buf.used -= p.truesize
		if before(from, p.End) {
			n := int32(p.End - from)
			r.enqueue(&Segment{Len: n, TrueSize: int32(p.truesize), HeadSize: p.head, Frags: p.frags}, n)
			from = p.End
		}
		k++
	}
	r.held = r.held[:copy(r.held, r.held[k:])]
}
