package tcp

import "github.com/vnetbench/vnetbench/guest/tcp/cc"

// enterCWR starts a window reduction that is not for loss, and that cannot be
// undone (tcp_enter_cwr).
func (s *Sock) enterCWR() {
	s.priorSsthresh = 0
	if s.ca < cc.CWR {
		s.undoSet = false
		s.initReduction()
		s.setState(cc.CWR)
	}
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
	s.queueCWR()
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

// endReduction leaves the window at the threshold, unless the reduction was
// undone (tcp_end_cwnd_reduction).
func (s *Sock) endReduction() {
	if s.rateCC != nil {
		return
	}
	if s.win.Ssthresh < cc.InfiniteSsthresh && (s.ca == cc.CWR || s.undoSet) {
		s.win.Cwnd = s.win.Ssthresh
		s.cwndStamp = s.jiffies()
	}
	s.cc.OnEvent(&s.win, s.sample(), cc.CompleteCWR)
}
