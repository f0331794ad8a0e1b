package tcp

import "github.com/vnetbench/vnetbench/guest/skb"

// minshall reports whether a short packet is in flight (tcp_minshall_check).
func (s *Sock) minshall() bool { return after(s.sndSml, s.sndUna) && !after(s.sndSml, s.sndNxt) }

// minshallUpdate remembers the end of a short packet that was sent. Since v3.14
// a packet counts as short if its last segment is (tcp_minshall_update).
func (s *Sock) minshallUpdate(g *seg, mss uint32) {
	full := mss
	if s.cfg.Switches.MinshallTail {
		full = g.pcount * mss
	}
	if g.len < full {
		s.sndSml = g.end
	}
}

// nagleHolds reports whether a short segment must wait (tcp_nagle_check).
func (s *Sock) nagleHolds(partial bool, nonagle uint8) bool {
	return partial && (nonagle&nagleCork != 0 || (nonagle == 0 && s.packetsOut > 0 && s.minshall()))
}

// nagleTest reports whether an entry of one segment may go (tcp_nagle_test).
func (s *Sock) nagleTest(g *seg, mss uint32, nonagle uint8) bool {
	if nonagle&naglePush != 0 || g.flags&skb.FIN != 0 {
		return true
	}
	return !s.nagleHolds(g.len < mss, nonagle)
}

// splitPoint is how many bytes of an entry of several segments can go, and the
// rule that bounds them (tcp_mss_split_point). quota is in segments and why is
// the rule behind it.
func (s *Sock) splitPoint(g *seg, mss, quota uint32, nonagle uint8, why Rule) (uint32, Rule) {
	window := s.wndEnd() - g.seq
	most := mss * quota
	if most <= window && g != s.wq.tail {
		return most, why
	}
	needed := min(g.len, window)
	if most <= needed {
		return most, why
	}
	by := RuleNagle
	if window < g.len {
		by = RuleRwnd
	}
	partial := needed % mss
	if !s.cfg.Switches.KeepTail || s.nagleHolds(partial != 0, nonagle) {
		return needed - partial, by
	}
	return needed, by
}
