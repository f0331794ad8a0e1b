package tcp

import "github.com/vnetbench/vnetbench/guest/skb"

// pass is one run of the write loop.
type pass struct {
	mss         uint32
	maxSegs     uint32 // most segments of a packet; 0: not asked yet
	maxRule     Rule   // the rule behind maxSegs
	nonagle     uint8
	pushOne     uint8 // 0 all, 1 one packet, 2 one packet as a tail loss probe
	sent        uint32
	cwndLimited bool
	rwndLimited bool
}

// writeLoop sends what may be sent (tcp_write_xmit). pushOne is 0 for all, 1
// for one packet, 2 for a tail loss probe. It reports whether data is queued
// while nothing is in flight and nothing was sent.
//
// It reads the clock once at its start (tcp_mstamp_refresh, v4.13 and later),
// even if it then sends nothing.
func (s *Sock) writeLoop(mss uint32, nonagle, pushOne uint8) bool {
	s.refreshClock()
	p := pass{mss: mss, nonagle: nonagle, pushOne: pushOne}
	stop := StopEmpty
	for g := s.wq.head; g != nil; g = s.wq.head {
		if s.pacingBlocks() {
			stop = StopPacing
			break
		}
		var ok bool
		if stop, ok = s.sendHead(g, &p); !ok {
			break
		}
		if pushOne != 0 {
			stop = StopPushOne
			break
		}
		stop = StopEmpty
	}
	s.cnt.Stops[stop]++
	return s.afterLoop(&p)
}

// afterLoop keeps the books of a pass: window validation, reduction, probes.
func (s *Sock) afterLoop(p *pass) bool {
	p.cwndLimited = p.cwndLimited || s.inFlight() >= s.win.Cwnd
	if p.sent > 0 || (p.cwndLimited && s.cfg.Switches.LimitedSend) {
		s.validateCwnd(p.cwndLimited)
	}
	if p.sent > 0 {
		if s.reducing() {
			s.prrOut += p.sent
		}
		if p.pushOne != 2 {
			s.scheduleTLP(false)
		}
		return false
	}
	return s.packetsOut == 0 && s.wq.head != nil
}

// sendHead takes the entry at the head of the write queue through the tests of
// the loop, cuts it, and sends it. It reports false and why if it did not.
func (s *Sock) sendHead(g *seg, p *pass) (Stop, bool) {
	sw := &s.cfg.Switches
	if !sw.PcountAlways {
		g.initSegs(p.mss)
	}
	quota := s.cwndQuota(g)
	if quota == 0 {
		if p.pushOne != 2 {
			return StopCwnd, false
		}
		quota = 1
	}
	if p.maxSegs == 0 {
		p.maxSegs, p.maxRule = s.maxSegs(p.mss)
	}
	why := RuleCwnd
	if p.maxSegs < quota {
		quota, why = p.maxSegs, p.maxRule
	}
	if sw.Grow && quota*p.mss > g.len && s.grow(g, quota*p.mss-g.len) || sw.PcountAlways {
		g.setSegs(p.mss)
	}
	if stop, ok := s.mayGo(g, p); !ok {
		return stop, false
	}
	if sw.TSQ <= TSQDynamic && s.tsqBlocks(g, 0) {
		return StopTSQ, false
	}
	rule := s.cut(g, p, quota, why)
	if sw.TSQ > TSQDynamic && s.tsqBlocks(g, 0) {
		return StopTSQ, false
	}
	if sw.StopEmptySKB && g.end == g.seq {
		return StopEmpty, false
	}
	if !s.transmit(g, rule, false) {
		return StopDrop, false
	}
	s.sentNew(g, p.mss, p.pushOne != 2 && !s.owned && s.mayProbe())
	p.sent += g.pcount
	return 0, true
}

// mayGo is the tests that look at the whole entry: the peer's window, Nagle,
// TSO deferral.
func (s *Sock) mayGo(g *seg, p *pass) (Stop, bool) {
	if !s.windowTest(g, p.mss) {
		p.rwndLimited = true
		return StopRwnd, false
	}
	if g.pcount == 1 {
		nonagle := p.nonagle
		if g.next != nil {
			nonagle = naglePush // in the middle it gets no more data
		}
		if !s.nagleTest(g, p.mss, nonagle) {
			return StopNagle, false
		}
	} else if p.pushOne == 0 && s.shouldDefer(g, p) {
		s.cnt.Deferred++
		return StopDefer, false
	}
	return 0, true
}

// windowTest reports whether the first segment fits in the peer's window
// (tcp_snd_wnd_test).
func (s *Sock) windowTest(g *seg, mss uint32) bool {
	end := g.end
	if g.len > mss {
		end = g.seq + mss
	}
	return !after(end, s.wndEnd())
}

// cut shortens an entry to what may go and returns the rule that bounded it.
// What is left over stays at the head of the queue.
func (s *Sock) cut(g *seg, p *pass, quota uint32, why Rule) Rule {
	limit, by := p.mss, RuleMiddle
	if g.pcount > 1 {
		limit, by = s.splitPoint(g, p.mss, quota, p.nonagle, why)
	}
	if g.len > limit {
		s.split(&s.wq, g, limit, p.mss)
		return by
	}
	return s.wholeRule(g, p, quota, why)
}

// wholeRule is the rule of an entry that goes as it is.
func (s *Sock) wholeRule(g *seg, p *pass, quota uint32, why Rule) Rule {
	switch {
	case g.eor:
		return RuleEOR
	case g.len == quota*p.mss:
		return why
	case g.len >= max(uint32(s.goalSegs), 1)*p.mss:
		return RuleFull
	case g.rest:
		return RuleRest
	case g.next == nil:
		return RuleTail
	}
	return RuleMiddle
}

// cwndQuota is how many segments the congestion window lets go: since v3.19 at
// most half of it, so that two packets are in flight. Before v6.10 the last FIN
// needs no quota (tcp_cwnd_test).
func (s *Sock) cwndQuota(g *seg) uint32 {
	sw := &s.cfg.Switches
	if sw.FINQuota && g.flags&skb.FIN != 0 && g.pcount == 1 {
		return 1
	}
	flight := s.inFlight()
	if flight >= s.win.Cwnd {
		return 0
	}
	quota := s.win.Cwnd - flight
	if sw.HalfCwnd {
		quota = min(quota, max(s.win.Cwnd>>1, 1))
	}
	return quota
}

// sentNew moves an entry that was sent for the first time to the retransmit
// queue (tcp_event_new_data_sent). probe says that the timer of a tail loss probe
// starts at the end of the pass, before anybody asks when a timer is due.
func (s *Sock) sentNew(g *seg, mss uint32, probe bool) {
	prior := s.packetsOut
	s.sndNxt = g.end
	s.wq.remove(g)
	s.rtx.pushBack(g)
	s.packetsOut += g.pcount
	if prior == 0 || s.pending == pendingTLP {
		if probe {
			s.pending = pendingRTO
		} else {
			s.rearmRTO()
		}
	}
	s.checkSpace()
	s.minshallUpdate(g, mss)
}
