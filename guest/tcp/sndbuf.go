package tcp

// noSpace reports whether a writer must wait: the send buffer is full, or too
// much is unsent (sk_stream_memory_free).
func (s *Sock) noSpace() bool {
	return s.wmemQueued >= s.sndbuf || int64(s.writeSeq-s.sndNxt) >= s.cfg.Sysctl.NotsentLowat
}

// checkSpace wakes a writer that waits, if a third of the send buffer is free,
// after it let the buffer grow with the window (tcp_check_space,
// sk_stream_write_space).
func (s *Sock) checkSpace() {
	if !s.nospace {
		return
	}
	if s.cfg.Sndbuf == 0 && s.inFlight() < s.win.Cwnd {
		s.expandSndbuf()
		if s.rateCC == nil {
			s.cwndStamp = s.jiffies()
		}
	}
	free := int64(s.sndbuf) - int64(s.wmemQueued)
	if free >= int64(s.wmemQueued>>1) && int64(s.writeSeq-s.sndNxt)<<1 < s.cfg.Sysctl.NotsentLowat {
		s.nospace = false
		s.env.WriteSpace(s)
	}
}

// expandSndbuf lets the send buffer hold two windows of packets with the worst
// overhead (tcp_sndbuf_expand). The same window, or a smaller one, changes nothing.
func (s *Sock) expandSndbuf() {
	if s.win.Cwnd <= s.expandedFor {
		return
	}
	s.expandedFor = s.win.Cwnd
	const shinfo, skbuff = 320, 256
	per := pow2Roundup(s.cfg.PeerMSS+s.cfg.MaxHdr+shinfo) + skbuff
	segs := max(initCwnd, s.win.Cwnd, uint32(s.cfg.Sysctl.Reordering)+1)
	factor := uint64(2)
	if s.rateCC != nil {
		factor = uint64(s.rateCC.SndbufFactor())
	}
	need := min(factor*uint64(segs)*uint64(per), uint64(s.cfg.Sysctl.Wmem[2]))
	s.sndbuf = max(s.sndbuf, uint32(need))
}
