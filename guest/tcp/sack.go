package tcp

// sackTag marks what an ACK's selective acknowledgements cover
// (tcp_sacktag_write_queue). Blocks that the last ACK had already are skipped;
// the search for the others starts where the last one ended.
func (s *Sock) sackTag(sacks []Range, st *ackState) {
	n := min(len(sacks), len(s.lastSacks))
	for i := range n {
		b := sacks[i]
		if i == 0 && s.isDSACK(sacks) {
			st.flag |= flagDSACK
			continue
		}
		if !after(b.End, b.Start) || after(b.End, s.sndNxt) || before(b.Start, s.sndUna) || s.seenSack(b) {
			continue
		}
		s.sackBlock(b, st)
	}
	s.lastSacks = [4]Range{}
	copy(s.lastSacks[:], sacks[:n])
}

// isDSACK reports whether the first block tells of data that arrived twice
// (RFC 2883).
func (s *Sock) isDSACK(sacks []Range) bool {
	if before(sacks[0].Start, s.sndUna) {
		return true
	}
	return len(sacks) > 1 && !after(sacks[0].End, sacks[1].End) && !before(sacks[0].Start, sacks[1].Start)
}

func (s *Sock) seenSack(b Range) bool {
	for i := range s.lastSacks {
		if s.lastSacks[i] == b {
			return true
		}
	}
	return false
}

// sackBlock marks the segments that one block covers.
func (s *Sock) sackBlock(b Range, st *ackState) {
	for g := s.findRtx(b.Start); g != nil && before(g.seq, b.End); g = g.next {
		s.sackHint = g
		if g = s.sackPart(g, b); g == nil {
			return
		}
		if !before(g.seq, b.Start) && !after(g.end, b.End) {
			s.sackOne(g, st)
		}
	}
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

// sackOne marks one entry (tcp_sacktag_one).
func (s *Sock) sackOne(g *seg, st *ackState) {
	if g.mark&markSacked != 0 {
		return
	}
	if g.mark&markRetrans != 0 {
		if g.mark&markLost != 0 {
			g.mark &^= markLost | markRetrans
			s.lostOut -= g.pcount
			s.retransOut -= g.pcount
		}
	} else {
		if g.mark&markEver == 0 {
			st.lastSackt = micro(g.sent)
			if st.firstSackt < 0 {
				st.firstSackt = st.lastSackt
			}
		}
		if g.mark&markLost != 0 {
			g.mark &^= markLost
			s.lostOut -= g.pcount
		}
	}
	g.mark |= markSacked
	st.flag |= flagDataSacked
	s.sackedOut += g.pcount
	s.dlv.total += uint64(g.pcount)
	s.rateDelivered(g)
	if s.lostHint != nil && before(g.seq, s.lostHint.seq) {
		s.lostCnt += g.pcount
	}
}

// addRenoSack counts a duplicate ACK of a peer without SACK as one segment that
// arrived (tcp_add_reno_sack).
func (s *Sock) addRenoSack() {
	s.sackedOut = min(s.sackedOut+1, s.packetsOut-min(s.packetsOut, s.lostOut))
	s.dlv.total++
}

// removeRenoSacks takes segments that are now acknowledged off that count; one
// of them filled the hole (tcp_remove_reno_sacks).
func (s *Sock) removeRenoSacks(acked uint32) {
	if acked > 0 {
		s.dlv.total += uint64(max(acked-min(acked, s.sackedOut), 1))
		s.sackedOut -= min(s.sackedOut, acked-1)
	}
	s.sackedOut = min(s.sackedOut, s.packetsOut-min(s.packetsOut, s.lostOut))
}
