package tcp

// cleanRtx takes what is acknowledged off the retransmit queue and takes the
// round trip samples (tcp_clean_rtx_queue).
func (s *Sock) cleanRtx(st *ackState) {
	fully := true
	st.reord = s.sndNxt
	for g := s.rtx.head; g != nil; g = s.rtx.head {
		n, start := g.pcount, g.seq
		if after(g.end, s.sndUna) {
			if n == 1 || !after(s.sndUna, g.seq) {
				break
			}
			s.trim(g, s.sndUna-g.seq)
			if n -= g.pcount; n == 0 {
				break
			}
			fully = false
		}
		s.ackSeg(g, start, n, st)
		if !fully {
			break
		}
		s.rtx.remove(g)
		s.freeSeg(g)
	}
	if h := s.rtx.head; h != nil && h.mark&markSacked != 0 && !after(h.seq, s.sndUna) {
		st.flag |= flagReneging
	}
	s.takeRTT(st, fully)
	if st.flag&flagDataAcked != 0 {
		st.flag |= flagSetTimer
		if s.sackOK {
			if before(st.reord, st.priorFack) {
				s.noteReordering(st.reord)
			}
			s.lostCnt -= min(s.lostCnt, st.priorSacked-s.sackedOut)
		} else {
			s.removeRenoSacks(st.pktsAcked)
			if st.flag&flagRetransAcked != 0 {
				st.flag &^= flagOrigSacked // nothing says that an original arrived
			}
		}
	} else if h := s.rtx.head; h != nil && st.rttTaken && st.firstSackt >= 0 && st.firstSackt < micro(h.sent) {
		st.flag |= flagSetTimer
	}
	if s.rttCC != nil {
		smp := s.sampleAt(st.tick)
		smp.Acked, smp.RTT = st.pktsAcked, st.rttUs
		s.rttCC.OnRTT(&s.win, smp)
	}
}

// ackSeg accounts for n acknowledged segments of g, which began at start.
func (s *Sock) ackSeg(g *seg, start, n uint32, st *ackState) {
	sent := micro(g.sent)
	switch {
	case g.mark&(markRetrans|markEver) != 0:
		if g.mark&markRetrans != 0 {
			s.retransOut -= n
		}
		st.flag |= flagRetransAcked
	case g.mark&markSacked == 0:
		st.lastAckt = sent
		if st.firstAckt < 0 {
			st.firstAckt = st.lastAckt
		}
		if before(start, st.reord) {
			st.reord = start
		}
		if !after(g.end, s.highSeq) {
			st.flag |= flagOrigSacked
		}
	}
	if g.mark&markSacked != 0 {
		s.sackedOut -= n
	} else if s.sackOK {
		s.delivered(n, st)
		if !s.spurious(g) {
			s.rackAdvance(g, sent)
		}
	}
	if g.mark&markLost != 0 {
		s.lostOut -= n
	}
	s.packetsOut -= n
	st.pktsAcked += n
	s.rateDelivered(g, sent)
	st.flag |= flagDataAcked
}

// takeRTT takes the round trips of an ACK: from the first newly acknowledged
// segment for the timeout, from the last for the minimum and congestion control.
// Retransmitted segments give none, unless timestamps tell (tcp_ack_update_rtt).
func (s *Sock) takeRTT(st *ackState, fully bool) {
	now := micro(s.clock)
	seqUs, caUs := int64(-1), int64(-1)
	if st.firstAckt >= 0 && st.flag&flagRetransAcked == 0 {
		seqUs, caUs = s.rttUs(now, st.firstAckt, false), s.rttUs(now, st.lastAckt, s.rttStamp)
		if st.pktsAcked == 1 && fully && st.priorSacked == 0 && s.sndUna-st.priorUna < s.mss &&
			s.dlv.rs.PriorDelivered+1 == s.dlv.total {
			st.flag |= flagMaybeDelayed
		}
	}
	if st.firstSackt >= 0 {
		caUs = s.rttUs(now, st.lastSackt, s.rttStamp)
		if seqUs < 0 {
			seqUs = s.rttUs(now, st.firstSackt, false)
		}
	}
	if seqUs < 0 && st.tsEcr != 0 && st.flag&flagDataAcked != 0 {
		if ms := uint32(now/1000) - st.tsEcr; ms < 1<<31 {
			seqUs = int64(max(ms, 1)) * 1000
			caUs = seqUs
		}
	}
	st.rttUs, st.rttTaken = caUs, seqUs >= 0
	if seqUs >= 0 {
		s.rttSample(st.tick, seqUs, caUs, st.flag&flagMaybeDelayed != 0)
	}
}

// rttUs is the time from a transmission until now, µs; in whole ticks where the
// kernel measures so, unless the packets carry stamps.
func (s *Sock) rttUs(now, sent int64, stamped bool) int64 {
	if s.cfg.Switches.RTTUs || stamped {
		return max(now-sent, 0)
	}
	hz := int64(s.cfg.HZ)
	return (now*hz/1_000_000 - sent*hz/1_000_000) * 1_000_000 / hz
}
