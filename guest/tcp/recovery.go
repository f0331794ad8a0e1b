package tcp

import "github.com/vnetbench/vnetbench/guest/tcp/cc"

// dubious reports whether an ACK may tell of a loss (tcp_ack_is_dubious).
func (s *Sock) dubious(st *ackState) bool {
	return st.flag&flagNotDup == 0 || st.flag&(flagDataSacked|flagECE|flagDSACK) != 0 || s.ca != cc.Open
}

// fastRetransAlert runs the recovery states for a dubious ACK and reports
// whether lost segments may be sent again (tcp_fastretrans_alert). Losses are
// found by counting SACKed segments above a hole; time-based detection and
// undoing are not modelled.
func (s *Sock) fastRetransAlert(st *ackState) bool {
	dup := st.flag&(flagUnaAdvanced|flagNotDup|flagDSACK) == 0
	if st.flag&flagReneging != 0 {
		return false // the timer cleans up
	}
	s.exitStates()
	switch s.ca {
	case cc.Recovery:
		if dup && !s.sackOK {
			s.addRenoSack()
		}
	case cc.Loss:
		if dup && !s.sackOK {
			s.addRenoSack()
		}
		return true
	default:
		if !s.sackOK {
			if st.flag&flagUnaAdvanced != 0 {
				s.sackedOut = 0
			}
			if dup {
				s.addRenoSack()
			}
		}
		if !s.timeToRecover() {
			s.tryToOpen(st)
			return false
		}
		s.enterRecovery()
	}
	s.markLosses()
	return true
}

// exitStates leaves a state whose data is acknowledged.
func (s *Sock) exitStates() {
	if s.ca == cc.Open || before(s.sndUna, s.highSeq) {
		return
	}
	switch s.ca {
	case cc.CWR:
		if s.sndUna != s.highSeq {
			s.endReduction()
			s.setState(cc.Open)
		}
	case cc.Recovery:
		if !s.sackOK {
			s.sackedOut = 0
			if s.sndUna == s.highSeq {
				return // duplicate ACKs of the recovery may still come
			}
		}
		s.endReduction()
		s.setState(cc.Open)
	case cc.Loss:
		if !s.sackOK {
			s.sackedOut = 0
		}
		s.setState(cc.Open)
	}
}

// timeToRecover reports whether enough duplicates say that the head is lost. If
// fewer than four segments are out and nothing else can be sent, one SACKed
// segment above a hole is enough: no more will come (tcp_time_to_recover, and
// RFC 5827). Its short delay, and the reordering timer that took its place in
// v4.18, are not modelled.
func (s *Sock) timeToRecover() bool {
	if s.lostOut > 0 || s.sackedOut+1 > uint32(s.cfg.Sysctl.Reordering) {
		return true
	}
	few := s.packetsOut < 4 && s.packetsOut > s.sackedOut && s.retransOut == 0
	return s.cfg.Switches.TLP && s.sackOK && s.sackedOut > 0 && few && !s.maySendNow()
}

// maySendNow reports whether the head of the write queue could go but for Nagle
// and deferral (tcp_may_send_now).
func (s *Sock) maySendNow() bool {
	g := s.wq.head
	return g != nil && s.inFlight() < s.win.Cwnd && s.windowTest(g, s.mss)
}

// tryToOpen returns to the quiet states, or starts a reduction for a congestion
// mark (tcp_try_to_open).
func (s *Sock) tryToOpen(st *ackState) {
	if st.flag&flagECE != 0 {
		s.enterCWR()
	}
	if s.ca != cc.CWR {
		s.keepOpen()
	}
}

// keepOpen goes to the quiet state that the scoreboard calls for
// (tcp_try_keep_open).
func (s *Sock) keepOpen() {
	state := cc.Open
	if s.sackedOut+s.lostOut > 0 || s.retransOut > 0 {
		state = cc.Disorder
	}
	if state != s.ca {
		s.setState(state)
		s.highSeq = s.sndNxt
	}
}

func (s *Sock) setState(to cc.State) {
	if to != s.ca {
		s.cc.OnState(&s.win, s.sample(), to)
		s.ca = to
	}
}

// enterCWR starts a window reduction that is not for loss (tcp_enter_cwr).
func (s *Sock) enterCWR() {
	if s.ca < cc.CWR {
		s.initReduction()
		s.setState(cc.CWR)
	}
}

func (s *Sock) enterRecovery() {
	s.cnt.FastRecovery++
	if !s.reducing() {
		s.initReduction()
	}
	s.setState(cc.Recovery)
}

// initReduction starts proportional rate reduction (tcp_init_cwnd_reduction).
func (s *Sock) initReduction() {
	s.highSeq = s.sndNxt
	s.tlpHigh = 0
	s.tlpActive = false
	s.win.Cnt = 0
	s.priorCwnd = s.win.Cwnd
	s.prrDelivered, s.prrOut = 0, 0
	s.win.Ssthresh = s.cc.Ssthresh(&s.win, s.sample())
}

// reduceCwnd sets the window so that it falls to the threshold in proportion to
// what is delivered (tcp_cwnd_reduction, v6.1).
func (s *Sock) reduceCwnd(acked, lost uint32, flag uint16) {
	if acked == 0 || s.priorCwnd == 0 {
		return
	}
	s.prrDelivered += acked
	flight := int64(s.inFlight())
	delta := int64(s.win.Ssthresh) - flight
	var send int64
	if delta < 0 {
		share := uint64(s.win.Ssthresh)*uint64(s.prrDelivered) + uint64(s.priorCwnd) - 1
		send = int64(share/uint64(s.priorCwnd)) - int64(s.prrOut)
	} else {
		send = max(int64(s.prrDelivered)-int64(s.prrOut), int64(acked))
		if flag&flagUnaAdvanced != 0 && lost == 0 {
			send++
		}
		send = min(delta, send)
	}
	if s.prrOut == 0 {
		send = max(send, 1) // the fast retransmission itself
	}
	s.win.Cwnd = uint32(flight + max(send, 0))
}

// endReduction leaves the window at the threshold (tcp_end_cwnd_reduction).
func (s *Sock) endReduction() {
	if s.rateCC != nil {
		return
	}
	if s.win.Ssthresh < cc.InfiniteSsthresh {
		s.win.Cwnd = s.win.Ssthresh
		s.cwndStamp = s.jiffies()
	}
	s.cc.OnEvent(&s.win, s.sample(), cc.CompleteCWR)
}

// markLosses marks the segments below enough SACKed ones (tcp_update_scoreboard).
func (s *Sock) markLosses() {
	reorder := uint32(s.cfg.Sysctl.Reordering)
	switch {
	case !s.sackOK:
		s.markHead()
	case s.sackedOut >= reorder:
		s.markBelow(s.sackedOut - reorder)
	default:
		s.markHead()
	}
}

// markHead marks the first segment of the queue.
func (s *Sock) markHead() {
	g := s.rtx.head
	if g == nil || g.mark&(markLost|markSacked|markRetrans) != 0 {
		return
	}
	if g.pcount > 1 {
		s.splitRtx(g, g.pmss)
	}
	s.markOne(g)
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
		s.markOne(g)
	}
}

// markOne marks an entry as lost unless it was SACKed or is marked; one that was
// retransmitted keeps that chance.
func (s *Sock) markOne(g *seg) {
	if g.mark&(markSacked|markLost) != 0 {
		return
	}
	g.mark |= markLost
	s.lostOut += g.pcount
	s.lostTotal += uint64(g.pcount)
	if s.rexmitHint != nil && before(g.seq, s.rexmitHint.seq) {
		s.rexmitHint = g
	}
}

// enterLoss takes everything that is not SACKed for lost after a timeout
// (tcp_enter_loss).
func (s *Sock) enterLoss() {
	if h := s.rtx.head; h != nil && h.mark&markSacked != 0 {
		s.forgetSacks()
	}
	if !s.sackOK {
		s.sackedOut = 0
	}
	for g := s.rtx.head; g != nil; g = g.next {
		if g.mark&markRetrans != 0 {
			g.mark &^= markRetrans
			s.retransOut -= g.pcount
		}
		s.markOne(g)
	}
	s.rexmitHint, s.lostHint, s.lostCnt = nil, nil, 0
	if s.ca <= cc.Disorder || !after(s.highSeq, s.sndUna) || (s.ca == cc.Loss && s.retransmits == 0) {
		s.priorCwnd = s.win.Cwnd
		s.win.Ssthresh = s.cc.Ssthresh(&s.win, s.sample())
		s.cc.OnEvent(&s.win, s.sample(), cc.LossTimeout)
	}
	s.win.Cwnd = s.inFlight() + 1
	s.win.Cnt = 0
	s.cwndStamp = s.jiffies()
	s.setState(cc.Loss)
	s.highSeq = s.sndNxt
	s.tlpHigh, s.tlpActive = 0, false
}

// forgetSacks drops the scoreboard of a receiver that gave up SACKed data.
func (s *Sock) forgetSacks() {
	for g := s.rtx.head; g != nil; g = g.next {
		if g.mark&markSacked != 0 {
			g.mark &^= markSacked
			s.sackedOut -= g.pcount
		}
	}
	s.lastSacks = [4]Range{}
}
