package tcp

// retransmitQueue sends lost segments again as far as the window allows
// (tcp_xmit_retransmit_queue). It reads no clock.
//
// Deviation: a packet is sent again even if its first copy is still below TCP,
// and short neighbours are not merged into it. The kernel waits for the one and
// merges the others where nobody else holds them.
func (s *Sock) retransmitQueue() {
	if s.packetsOut == 0 {
		return
	}
	g := s.rexmitHint
	if g == nil {
		g = s.rtx.head
	}
	maxSegs, _ := s.maxSegs(s.mss)
	rearm, hole := false, false
	for ; g != nil; g = g.next {
		if s.pacingBlocks() {
			break
		}
		if !hole {
			s.rexmitHint = g
		}
		flight := s.inFlight()
		if flight >= s.win.Cwnd || s.retransOut >= s.lostOut {
			break
		}
		if g.mark&markLost == 0 {
			if !hole && g.mark&(markRetrans|markSacked) == 0 {
				hole, s.rexmitHint = true, g
			}
			continue
		}
		if g.mark&(markSacked|markRetrans) != 0 {
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
		rearm = rearm || (g == s.rtx.head && s.pending != pendingReorder)
	}
	if rearm {
		s.setXmitTimer(pendingRTO, s.rto)
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
	if s.retransStamp == 0 {
		s.retransStamp = max(1, uint32(micro(g.sent)/1000))
	}
	s.undoRetrans = max(s.undoRetrans, 0) + int32(g.pcount)
	return ok
}
