package tcp

// maxSegs is the most segments that a packet may have now (tcp_tso_segs), and
// the rule that a packet of that size is cut by. Before v3.19 there is no
// autosizing and only the device bounds it. From v4.9 to v4.16 congestion
// control can say the number instead.
func (s *Sock) maxSegs(mss uint32) (uint32, Rule) {
	if s.cfg.Switches.Autosize == AutosizeOff {
		return s.gsoSegs, RuleGSOSegs
	}
	n := uint32(0)
	if s.rateCC != nil {
		n = s.rateCC.TSOGoal()
	}
	if n == 0 {
		n = s.autosize(mss, s.tsoFloor())
	}
	if n > s.gsoSegs {
		return s.gsoSegs, RuleGSOSegs
	}
	return n, RuleAutosize
}

// tsoFloor is the least segments of a packet: the congestion control's, else
// the sysctl's.
func (s *Sock) tsoFloor() uint32 {
	if s.rateCC != nil && s.cfg.Switches.BBRGoal == BBRGoalHook {
		return s.rateCC.MinTSOSegs(s.win.Pacing)
	}
	return uint32(s.cfg.Sysctl.MinTSOSegs)
}

// autosize is the number of segments that fill about one millisecond at the
// pacing rate. Since v5.18 a short round trip adds to that, because losses are
// repaired sooner there (tcp_tso_autosize).
func (s *Sock) autosize(mss, floor uint32) uint32 {
	bytes := s.win.Pacing >> s.pacingShift
	room := uint64(s.gsoRoom())
	if s.cfg.Switches.Autosize == AutosizeRTT {
		if r := s.minRTT.Value() >> uint(s.cfg.Sysctl.TSORTTLog); r < 32 {
			bytes += uint64(s.gsoMax) >> r
		}
	}
	return max(uint32(min(bytes, room))/mss, floor)
}
