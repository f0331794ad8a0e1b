package tcp

import "github.com/vnetbench/vnetbench/guest/tcp/cc"

// sackTag marks what an ACK's selective acknowledgements cover, lowest first
// (tcp_sacktag_write_queue). Of a block that the last ACK had in part, only
// the rest is looked at.
func (s *Sock) sackTag(sacks []Range, st *ackState) {
	if s.sackedOut == 0 {
		s.sackedTo = s.sndUna
	}
	st.reord = s.sndNxt
	dup := s.checkDSACK(sacks, st)
	var blocks [4]Range
	n, first := 0, Range{}
	for i := range min(len(sacks), len(blocks)) {
		b := sacks[i]
		if !s.validSack(b, dup && i == 0) || !after(b.End, st.priorUna) {
			continue
		}
		if i == 0 && dup {
			first = b
		}
		at := n
		for ; at > 0 && after(blocks[at-1].Start, b.Start); at-- {
			blocks[at] = blocks[at-1]
		}
		blocks[at] = b
		n++
	}
	for _, b := range blocks[:n] {
		s.sackBlock(b, first != (Range{}) && b == first, st)
	}
	s.lastSacks = blocks
	if s.ca != cc.Loss || s.undoSet {
		s.noteReordering(st.reord)
	}
}

// validSack reports whether a block is inside what is outstanding; one that
// reports a duplicate may begin before that (tcp_is_sackblock_valid).
func (s *Sock) validSack(b Range, dup bool) bool {
	if !after(b.End, b.Start) || after(b.End, s.sndNxt) {
		return false
	}
	return dup || !before(b.Start, s.sndUna)
}

// checkDSACK reports whether the first block tells of data that arrived twice,
// and can be believed (RFC 2883; tcp_check_dsack, tcp_dsack_seen).
func (s *Sock) checkDSACK(sacks []Range, st *ackState) bool {
	b := sacks[0]
	inside := len(sacks) > 1 && !after(b.End, sacks[1].End) && !before(b.Start, sacks[1].Start)
	if !before(b.Start, s.sndUna) && !inside {
		return false
	}
	if !before(b.Start, b.End) || b.End-b.Start > s.maxWindow {
		return false
	}
	dups := max(1, ceilDiv(b.End-b.Start, s.mss))
	probe := dups == 1 && s.tlpActive && s.tlpHigh == b.End
	if probe {
		st.flag |= flagDSACKTLP
	}
	if s.dsackDups += uint64(dups); s.dsackDups > s.cnt.RetransSegs {
		return false // the receiver says more than was sent again
	}
	if s.reordSeen > 0 && !probe {
		s.rack.dsack = true
	}
	st.flag |= flagDSACK
	s.delivered(dups, st)
	if s.undoRetrans > 0 && s.undoSet && !after(b.End, st.priorUna) && after(b.End, s.undoMarker) {
		s.undoRetrans = max(0, s.undoRetrans-int32(dups))
	}
	return true
}

// sackBlock marks the segments that one block covers.
func (s *Sock) sackBlock(b Range, dup bool, st *ackState) {
	from := b.Start
	if !dup && s.sackedOut > 0 {
		from = s.skipSeen(b)
	}
	for g := s.findRtx(from); g != nil && before(g.seq, b.End); g = g.next {
		s.sackHint = g
		if g = s.sackPart(g, b); g == nil {
			return
		}
		if !before(g.seq, b.Start) && !after(g.end, b.End) {
			s.sackOne(g, dup, st)
		}
	}
}

// skipSeen is where the part of a block begins that the last ACK did not have.
func (s *Sock) skipSeen(b Range) uint32 {
	from := b.Start
	for i := range s.lastSacks {
		if c := s.lastSacks[i]; !after(c.Start, from) && after(c.End, from) {
			from = c.End
		}
	}
	return from
}

// findRtx returns the entry of the retransmit queue that holds a sequence
// number, or the first one after it.
func (s *Sock) findRtx(seq uint32) *seg {
	g := s.sackHint
	if g == nil {
		g = s.rtx.head
	}
	for g != nil && after(g.seq, seq) && g.prev != nil {
		g = g.prev
	}
	for g != nil && !after(g.end, seq) {
		g = g.next
	}
	return g
}

// sackPart cuts an entry of several segments that a block covers in part, at a
// segment border inside the block, and returns the entry to look at
// (tcp_match_skb_to_sack). Nil means that the block ends here.
func (s *Sock) sackPart(g *seg, b Range) *seg {
	if g.pcount <= 1 || g.mark&markSacked != 0 {
		return g
	}
	mss := g.pmss
	if before(g.seq, b.Start) {
		n := (b.Start - g.seq + mss - 1) / mss * mss
		if n >= g.len {
			return g
		}
		s.splitRtx(g, n)
		g = g.next
		s.sackHint = g
	}
	if after(g.end, b.End) && g.pcount > 1 && after(b.End, g.seq) {
		n := (b.End - g.seq) / mss * mss
		if n == 0 {
			return nil
		}
		if n < g.len {
			s.splitRtx(g, n)
		}
	}
	return g
}

// splitRtx cuts an entry of the retransmit queue. The number of segments does
// not change as long as n is a multiple of the segment size; if it does, the
// counts follow (tcp_fragment).
func (s *Sock) splitRtx(g *seg, n uint32) *seg {
	mss, was := g.pmss, g.pcount
	if mss == 0 {
		mss = s.mss
	}
	rest := s.split(&s.rtx, g, n, mss)
	if now := g.pcount + rest.pcount; now != was {
		s.adjustPcount(rest, was-now)
	}
	return rest
}

// adjustPcount takes segments off the counts of an entry (tcp_adjust_pcount);
// less may be negative in two's complement.
func (s *Sock) adjustPcount(g *seg, less uint32) {
	s.packetsOut -= less
	if g.mark&markSacked != 0 {
		s.sackedOut -= less
	}
	if g.mark&markRetrans != 0 {
		s.retransOut -= less
	}
	if g.mark&markLost != 0 {
		s.lostOut -= less
	}
}

// sackOne marks one entry (tcp_sacktag_one). dup says that the block reports a
// duplicate.
func (s *Sock) sackOne(g *seg, dup bool, st *ackState) {
	if dup && g.mark&(markRetrans|markEver) != 0 {
		s.dupRetrans(g, st)
	}
	if g.mark&markSacked == 0 {
		s.sackNew(g, st)
	}
	if dup && g.mark&markRetrans != 0 {
		g.mark &^= markRetrans
		s.retransOut -= g.pcount
	}
	s.rateDelivered(g, micro(g.sent))
	s.unlistSent(g)
	if after(g.end, s.sackedTo) {
		s.sackedTo = g.end
	}
}

// dupRetrans takes a report that the retransmission of an entry was needless.
func (s *Sock) dupRetrans(g *seg, st *ackState) {
	if s.undoSet && s.undoRetrans > 0 && after(g.end, s.undoMarker) {
		s.undoRetrans = max(0, s.undoRetrans-int32(g.pcount))
	}
	if g.mark&markSacked != 0 && before(g.seq, st.reord) {
		st.reord = g.seq
	}
}

// sackNew marks an entry that was not SACKed before.
func (s *Sock) sackNew(g *seg, st *ackState) {
	s.rackAdvance(g, micro(g.sent))
	switch {
	case g.mark&markRetrans != 0:
		if g.mark&markLost != 0 {
			g.mark &^= markLost | markRetrans
			s.lostOut -= g.pcount
			s.retransOut -= g.pcount
		}
	default:
		if g.mark&markEver == 0 {
			s.sackOriginal(g, st)
		}
		if g.mark&markLost != 0 {
			g.mark &^= markLost
			s.lostOut -= g.pcount
		}
	}
	g.mark |= markSacked
	st.flag |= flagDataSacked
	s.sackedOut += g.pcount
	s.delivered(g.pcount, st)
	if s.lostHint != nil && before(g.seq, s.lostHint.seq) {
		s.lostCnt += g.pcount
	}
}

// sackOriginal takes an entry that was sent once: it gives a round trip, and if
// it fills a hole then packets overtook it.
func (s *Sock) sackOriginal(g *seg, st *ackState) {
	if before(g.seq, s.fack()) && before(g.seq, st.reord) {
		st.reord = g.seq
	}
	if !after(g.end, s.highSeq) {
		st.flag |= flagOrigSacked
	}
	st.lastSackt = micro(g.sent)
	if st.firstSackt < 0 {
		st.firstSackt = st.lastSackt
	}
}

// addRenoSack counts a duplicate ACK of a peer without SACK as one segment that
// arrived (tcp_add_reno_sack).
func (s *Sock) addRenoSack() {
	was := s.sackedOut
	s.sackedOut++
	s.noteRenoReordering(0)
	if s.sackedOut > was {
		s.delivered(s.sackedOut-was, &s.work.st)
	}
}

// removeRenoSacks takes segments that are now acknowledged off that count; one
// of them filled the hole (tcp_remove_reno_sacks).
func (s *Sock) removeRenoSacks(acked uint32) {
	if acked > 0 {
		s.delivered(max(acked-min(acked, s.sackedOut), 1), &s.work.st)
		s.sackedOut -= min(s.sackedOut, acked-1)
	}
	s.noteRenoReordering(acked)
}
