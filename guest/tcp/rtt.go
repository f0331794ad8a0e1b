package tcp

// Retransmission timeouts (TCP_RTO_MIN, TCP_RTO_MAX, TCP_TIMEOUT_INIT).
const (
	rtoMinUs  = 200_000
	rtoMaxUs  = 120_000_000
	rtoInitUs = 1_000_000
)

// rttEstimator is the smoothed round trip time and its deviation. The unit is
// the caller's: microseconds since v3.15, ticks before.
type rttEstimator struct {
	srtt    uint32 // times 8; 0: no sample
	mdev    uint32 // times 4
	mdevMax uint32 // largest mdev of this round
	rttvar  uint32
	seq     uint32 // the round ends when this is acknowledged
}

// sample takes a round trip m (tcp_rtt_estimator). The deviation falls slowly
// when round trips shrink.
func (e *rttEstimator) sample(m int64, rtoMin, una, nxt uint32) {
	if e.srtt == 0 {
		e.srtt = max(1, uint32(m<<3))
		e.mdev = uint32(m << 1)
		e.rttvar = max(e.mdev, rtoMin)
		e.mdevMax = e.rttvar
		e.seq = nxt
		return
	}
	d := m - int64(e.srtt>>3)
	e.srtt = max(1, uint32(int64(e.srtt)+d))
	if d < 0 {
		d = -d - int64(e.mdev>>2)
		if d > 0 {
			d >>= 3
		}
	} else {
		d -= int64(e.mdev >> 2)
	}
	e.mdev = uint32(int64(e.mdev) + d)
	if e.mdev > e.mdevMax {
		e.mdevMax = e.mdev
		e.rttvar = max(e.rttvar, e.mdevMax)
	}
	if after(una, e.seq) {
		if e.mdevMax < e.rttvar {
			e.rttvar -= (e.rttvar - e.mdevMax) >> 2
		}
		e.seq = nxt
		e.mdevMax = rtoMin
	}
}

// rttSample takes the round trip of the first newly acknowledged segment, and
// that of the last for the minimum, both in µs; caUs may be negative for none.
// delayed says that the peer may have held the acknowledgement back, and tick is
// the present one.
func (s *Sock) rttSample(tick uint32, seqUs, caUs int64, delayed bool) {
	if caUs >= 0 {
		s.updateMinRTT(tick, uint32(caUs), delayed)
	}
	if s.cfg.Switches.RTTUs {
		s.rtt.sample(seqUs, rtoMinUs, s.sndUna, s.sndNxt)
	} else {
		ticks := max(1, (seqUs*int64(s.cfg.HZ)+500_000)/1_000_000)
		s.rtt.sample(ticks, uint32(s.usToTicks(rtoMinUs)), s.sndUna, s.sndNxt)
	}
	s.setRTO()
	s.backoff = 0
}

// updateMinRTT feeds the windowed minimum; a sample of 0 counts as one tick
// (tcp_update_rtt_min).
func (s *Sock) updateMinRTT(tick, us uint32, delayed bool) {
	if delayed && us > s.minRTT.Value() {
		return
	}
	if us == 0 {
		us = 1_000_000 / s.cfg.HZ
	}
	s.minRTT.Update(uint32(s.cfg.Sysctl.MinRTTWlen)*s.cfg.HZ, tick, us)
}

// setRTO derives the retransmission timeout, in ticks (tcp_set_rto).
func (s *Sock) setRTO() {
	rto := int64(s.rtt.srtt>>3) + int64(s.rtt.rttvar)
	if s.cfg.Switches.RTTUs {
		rto = s.usToTicks(rto)
	}
	s.rto = min(rto, s.usToTicks(rtoMaxUs))
}

// srttUs is the smoothed round trip in µs, times 8.
func (s *Sock) srttUs() uint32 {
	if s.cfg.Switches.RTTUs {
		return s.rtt.srtt
	}
	return uint32(uint64(s.rtt.srtt) * 1_000_000 / uint64(s.cfg.HZ))
}

// srttTicks is the smoothed round trip in ticks, times 8.
func (s *Sock) srttTicks() uint32 {
	if s.cfg.Switches.RTTUs {
		return uint32(uint64(s.rtt.srtt) * uint64(s.cfg.HZ) / 1_000_000)
	}
	return s.rtt.srtt
}
