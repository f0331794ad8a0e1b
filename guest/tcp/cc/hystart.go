package cc

// HyStart's constants (net/ipv4/tcp_cubic.c).
const (
	hystartLowWindow  = 16 // smallest window at which it looks
	hystartSamples    = 8  // round trips that it takes per round
	hystartAckGap     = 2000
	hystartTrain      = 1
	hystartDelay      = 2
	hystartMinDelayUs = 4000
	hystartMaxDelayUs = 16000
)

// hystart ends slow start before it loses packets: when the ACKs of a round
// come as one long train, or when round trips grow. The old form works in
// milliseconds (delays times 8), the newer ones in microseconds.
type hystart struct {
	opt        *Options
	found      bool
	roundStart int64 // µs; ms in the old form
	lastAck    int64
	endSeq     uint32
	currRTT    uint32
	samples    uint32
}

// now is the time of an event in the form's unit.
func (h *hystart) now(s *Sample) int64 {
	us := int64(s.Now) / 1000
	if h.opt.Hystart == HystartOld {
		return us / 1000
	}
	return us
}

// unit converts a round trip to what the form keeps: µs, or ms times 8.
func (h *hystart) unit(us int64) uint32 {
	if h.opt.Hystart == HystartOld {
		return max(uint32(us<<3/1000), 1)
	}
	return max(uint32(us), 1)
}

// ticks converts such a delay to clock ticks, rounded up.
func (h *hystart) ticks(delay uint32) int64 {
	hz := int64(h.opt.HZ)
	if h.opt.Hystart == HystartOld {
		return (int64(delay>>3)*hz + 999) / 1000
	}
	return (int64(delay)*hz + 999_999) / 1_000_000
}

// slowStart reports whether the window is in slow start; kernels before v3.13
// count the threshold itself to it.
func (h *hystart) slowStart(w *Window) bool {
	return w.Cwnd < w.Ssthresh || (!h.opt.StretchSlowStart && w.Cwnd == w.Ssthresh)
}

// start begins a round (bictcp_hystart_reset).
func (h *hystart) start(s *Sample) {
	h.roundStart = h.now(s)
	h.lastAck = h.roundStart
	h.endSeq = s.SndNxt
	h.currRTT = 1<<32 - 1
	h.samples = 0
}

// roundOver reports whether everything that was sent before the round began is
// acknowledged.
func (h *hystart) roundOver(s *Sample) bool { return int32(s.SndUna-h.endSeq) > 0 }

// update looks at one ACK and ends slow start if it finds what it looks for
// (hystart_update).
func (h *hystart) update(w *Window, s *Sample, delay, delayMin uint32) {
	detect := h.opt.HystartDetect
	if detect == 0 {
		detect = hystartTrain | hystartDelay
	}
	if h.opt.Hystart == HystartRound && h.roundOver(s) {
		h.start(s)
	}
	if w.Cwnd < hystartLowWindow {
		return
	}
	if h.opt.Hystart == HystartLate && h.roundOver(s) {
		h.start(s)
	}
	found := detect&hystartTrain != 0 && h.train(s, delayMin)
	if detect&hystartDelay != 0 && h.delayGrew(delay, delayMin) {
		found = true
	}
	if found {
		h.found = true
		w.Ssthresh = w.Cwnd
	}
}

// train reports whether the ACKs of this round, each close to the last, span
// half of the least round trip.
func (h *hystart) train(s *Sample, delayMin uint32) bool {
	now := h.now(s)
	if h.opt.Hystart == HystartOld {
		if now-h.lastAck > hystartAckGap/1000 {
			return false
		}
		h.lastAck = now
		return now-h.roundStart > int64(delayMin>>4)
	}
	if now-h.lastAck > hystartAckGap {
		return false
	}
	h.lastAck = now
	limit := int64(delayMin) + h.ackDelay(s)
	if !s.Paced {
		limit >>= 1
	}
	return now-h.roundStart > limit
}

// ackDelay allows for the time that the largest packets take to leave, 1 ms at
// most (hystart_ack_delay).
func (h *hystart) ackDelay(s *Sample) int64 {
	if s.PacingRate == 0 {
		return 0
	}
	return int64(min(1000, uint64(s.GSOMaxSize)*4*1_000_000/s.PacingRate))
}

// delayGrew reports whether the least round trip of this round is clearly above
// the least of all.
func (h *hystart) delayGrew(delay, delayMin uint32) bool {
	if h.opt.Hystart != HystartOld {
		h.currRTT = min(h.currRTT, delay)
	}
	if h.samples < hystartSamples {
		h.currRTT = min(h.currRTT, delay)
		h.samples++
		return false
	}
	lo, hi, shift := uint32(hystartMinDelayUs), uint32(hystartMaxDelayUs), uint8(3)
	if h.opt.Hystart == HystartOld {
		lo, hi, shift = 4<<3, 16<<3, h.opt.DelayShift
	}
	return h.currRTT > delayMin+min(max(delayMin>>shift, lo), hi)
}
