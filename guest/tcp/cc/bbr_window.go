package cc

// bytesPerSec converts a bandwidth to bytes/s. With departure times it counts
// payload and takes 1 % off, so that queues drain; before, it counts whole
// packets (bbr_rate_bytes_per_sec).
func (b *bbr) bytesPerSec(bw uint64, gain, mss uint32) uint64 {
	if b.opt.EDT {
		return bw * uint64(mss) * uint64(gain) >> gainShift * 990_000 >> bwShift
	}
	return bw * uint64(mss+b.opt.HeaderBytes) * uint64(gain) >> gainShift * 1_000_000 >> bwShift
}

// initPacing sets the rate from the window and the smoothed round trip, taken
// as 1 ms if there is none yet (bbr_init_pacing_rate_from_rtt).
func (b *bbr) initPacing(w *Window, s *Sample) {
	rtt := uint32(1000)
	if s.SRTT != 0 {
		rtt = max(s.SRTT>>3, 1)
		b.seenRTT = true
	}
	bw := uint32(uint64(w.Cwnd) * bwUnit / uint64(rtt))
	w.Pacing = min(b.bytesPerSec(uint64(bw), bbrHighGain, s.MSS), s.MaxPacing)
}

// setPacing paces at a gain times the bandwidth; until the pipe is full the
// rate does not fall (bbr_set_pacing_rate).
func (b *bbr) setPacing(w *Window, s *Sample, bw, gain uint32) {
	rate := min(b.bytesPerSec(uint64(bw), gain, s.MSS), s.MaxPacing)
	if !b.seenRTT && s.SRTT != 0 {
		b.initPacing(w, s)
	}
	if b.full || rate > w.Pacing {
		w.Pacing = rate
	}
	s.PacingRate = w.Pacing
}

// bdp is what the path holds at a gain, segments, rounded up (bbr_bdp).
func (b *bbr) bdp(bw, gain uint32) uint32 {
	if b.minRTT == 1<<32-1 {
		return bbrInitCwnd
	}
	v := uint64(bw) * uint64(b.minRTT)
	return uint32((v*uint64(gain)>>gainShift + bwUnit - 1) / bwUnit)
}

// tsoGoal is the segments of a packet that the window allows for: what about a
// millisecond takes at the pacing rate, whatever the device's bound
// (bbr_tso_segs_goal). Up to v4.16 it is what the last ACK left.
func (b *bbr) tsoGoal(pacing uint64, s *Sample) uint32 {
	if b.opt.StoredGoal {
		return b.goal
	}
	bytes := min(pacing>>10, uint64(65536-1-b.opt.MaxHdr))
	return min(max(uint32(bytes/uint64(s.MSS)), b.MinTSOSegs(pacing)), bbrGoalMax)
}

// storedGoal is the goal as the socket's own autosizing gives it. Where that
// knows gso_max_segs, a device without GSO makes it one segment, which is what
// report 003 is about; where it does not, the bound in bytes of such a device
// wraps, and only seven bits bound it (bbr_set_tso_segs_goal, v4.9 to v4.16).
func (b *bbr) storedGoal(w *Window, s *Sample) uint32 {
	bytes := min(w.Pacing>>10, uint64(b.opt.GSORoom))
	segs := max(uint32(bytes/uint64(s.MSS)), b.MinTSOSegs(w.Pacing))
	if !b.opt.GSOUnaware {
		segs = min(segs, b.opt.GSOSegs)
	}
	return min(segs, bbrGoalMax)
}

// quantize adds room for packets on their way through the two hosts, and makes
// the window even, so that no ACK is delayed for want of a second segment
// (bbr_quantization_budget).
func (b *bbr) quantize(s *Sample, cwnd uint32) uint32 {
	cwnd += bbrQuantum * b.tsoGoal(s.PacingRate, s)
	cwnd = (cwnd + 1) &^ 1
	if b.opt.PlusTwo && b.mode == bbrProbeBW && b.cycleIdx == 0 {
		cwnd += 2
	}
	return cwnd
}

// inflight is the segments in flight that fill the path at a gain.
func (b *bbr) inflight(s *Sample, bw, gain uint32) uint32 { return b.quantize(s, b.bdp(bw, gain)) }

// saveCwnd remembers a window that was good, for the end of a recovery or of
// PROBE_RTT (bbr_save_cwnd).
func (b *bbr) saveCwnd(w *Window) {
	if b.prevState < Recovery && b.mode != bbrProbeRTT {
		b.priorCwnd = w.Cwnd
		return
	}
	b.priorCwnd = max(b.priorCwnd, w.Cwnd)
}

// setCwnd moves the window towards its target as segments are delivered
// (bbr_set_cwnd).
func (b *bbr) setCwnd(w *Window, s *Sample, bw uint32) {
	cwnd := w.Cwnd
	if s.Acked == 0 {
		if !b.opt.IdleExit {
			return
		}
	} else if cwnd = b.recover(w, s); !b.conserve {
		cwnd = b.towards(cwnd, s, bw)
	}
	w.Cwnd = min(cwnd, w.Clamp)
	if b.mode == bbrProbeRTT {
		w.Cwnd = min(w.Cwnd, bbrMinCwnd)
	}
}

// towards is the window after growth to, or a cut to, its target. It is cut
// only when the pipe was once full.
func (b *bbr) towards(cwnd uint32, s *Sample, bw uint32) uint32 {
	target := b.quantize(s, b.bdp(bw, b.cwndGain)+b.aggregationCwnd())
	if b.full {
		cwnd = min(cwnd+s.Acked, target)
	} else if cwnd < target || s.DeliveredAll < bbrInitCwnd {
		cwnd += s.Acked
	}
	return max(cwnd, bbrMinCwnd)
}

// recover is the window after what a recovery does to it: lost segments are
// taken off, the first round sends as much as is delivered, and the end of it
// brings back the old window (bbr_set_cwnd_to_recover_or_restore).
func (b *bbr) recover(w *Window, s *Sample) uint32 {
	cwnd := w.Cwnd
	if s.Losses > 0 {
		cwnd = uint32(max(int32(cwnd-s.Losses), 1))
	}
	switch {
	case s.State == Recovery && b.prevState != Recovery:
		b.conserve = true
		b.nextRound = s.DeliveredAll
		cwnd = s.InFlight + s.Acked
	case s.State < Recovery && b.prevState >= Recovery:
		b.conserve = false
		cwnd = max(cwnd, b.priorCwnd)
	}
	b.prevState = s.State
	if b.conserve {
		cwnd = max(cwnd, s.InFlight+s.Acked)
	}
	return cwnd
}
