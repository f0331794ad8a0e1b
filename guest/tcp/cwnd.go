package tcp

import "github.com/vnetbench/vnetbench/guest/tcp/cc"

// initCwnd is the initial window, segments (TCP_INIT_CWND).
const initCwnd = 10

// inFlight is the segments in the network (tcp_packets_in_flight).
func (s *Sock) inFlight() uint32 { return s.packetsOut - (s.sackedOut + s.lostOut) + s.retransOut }

// wndEnd is the right edge of the peer's window.
func (s *Sock) wndEnd() uint32 { return s.sndUna + s.sndWnd }

// reducing reports whether proportional rate reduction governs the window.
func (s *Sock) reducing() bool { return s.ca == cc.CWR || s.ca == cc.Recovery }

// cwndLimited reports whether the congestion window holds the sender back, so
// that it may grow (tcp_is_cwnd_limited). priorFlight is what was in flight
// before the ACK.
func (s *Sock) cwndLimited(priorFlight uint32) bool {
	switch s.cfg.Switches.Limited {
	case LimitedAck:
		return s.limitedAtAck(priorFlight)
	case LimitedWrite:
		if s.win.InSlowStart() {
			return s.win.Cwnd < 2*s.maxPacketsOut
		}
		return s.isCwndLimited
	}
	return s.isCwndLimited || (s.win.InSlowStart() && s.win.Cwnd < 2*s.maxPacketsOut)
}

// limitedAtAck is the test of kernels up to v3.15, which allows for the packets
// that deferral holds back.
func (s *Sock) limitedAtAck(flight uint32) bool {
	if flight >= s.win.Cwnd {
		return true
	}
	left := s.win.Cwnd - flight
	if s.canGSO && left*uint32(s.cfg.Sysctl.TSOWinDivisor) < s.win.Cwnd &&
		left*s.mss < s.gsoMax && left < s.gsoSegs {
		return true
	}
	return left <= 3
}

// validateCwnd keeps track of how much of the window is used, and lowers it when
// the application did not use it for a while (tcp_cwnd_validate). Congestion
// control that sets the window itself does not ask for that.
func (s *Sock) validateCwnd(limited bool) {
	if s.rateCC != nil {
		return
	}
	now := s.jiffies()
	full := s.trackUsage(limited)
	if full {
		s.cwndUsed, s.cwndStamp = 0, now
		return
	}
	s.cwndUsed = max(s.cwndUsed, s.packetsOut)
	if s.cfg.Sysctl.SlowStartAfterIdle != 0 && int64(int32(now-s.cwndStamp)) >= s.rto {
		s.appLimitedCwnd(now)
	}
}

// trackUsage remembers the use of the window and reports whether it is full.
func (s *Sock) trackUsage(limited bool) bool {
	switch s.cfg.Switches.Limited {
	case LimitedAck:
		return s.packetsOut >= s.win.Cwnd
	case LimitedWrite:
		if !before(s.sndUna, s.usageSeq) || s.packetsOut > s.maxPacketsOut {
			s.maxPacketsOut, s.usageSeq, s.isCwndLimited = s.packetsOut, s.sndNxt, limited
		}
	case LimitedUsage:
		if !before(s.sndUna, s.usageSeq) || limited || (!s.isCwndLimited && s.packetsOut > s.maxPacketsOut) {
			s.maxPacketsOut, s.usageSeq, s.isCwndLimited = s.packetsOut, s.sndNxt, limited
		}
	}
	return s.cwndLimited(0)
}

// appLimitedCwnd halves the distance to what the application uses
// (tcp_cwnd_application_limited).
func (s *Sock) appLimitedCwnd(now uint32) {
	if s.ca == cc.Open && !s.nospace {
		if used := max(s.cwndUsed, initCwnd); used < s.win.Cwnd {
			s.win.Ssthresh = s.currentSsthresh()
			s.win.Cwnd = (s.win.Cwnd + used) >> 1
		}
		s.cwndUsed = 0
	}
	s.cwndStamp = now
}

// currentSsthresh is the threshold that remembers the present window.
func (s *Sock) currentSsthresh() uint32 {
	if s.reducing() {
		return s.win.Ssthresh
	}
	return max(s.win.Ssthresh, s.win.Cwnd>>1+s.win.Cwnd>>2)
}

// checkIdle halves the window for every timeout that passed since the last
// packet, if nothing is in flight (tcp_slow_start_after_idle_check).
func (s *Sock) checkIdle(quiet bool) {
	if !quiet || s.cfg.Sysctl.SlowStartAfterIdle == 0 || s.rateCC != nil {
		return
	}
	delta := int64(int32(s.jiffies() - s.lastSendTick()))
	if delta <= s.rto {
		return
	}
	s.cnt.IdleRestarts++
	s.cc.OnEvent(&s.win, s.sample(), cc.CwndRestart)
	s.win.Ssthresh = s.currentSsthresh()
	floor := min(initCwnd, s.win.Cwnd)
	w := s.win.Cwnd
	for delta -= s.rto; delta > 0 && w > floor; delta -= s.rto {
		w >>= 1
	}
	s.win.Cwnd = max(w, floor)
	s.cwndStamp = s.jiffies()
	s.cwndUsed = 0
}
