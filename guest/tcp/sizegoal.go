package tcp

// initGSO fixes the socket's GSO limits, as attaching a route does
// (sk_setup_caps).
func (s *Sock) initGSO() {
	c, sw := &s.cfg, &s.cfg.Switches
	s.canGSO = c.CanGSO || sw.AlwaysGSO
	s.gsoSegs = c.GSOMaxSegs
	switch {
	case sw.GSOPresub:
		size := c.GSOMaxSize
		if !c.IPv6 {
			size = min(size, 65536)
		}
		s.gsoMax = size - (c.MaxHdr + 1)
	case s.canGSO:
		s.gsoMax = c.GSOMaxSize
	}
	if !s.canGSO && sw.GSOOneSeg {
		s.gsoSegs = 1 // and gsoMax stays 0: nobody sets it
	}
}

// gsoRoom is the most payload bytes of a GSO packet. Before v5.18 it is
// computed in 32 bits and wraps if the socket has no GSO limit at all, which
// is what report 003 ran into.
func (s *Sock) gsoRoom() uint32 {
	if s.cfg.Switches.GSOPresub {
		return s.gsoMax
	}
	return s.gsoMax - 1 - s.cfg.MaxHdr
}

// headerBytes is the size of the IP and TCP headers.
func (s *Sock) headerBytes() uint32 {
	if s.cfg.IPv6 {
		return 40 + tcpHeaderLen
	}
	return 20 + tcpHeaderLen
}

// tcpHeaderLen is the TCP header with the timestamp option.
const tcpHeaderLen = 32

// boundHalf bounds a size to half of the largest window that the peer ever
// offered (tcp_bound_to_half_wnd, v4.15).
func (s *Sock) boundHalf(size uint32) uint32 {
	cutoff := s.maxWindow
	if cutoff > 536 {
		cutoff >>= 1
	}
	if cutoff != 0 && size > cutoff {
		return max(cutoff, 68-tcpHeaderLen)
	}
	return size
}

// sizeGoal is the payload at which a queue entry is full, a multiple of mss
// (tcp_xmit_size_goal). It remembers the number of segments, so that small
// changes do not divide.
func (s *Sock) sizeGoal(mss uint32) uint32 {
	if !s.canGSO {
		return mss
	}
	g := s.boundHalf(s.rawGoal(mss))
	k := uint32(s.goalSegs)
	if k*mss > g || g >= k*mss+mss {
		k = min(uint32(uint16(g/mss)), s.gsoSegs)
		s.goalSegs = uint16(k)
	}
	return max(k*mss, mss)
}

func (s *Sock) rawGoal(mss uint32) uint32 {
	dev := s.gsoMax - 1 - s.headerBytes()
	half := uint32(s.cfg.Sysctl.LimitOutputBytes >> 1)
	switch s.cfg.Switches.Goal {
	case GoalHalfLimit:
		return min(dev, half)
	case GoalPacedLimit:
		return min(s.pacedGoal(mss), dev, half)
	case GoalPaced:
		return min(s.pacedGoal(mss), dev)
	}
	return s.gsoRoom()
}

// pacedGoal is half a millisecond's bytes at the pacing rate (v3.12 to v3.18).
func (s *Sock) pacedGoal(mss uint32) uint32 {
	p := min(s.win.Pacing/2000, 1<<31)
	return max(uint32(p), uint32(s.cfg.Sysctl.MinTSOSegs)*mss)
}
