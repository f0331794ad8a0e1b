package tcp

// retransmitQueue sends lost segments again as far as the window allows
// (tcp_xmit_retransmit_queue). It reads no clock.
func (s *Sock) retransmitQueue() {
	if s.packetsOut == 0 {
		return
	}
	g := s.rexmitHint
	if g == nil {
		g = s.rtx.head
	}
	maxSegs, _ := s.maxSegs(s.mss)
	rearm := false
	for ; g != nil; g = g.next {
		if s.pacingBlocks() {
			break
		}
		s.rexmitHint = g
		flight := s.inFlight()
		if flight >= s.win.Cwnd || s.retransOut >= s.lostOut {
			break
		}
		if g.mark&markLost == 0 || g.mark&(markSacked|markRetrans) != 0 {
			continue
		}
		if s.cfg.Switches.TSQPass >= PassTwo && s.tsqBlocks(g, 1) {
			break
		}
		if !s.retransmit(g, min(s.win.Cwnd-flight, maxSegs)) {
			break
		}
		if s.reducing() {
			s.prrOut += g.pcount
		}
		rearm = rearm || g == s.rtx.head
	}
	if rearm {
		s.setTimer(pendingRTO, s.rto)
	}
}

// retransmit sends up to segs segments of an entry again and reports whether
// they left (tcp_retransmit_skb). Beyond the peer's window only the first
// segment goes, as a probe.
func (s *Sock) retransmit(g *seg, segs uint32) bool {
	if before(g.seq, s.sndUna) {
		was := g.pcount
		s.trim(g, s.sndUna-g.seq)
		s.adjustPcount(g, was-g.pcount)
	}
	avail := int64(int32(s.wndEnd() - g.seq))
	if avail <= 0 {
		if g.seq != s.sndUna {
			return false
		}
		avail = int64(s.mss)
	}
	n := int64(s.mss) * int64(segs)
	if n > avail {
		if n = avail / int64(s.mss) * int64(s.mss); n == 0 {
			n = avail
		}
	}
	if int64(g.len) > n {
		s.splitRtx(g, uint32(n))
	}
	s.cnt.RetransPkts++
	s.cnt.RetransSegs += uint64(g.pcount)
	s.cnt.RetransBytes += uint64(g.len)
	ok := s.transmit(g, RuleRetrans, true)
	g.mark |= markEver
	if ok {
		if g.mark&markRetrans == 0 {
			g.mark |= markRetrans
			s.retransOut += g.pcount
		}
	}
	return ok
}
