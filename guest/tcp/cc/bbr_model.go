package cc

// updateBandwidth counts rounds and feeds the bandwidth filter (bbr_update_bw).
// Samples taken while the application held back count only if they are not
// below the estimate.
func (b *bbr) updateBandwidth(s *Sample) {
	b.roundStart = false
	if s.Rate.Delivered < 0 || s.Rate.Interval <= 0 {
		return
	}
	if s.Rate.PriorDelivered >= b.nextRound {
		b.nextRound = s.DeliveredAll
		b.rounds++
		b.roundStart = true
		b.conserve = false
	}
	b.sampleLongTerm(s)
	bw := uint64(s.Rate.Delivered) * bwUnit / uint64(s.Rate.Interval)
	if !s.Rate.AppLimited || bw >= uint64(b.bw.Value()) {
		b.bw.Update(bbrBWRounds, b.rounds, uint32(bw))
	}
}

// phaseOver reports whether the phase of the gain cycle is at its end: after a
// least round trip, and for probing not before the network holds what it was
// to try, unless that lost packets; giving back ends as soon as the queue is
// gone (bbr_is_next_cycle_phase).
func (b *bbr) phaseOver(s *Sample) bool {
	long := uint64(max(s.DeliveredAt-b.cycleStart, 0)) > uint64(b.minRTT)
	if b.pacingGain == gainUnit {
		return long
	}
	net, bw := b.inNetwork(s, s.PriorFlight), b.bw.Value()
	if b.pacingGain > gainUnit {
		return long && (s.Losses > 0 || net >= b.inflight(s, bw, b.pacingGain))
	}
	return long || net <= b.inflight(s, bw, gainUnit)
}

func (b *bbr) advancePhase(s *Sample) {
	b.cycleIdx = (b.cycleIdx + 1) % bbrCycleLen
	b.cycleStart = s.DeliveredAt
}

// startProbeBW begins the gain cycle in any phase but the slow one, by chance
// (bbr_reset_probe_bw_mode).
func (b *bbr) startProbeBW(s *Sample) {
	b.mode = bbrProbeBW
	b.cycleIdx = bbrCycleLen - 1 - b.draw()
	b.advancePhase(s)
}

// draw returns a number below seven: the fixed one at first, if there is one,
// then what the seed gives (splitmix64).
func (b *bbr) draw() uint8 {
	if p := b.opt.Phase; p != 0 {
		b.opt.Phase = 0
		return (p - 1) % bbrCycleStarts
	}
	b.rand += 0x9e3779b97f4a7c15
	z := b.rand
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return uint8((z ^ z>>31) % bbrCycleStarts)
}

// checkFull finds the pipe full when the bandwidth grew by less than a quarter
// in each of three rounds (bbr_check_full_bw_reached).
func (b *bbr) checkFull(s *Sample) {
	if b.full || !b.roundStart || s.Rate.AppLimited {
		return
	}
	if bw := b.bw.Value(); uint64(bw) >= uint64(b.fullBW)*bbrFullBWGain>>gainShift {
		b.fullBW, b.fullCnt = bw, 0
		return
	}
	b.fullCnt++
	b.full = b.fullCnt >= bbrFullBWRounds
}

// checkDrain ends STARTUP when the pipe is full, and DRAIN when the queue that
// STARTUP made is gone (bbr_check_drain).
func (b *bbr) checkDrain(w *Window, s *Sample) {
	if b.mode == bbrStartup && b.full {
		b.mode = bbrDrain
		if b.opt.EDT {
			w.Ssthresh = b.inflight(s, b.bw.Value(), gainUnit)
		}
	}
	if b.mode == bbrDrain && b.inNetwork(s, s.InFlight) <= b.inflight(s, b.bw.Value(), gainUnit) {
		b.startProbeBW(s)
	}
}

// inNetwork is the segments that will be in the network when the next packet
// departs: with departure times some of flight waits here, and what is there
// now goes on being delivered (bbr_packets_in_net_at_edt, v4.20).
func (b *bbr) inNetwork(s *Sample, flight uint32) uint32 {
	if !b.opt.EDT {
		return flight
	}
	if b.pacingGain > gainUnit {
		flight += b.tsoGoal(s.PacingRate, s)
	}
	done := uint32(uint64(b.bandwidth()) * uint64(max(s.Ahead, 0)) >> bwShift)
	return flight - min(done, flight)
}

// updateMinRTT keeps the least round trip of ten seconds, and if no other was
// seen for so long, empties the path for a moment to see it (bbr_update_min_rtt).
func (b *bbr) updateMinRTT(w *Window, s *Sample) {
	expired := int32(s.Jiffies-b.minRTTStamp-bbrMinRTTSecs*b.hz) > 0
	if s.RTT >= 0 && (b.lower(uint32(s.RTT)) || (expired && !s.Rate.AckDelayed)) {
		b.minRTT, b.minRTTStamp = uint32(s.RTT), s.Jiffies
	}
	if expired && !b.idleRestart && b.mode != bbrProbeRTT {
		b.mode = bbrProbeRTT
		b.saveCwnd(w)
		b.probeDone = 0
	}
	if b.mode == bbrProbeRTT {
		b.probeRTT(w, s)
	}
	if s.Rate.Delivered > 0 {
		b.idleRestart = false
	}
}

// lower reports whether a round trip renews the minimum.
func (b *bbr) lower(rtt uint32) bool { return rtt < b.minRTT || (!b.opt.RTTStrict && rtt == b.minRTT) }

// probeRTT waits until the path is nearly empty, and then for 200 ms and a
// round. What is measured meanwhile does not count as bandwidth.
func (b *bbr) probeRTT(w *Window, s *Sample) {
	w.AppLimited = max(1, s.DeliveredAll+uint64(s.InFlight))
	switch {
	case b.probeDone == 0 && s.InFlight <= bbrMinCwnd:
		b.probeDone = s.Jiffies + (bbrProbeRTTMs*b.hz+999)/1000
		b.probeRound = false
		b.nextRound = s.DeliveredAll
	case b.probeDone != 0:
		b.probeRound = b.probeRound || b.roundStart
		if b.probeRound {
			b.leaveProbeRTT(w, s)
		}
	}
}

// leaveProbeRTT goes back to what was before, if the time has come
// (bbr_check_probe_rtt_done).
func (b *bbr) leaveProbeRTT(w *Window, s *Sample) {
	if b.probeDone == 0 || int32(s.Jiffies-b.probeDone) <= 0 {
		return
	}
	b.minRTTStamp = s.Jiffies
	w.Cwnd = max(w.Cwnd, b.priorCwnd)
	if b.full {
		b.startProbeBW(s)
		return
	}
	b.mode = bbrStartup
}

// updateGains sets the gains of the mode (bbr_update_gains).
func (b *bbr) updateGains() {
	switch b.mode {
	case bbrStartup:
		b.pacingGain, b.cwndGain = bbrHighGain, bbrHighGain
	case bbrDrain:
		b.pacingGain, b.cwndGain = bbrDrainGain, bbrHighGain
	case bbrProbeBW:
		b.pacingGain, b.cwndGain = bbrCycle[b.cycleIdx], bbrCwndGain
		if b.lt.use {
			b.pacingGain = gainUnit
		}
	case bbrProbeRTT:
		b.pacingGain, b.cwndGain = gainUnit, gainUnit
	}
}
