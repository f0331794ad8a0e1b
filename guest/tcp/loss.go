package tcp

import "github.com/vnetbench/vnetbench/guest/tcp/cc"

// markLost marks an entry as lost. One whose retransmission was in the network
// was lost again (tcp_mark_skb_lost).
func (s *Sock) markLost(g *seg) {
	if g.mark&markSacked != 0 {
		return
	}
	if h := s.rexmitHint; (h == nil && s.retransOut >= s.lostOut) || (h != nil && before(g.seq, h.seq)) {
		s.rexmitHint = g
	}
	switch {
	case g.mark&markLost == 0:
		g.mark |= markLost
		s.lostOut += g.pcount
		s.lostTotal += uint64(g.pcount)
	case g.mark&markRetrans != 0:
		g.mark &^= markRetrans
		s.retransOut -= g.pcount
		s.lostTotal += uint64(g.pcount)
	}
}

// identifyLoss looks for losses by the time that segments were sent, or
// without SACK by duplicates and partial acknowledgements
// (tcp_identify_packet_loss).
func (s *Sock) identifyLoss(st *ackState) {
	if s.rtx.head == nil {
		return
	}
	if !s.sackOK {
		s.markNewReno(st.flag&flagUnaAdvanced != 0)
		return
	}
	if s.cfg.Switches.Loss != LossRACK {
		return
	}
	was := s.retransOut
	if s.rackMarkLost() {
		st.flag &^= flagSetTimer
	}
	if was > s.retransOut {
		st.flag |= flagLostRetrans
	}
}

// markNewReno marks the first segment when three duplicates came, and in
// recovery when a partial acknowledgement did (tcp_newreno_mark_lost).
func (s *Sock) markNewReno(advanced bool) {
	if !(s.ca < cc.Recovery && s.sackedOut >= s.reordering) && !(s.ca == cc.Recovery && advanced) {
		return
	}
	g := s.rtx.head
	if g.mark&markLost != 0 {
		return
	}
	if g.pcount > 1 && g.len > g.pmss {
		s.splitRtx(g, g.pmss)
	}
	s.markLost(g)
}

// markByCount marks the segments below enough SACKed ones, or just the first
// when recovery begins (tcp_update_scoreboard, up to v4.17).
func (s *Sock) markByCount(entered bool) {
	if !s.sackOK {
		return
	}
	if s.sackedOut >= s.reordering {
		s.markBelow(s.sackedOut - s.reordering)
	} else if g := s.rtx.head; entered && g != nil && g.mark&(markSacked|markLost) == 0 {
		s.markLost(g)
	}
}

// markBelow marks everything that has more than n SACKed segments above it.
// It goes on where it stopped the last time (tcp_mark_head_lost).
func (s *Sock) markBelow(n uint32) {
	g, cnt := s.lostHint, s.lostCnt
	if g == nil {
		g, cnt = s.rtx.head, 0
	}
	for ; g != nil; g = g.next {
		s.lostHint, s.lostCnt = g, cnt
		if g.mark&markSacked != 0 {
			cnt += g.pcount
		}
		if cnt > n {
			return
		}
		if g.mark&markLost == 0 {
			s.markLost(g)
		}
	}
}

// markTimeout marks what a timeout says is lost. If the receiver gave up SACKed
// data everything counts as not received (tcp_timeout_mark_lost).
func (s *Sock) markTimeout() {
	head := s.rtx.head
	reneged := head != nil && head.mark&markSacked != 0
	if reneged {
		s.forgetSacks()
		s.sackReneg = true
	} else if !s.sackOK {
		s.sackedOut = 0
	}
	for g := head; g != nil; g = g.next {
		if s.cfg.Switches.Loss == LossRACK && !reneged && g != head && s.rackRemaining(g, 0) > 0 {
			continue
		}
		s.markLost(g)
	}
	s.rexmitHint, s.lostHint, s.lostCnt = nil, nil, 0
}

// forgetSacks drops the scoreboard of a receiver that gave up SACKed data.
func (s *Sock) forgetSacks() {
	for g := s.rtx.head; g != nil; g = g.next {
		g.mark &^= markSacked
	}
	s.sackedOut = 0
	s.lastSacks = [4]Range{}
}

// reneged gives a receiver that seems to have given up SACKed data a moment to
// send ACKs that say otherwise (tcp_check_sack_reneging).
func (s *Sock) reneged(st *ackState) bool {
	const both = flagReneging | flagUnaAdvanced
	if st.flag&both != both {
		return false
	}
	s.setTimer(pendingRTO, max(s.usToTicks(int64(s.srttUs()>>4)), s.usToTicks(10_000)))
	st.flag &^= flagSetTimer
	return true
}

// forceFast reports whether SACKed segments reach far enough above the left
// edge to prove a loss (tcp_force_fast_retransmit).
func (s *Sock) forceFast() bool { return after(s.fack(), s.sndUna+s.reordering*s.mss) }

// fack is the end of the highest SACKed segment, or the left edge if there is
// none (tcp_highest_sack_seq).
func (s *Sock) fack() uint32 {
	if s.sackedOut == 0 {
		return s.sndUna
	}
	return s.sackedTo
}

// noteReordering takes a segment that was delivered after a higher one, though
// it was sent once only: the distance is how far packets overtake each other
// (tcp_check_sack_reordering).
func (s *Sock) noteReordering(low uint32) {
	fack := s.fack()
	if !before(low, fack) {
		return
	}
	if d := fack - low; d > s.reordering*s.mss {
		s.reordering = min(ceilDiv(d, s.mss), uint32(s.cfg.Sysctl.MaxReordering))
	}
	s.reordSeen++
}

// noteRenoReordering is the same without SACK: more duplicates came than
// segments are out (tcp_check_reno_reordering).
func (s *Sock) noteRenoReordering(more uint32) {
	holes := min(max(s.lostOut, 1), s.packetsOut)
	if s.sackedOut+holes <= s.packetsOut {
		return
	}
	s.sackedOut = s.packetsOut - holes
	s.reordering = min(s.packetsOut+more, uint32(s.cfg.Sysctl.MaxReordering))
	s.reordSeen++
}
