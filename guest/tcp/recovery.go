package tcp

import "github.com/vnetbench/vnetbench/guest/tcp/cc"

// rexmit is what an ACK lets the sender send beside new data.
type rexmit uint8

const (
	rexmitNone rexmit = iota
	rexmitLost        // lost segments
	rexmitNew         // new segments, as a test whether a timeout was a mistake (F-RTO, RFC 5682)
)

// dubious reports whether an ACK may tell of a loss (tcp_ack_is_dubious).
func (s *Sock) dubious(st *ackState) bool {
	return st.flag&flagNotDup == 0 || st.flag&(flagDataSacked|flagECE|flagDSACK) != 0 || s.ca != cc.Open
}

// fastRetransAlert runs the recovery states for a dubious ACK and says what may
// be sent for it (tcp_fastretrans_alert, v6.12). dup says that the ACK
// acknowledged nothing at all.
func (s *Sock) fastRetransAlert(st *ackState, dup bool) rexmit {
	lost := dup || (st.flag&flagDataSacked != 0 && s.forceFast())
	if s.packetsOut == 0 {
		s.sackedOut = 0
	}
	if st.flag&flagECE != 0 {
		s.priorSsthresh = 0 // the reduction is required, whatever comes
	}
	if s.reneged(st) || s.exitStates() {
		return rexmitNone
	}
	kind, entered := rexmitNone, false
	switch s.ca {
	case cc.Recovery:
		if s.inRecovery(st, dup, &lost) {
			return rexmitNone
		}
	case cc.Loss:
		kind = s.processLoss(st, dup)
		s.identifyLoss(st)
		if s.ca != cc.Open && st.flag&flagLostRetrans == 0 {
			return kind
		}
		fallthrough
	default:
		if !s.mayRecover(st, dup) {
			return kind
		}
		entered = true
	}
	if s.cfg.Switches.Loss == LossDupack && lost {
		s.markByCount(entered)
	}
	return rexmitLost
}

// exitStates leaves a state whose data is acknowledged. It reports true if the
// ACK is dealt with.
func (s *Sock) exitStates() bool {
	if s.ca == cc.Open {
		s.retransStamp = 0
		return false
	}
	if before(s.sndUna, s.highSeq) {
		return false
	}
	switch s.ca {
	case cc.CWR:
		if s.sndUna != s.highSeq { // so that the mark of the reduction reaches the peer
			s.endReduction()
			s.setState(cc.Open)
		}
	case cc.Recovery:
		if !s.sackOK {
			s.sackedOut = 0
		}
		if s.undoRecovery() {
			return true
		}
		s.endReduction()
	}
	return false
}

// inRecovery deals with an ACK in fast recovery and reports true if it does not
// let anything be sent again.
func (s *Sock) inRecovery(st *ackState, dup bool, lost *bool) bool {
	if st.flag&flagUnaAdvanced == 0 {
		if !s.sackOK && dup {
			s.addRenoSack()
		}
	} else if s.undoPartial(st, lost) {
		return true
	}
	if s.undoDSACK() {
		s.tryToOpen(st)
	}
	s.identifyLoss(st)
	if s.ca == cc.Recovery {
		return false
	}
	if !s.timeToRecover() {
		return true
	}
	s.enterRecovery(st.flag&flagECE != 0) // the last one was a mistake, but there is a loss
	return false
}

// mayRecover deals with an ACK in a quiet state and reports whether it began a
// recovery.
func (s *Sock) mayRecover(st *ackState, dup bool) bool {
	if !s.sackOK {
		if st.flag&flagUnaAdvanced != 0 {
			s.sackedOut = 0
		}
		if dup {
			s.addRenoSack()
		}
	}
	if s.ca <= cc.Disorder {
		s.undoDSACK()
	}
	s.identifyLoss(st)
	if !s.timeToRecover() {
		s.tryToOpen(st)
		return false
	}
	s.enterRecovery(st.flag&flagECE != 0)
	return true
}

// processLoss deals with an ACK after a timeout. Acknowledged segments that
// were sent once only say that the timeout was a mistake; to see any, new
// segments are sent first (tcp_process_loss, F-RTO).
func (s *Sock) processLoss(st *ackState, dup bool) rexmit {
	done := !before(s.sndUna, s.highSeq)
	if st.flag&flagUnaAdvanced != 0 && s.undoLoss(false) {
		return rexmitNone
	}
	if s.frto {
		if st.flag&flagOrigSacked != 0 && s.undoLoss(true) {
			return rexmitNone
		}
		if after(s.sndNxt, s.highSeq) {
			if st.flag&flagDataSacked != 0 || dup {
				s.frto = false // the loss was real
			}
		} else if st.flag&flagUnaAdvanced != 0 && !done {
			s.highSeq = s.sndNxt
			if s.wq.head != nil && after(s.wndEnd(), s.sndNxt) {
				return rexmitNew
			}
			s.frto = false
		}
	}
	if done {
		s.undoRecovery()
		return rexmitNone
	}
	if !s.sackOK {
		if after(s.sndNxt, s.highSeq) && dup {
			s.addRenoSack()
		} else if st.flag&flagUnaAdvanced != 0 {
			s.sackedOut = 0
		}
	}
	return rexmitLost
}

// sendRecovery sends what recovery allows after congestion control set the
// window (tcp_xmit_recovery).
func (s *Sock) sendRecovery(kind rexmit) {
	if kind == rexmitNone {
		return
	}
	if kind == rexmitNew {
		s.pushPending(s.mss, nagleOff)
		if after(s.sndNxt, s.highSeq) {
			return
		}
		s.frto = false
	}
	s.retransmitQueue()
}

// timeToRecover reports whether a loss is proven. Kernels before v4.18 also
// count duplicates, and those with tail loss probes take one SACKed segment
// above a hole as enough if fewer than four are out and nothing else can be
// sent (tcp_time_to_recover, and RFC 5827). Its short delay is not modelled.
func (s *Sock) timeToRecover() bool {
	if s.lostOut > 0 {
		return true
	}
	if s.cfg.Switches.Loss != LossDupack {
		return false
	}
	if s.sackedOut+1 > s.reordering {
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
	if !s.anyRetrans() {
		s.retransStamp = 0
	}
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
	if s.sackedOut+s.lostOut > 0 || s.anyRetrans() {
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

// enterRecovery begins fast recovery (tcp_enter_recovery).
func (s *Sock) enterRecovery(ece bool) {
	s.cnt.FastRecovery++
	if !s.anyRetrans() {
		s.retransStamp = 0
	}
	s.priorSsthresh = 0
	s.initUndo()
	if !s.reducing() {
		if !ece {
			s.priorSsthresh = s.currentSsthresh()
		}
		s.initReduction()
	}
	s.setState(cc.Recovery)
}

// enterLoss takes what was not SACKed for lost after a timeout, but for
// segments that were sent too recently to tell (tcp_enter_loss).
func (s *Sock) enterLoss() {
	fresh := s.ca < cc.Recovery
	s.markTimeout()
	if s.ca <= cc.Disorder || !after(s.highSeq, s.sndUna) || (s.ca == cc.Loss && s.retransmits == 0) {
		s.priorSsthresh = s.currentSsthresh()
		s.priorCwnd = s.win.Cwnd
		s.win.Ssthresh = s.cc.Ssthresh(&s.win, s.sample())
		s.cc.OnEvent(&s.win, s.sample(), cc.LossTimeout)
		s.initUndo()
	}
	s.win.Cwnd = s.inFlight() + 1
	s.win.Cnt = 0
	s.cwndStamp = s.jiffies()
	if def := uint32(s.cfg.Sysctl.Reordering); s.ca <= cc.Disorder && s.sackedOut >= def {
		s.reordering = min(s.reordering, def)
	}
	s.setState(cc.Loss)
	s.highSeq = s.sndNxt
	s.tlpHigh, s.tlpActive = 0, false
	s.queueCWR()
	s.frto = s.cfg.Sysctl.FRTO != 0 && (fresh || s.retransmits > 0)
}
