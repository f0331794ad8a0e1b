package tcp

import "github.com/vnetbench/vnetbench/guest/tcp/cc"

// initUndo remembers where a reduction began, so that it can be taken back if
// it was a mistake (tcp_init_undo). undoRetrans counts retransmissions that
// might turn out to be duplicates; -1 means none yet.
func (s *Sock) initUndo() {
	s.undoMarker, s.undoSet = s.sndUna, true
	s.undoRetrans = int32(s.retransOut)
	if s.tlpActive && s.tlpRetrans {
		s.undoRetrans++
	}
	if s.undoRetrans == 0 {
		s.undoRetrans = -1
	}
}

// anyRetrans reports whether a retransmission may still be in the network
// (tcp_any_retrans_done).
func (s *Sock) anyRetrans() bool {
	return s.retransOut > 0 || (s.rtx.head != nil && s.rtx.head.mark&markEver != 0)
}

// echoBefore reports whether the ACK echoes a timestamp from before t, in ms.
func (s *Sock) echoBefore(t uint32) bool { return s.work.st.tsEcr != 0 && before(s.work.st.tsEcr, t) }

// spurious reports whether a retransmitted entry is acknowledged by an ACK
// that its original caused (tcp_skb_spurious_retrans).
func (s *Sock) spurious(g *seg) bool {
	return g.mark&(markRetrans|markEver) != 0 && s.echoBefore(uint32(micro(g.sent)/1000))
}

// wasDelayed reports whether what seemed lost was only late: the ACK echoes a
// time before the first retransmission, or nothing was retransmitted yet
// (tcp_packet_delayed).
func (s *Sock) wasDelayed() bool {
	if s.retransStamp != 0 {
		return s.echoBefore(s.retransStamp)
	}
	return s.sackOK || before(s.sndUna, s.highSeq)
}

// mayUndo reports whether all retransmissions were duplicates, or the data was
// only late (tcp_may_undo).
func (s *Sock) mayUndo() bool { return s.undoSet && (s.undoRetrans == 0 || s.wasDelayed()) }

// undoReduction takes a reduction back (tcp_undo_cwnd_reduction).
func (s *Sock) undoReduction(unmark bool) {
	s.cnt.Undos++
	if unmark {
		for g := s.rtx.head; g != nil; g = g.next {
			g.mark &^= markLost
		}
		s.lostOut = 0
		s.rexmitHint, s.lostHint, s.lostCnt = nil, nil, 0
	}
	if s.priorSsthresh != 0 {
		s.win.Cwnd = s.cc.Undo(&s.win, s.sample())
		if s.priorSsthresh > s.win.Ssthresh {
			s.win.Ssthresh = s.priorSsthresh
			s.cwrQueued = false
		}
	}
	s.cwndStamp = s.jiffies()
	s.undoSet = false
	s.rack.advanced = true // look again at what is lost
}

// undoRecovery ends a recovery whose data is acknowledged, and takes the
// reduction back if it was a mistake. Without SACK it reports true and waits if
// duplicates of the recovery may still come (tcp_try_undo_recovery).
func (s *Sock) undoRecovery() bool {
	if s.mayUndo() {
		s.undoReduction(false)
	} else if s.rack.persist > 0 {
		s.rack.persist--
	}
	if s.holdsReno() {
		return true
	}
	s.setState(cc.Open)
	s.sackReneg = false
	return false
}

// holdsReno reports whether a recovery without SACK must wait for an ACK above
// its end (tcp_is_non_sack_preventing_reopen).
func (s *Sock) holdsReno() bool {
	if s.sndUna != s.highSeq || s.sackOK {
		return false
	}
	if !s.anyRetrans() {
		s.retransStamp = 0
	}
	return true
}

// undoDSACK takes the reduction back if duplicates of all retransmissions were
// reported (tcp_try_undo_dsack).
func (s *Sock) undoDSACK() bool {
	if !s.undoSet || s.undoRetrans != 0 {
		return false
	}
	s.rack.persist = min(rackRecoveries, s.rack.persist+1)
	s.undoReduction(false)
	return true
}

// undoLoss takes a timeout back (tcp_try_undo_loss). spurious says that data
// which was sent once only proves it.
func (s *Sock) undoLoss(spurious bool) bool {
	if !spurious && !s.mayUndo() {
		return false
	}
	s.undoReduction(true)
	s.retransmits = 0
	if s.holdsReno() {
		return true
	}
	if spurious || s.sackOK {
		s.setState(cc.Open)
		s.sackReneg = false
	}
	return true
}

// undoPartial looks at a partial acknowledgement in recovery. If the hole was
// filled by a late packet and not by a retransmission, packets overtake each
// other; it reports true if nothing may be sent again for that reason
// (tcp_try_undo_partial).
func (s *Sock) undoPartial(st *ackState, lost *bool) bool {
	if !s.undoSet || !s.wasDelayed() {
		*lost = s.forceFast()
		return false
	}
	s.noteReordering(st.priorUna)
	if s.retransOut > 0 {
		return true
	}
	if !s.anyRetrans() {
		s.retransStamp = 0
	}
	s.undoReduction(true)
	s.keepOpen()
	return false
}
