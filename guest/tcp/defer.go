package tcp

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp/cc"
)

// shouldDefer reports whether an entry of several segments should wait for more
// data or more window (tcp_tso_should_defer). p learns which window held it
// back.
func (s *Sock) shouldDefer(g *seg, p *pass) bool {
	switch s.cfg.Switches.Defer {
	case DeferD0, DeferD1, DeferD2, DeferD3:
		if s.deferOld(g, p) {
			return true
		}
		s.tsoDeferred = 0
		return false
	case DeferD4:
		return s.deferD4(g, p)
	}
	return s.deferNew(g, p)
}

// deferWindows returns the bytes that the peer's window and the congestion
// window leave, the latter counted in full segments.
func (s *Sock) deferWindows(g *seg) (send, cong uint32) {
	return s.wndEnd() - g.seq, (s.win.Cwnd - s.inFlight()) * s.mss
}

// shareOfWindow reports whether the sendable bytes are a fair share of the
// window: 1/tcp_tso_win_divisor of it, or more than three segments.
func (s *Sock) shareOfWindow(limit uint32) bool {
	if d := uint32(s.cfg.Sysctl.TSOWinDivisor); d != 0 {
		return limit >= min(s.sndWnd, s.win.Cwnd*s.mss)/d
	}
	return limit > 3*s.mss
}

// deferOld is the variants up to v4.0. Deferral ends when a full-size packet
// can go, and two ticks after it began; the first variant starts that time anew
// with every call, so that a busy writer never sees it end.
func (s *Sock) deferOld(g *seg, p *pass) bool {
	now := s.jiffies()
	if g.flags&skb.FIN != 0 || s.ca != cc.Open {
		return false
	}
	if s.tsoDeferred != 0 && (now<<1>>1)-(s.tsoDeferred>>1) > 1 {
		return false
	}
	send, cong := s.deferWindows(g)
	limit := min(send, cong)
	if s.cfg.Switches.DeferFull && limit >= s.fullSize(p) {
		return false
	}
	if (g != s.wq.tail && limit >= g.len) || s.shareOfWindow(limit) {
		return false
	}
	if s.tsoDeferred == 0 || s.cfg.Switches.Defer == DeferD0 {
		s.tsoDeferred = 1 | now<<1
	}
	s.limitedBy(g, p, send, cong)
	return true
}

// fullSize is the bytes of a full-size packet for the variants up to v4.0.
func (s *Sock) fullSize(p *pass) uint32 {
	switch s.cfg.Switches.Defer {
	case DeferD0, DeferD1:
		return uint32(min(uint64(s.gsoMax), uint64(s.gsoSegs)*uint64(s.mss)))
	case DeferD2:
		return min(s.gsoMax, uint32(s.goalSegs)*s.mss)
	}
	return p.maxSegs * s.mss
}

// limitedBy notes a deferral that the congestion window causes (v3.16 to v4.19).
func (s *Sock) limitedBy(g *seg, p *pass, send, cong uint32) {
	if cong < send && cong <= g.len {
		p.cwndLimited = true
	}
}

// deferD4 is v4.1 to v4.19: no deferral if nothing left in this tick, or if the
// oldest packet left less than half a round trip ago. Before v4.13 it reads the
// clock for that.
func (s *Sock) deferD4(g *seg, p *pass) bool {
	if g.flags&skb.FIN != 0 || s.recovering() {
		return false
	}
	if int32(s.jiffies()-s.lastSendTick()) > 0 {
		return false
	}
	send, cong := s.deferWindows(g)
	limit := min(send, cong)
	if s.sendableShare(g, p, limit) || s.rtx.head == nil {
		return false
	}
	now := s.clock
	if !s.cfg.Switches.ClockCache {
		now = s.env.Now()
	}
	if int64(now-s.rtx.head.sent)/1000 < int64(s.srttUs()>>4) {
		return false
	}
	s.limitedBy(g, p, send, cong)
	return true
}

// sendableShare is the tests that D4 to D6 have in common: a full-size packet,
// a whole entry that gets no more data, or a fair share of the window can go.
func (s *Sock) sendableShare(g *seg, p *pass, limit uint32) bool {
	if s.cfg.Switches.DeferFull && limit >= p.maxSegs*s.mss {
		return true
	}
	return (g != s.wq.tail && limit >= g.len) || s.shareOfWindow(limit)
}

// recovering reports whether the recovery state forbids deferral.
func (s *Sock) recovering() bool {
	if s.cfg.Switches.DeferOpen {
		return s.ca != cc.Open
	}
	return s.ca >= cc.Recovery
}

// deferNew is v5.0 and later: no deferral if the last packet left more than a
// millisecond ago, or if the next acknowledgement is not due soon.
func (s *Sock) deferNew(g *seg, p *pass) bool {
	if s.recovering() || s.clock-s.wstamp-1_000_000 > 0 {
		return false
	}
	send, cong := s.deferWindows(g)
	limit := min(send, cong)
	if s.sendableShare(g, p, limit) || s.rtx.head == nil || s.ackFarOff() {
		return false
	}
	if cong < send {
		if cong <= g.len {
			p.cwndLimited = true
			return true
		}
	} else if send <= g.len {
		p.rwndLimited = true
		return true
	}
	return g.flags&skb.FIN == 0 && !g.eor
}

// ackFarOff reports whether the acknowledgement of the oldest packet is not
// expected soon: within half a round trip (D5), at most a millisecond (D6).
func (s *Sock) ackFarOff() bool {
	head := s.rtx.head.sent
	if s.cfg.Switches.Defer == DeferD5 {
		return int64(s.clock-head)-1000*int64(s.srttUs()>>4) < 0
	}
	srtt := 125 * int64(s.srttUs())
	eta := int64(head-s.clock) + srtt
	return eta-min(srtt>>1, 1_000_000) > 0
}
