package tcp

import "github.com/vnetbench/vnetbench/virtio/vtime"

// updateRate computes the pacing rate from window and round trip
// (tcp_update_pacing_rate).
func (s *Sock) updateRate() {
	win := uint64(max(s.win.Cwnd, s.packetsOut))
	switch s.cfg.Switches.Rate {
	case RateNone:
		return
	case RateJiffies:
		s.win.Pacing = s.rateJiffies(win)
	case RateFixed:
		s.win.Pacing = s.ratePercent(win, 200)
	default:
		ratio := s.cfg.Sysctl.PacingCARatio
		if s.win.Cwnd < s.win.Ssthresh/2 {
			ratio = s.cfg.Sysctl.PacingSSRatio
		}
		s.win.Pacing = s.ratePercent(win, uint64(ratio))
	}
	s.win.Pacing = min(s.win.Pacing, s.cfg.MaxPacingRate)
}

// ratePercent is a share, in percent, of the window per smoothed round trip.
func (s *Sock) ratePercent(win, percent uint64) uint64 {
	rate := uint64(s.mss) * 80000 * percent * win
	if srtt := s.srttUs(); srtt != 0 {
		rate /= uint64(srtt)
	}
	return s.clampRate(rate)
}

// rateJiffies is twice the window per round trip, in ticks. A round trip of
// about a tick or less is not divided by (v3.12 to v3.14).
func (s *Sock) rateJiffies(win uint64) uint64 {
	rate := uint64(s.mss) * 2 * uint64(s.cfg.HZ) << 3 * win
	if srtt := s.srttTicks(); srtt > 10 {
		rate /= uint64(srtt)
	}
	return s.clampRate(rate)
}

// clampRate bounds a rate to 32 bits in kernels that keep it so (before v4.20).
func (s *Sock) clampRate(rate uint64) uint64 {
	if s.cfg.Switches.Pace != PaceEDT {
		return min(rate, s.noRate())
	}
	return rate
}

// noRate is the value of an unlimited rate: all ones, 32 bits before v4.20.
func (s *Sock) noRate() uint64 {
	if s.cfg.Switches.Pace != PaceEDT {
		return 1<<32 - 1
	}
	return Unlimited
}

// paces reports whether a packet's departure delays the next one.
func (s *Sock) paces() bool {
	return s.win.Pacing != s.noRate() && s.win.Pacing != 0 && s.cfg.Pacing != PacingNone
}

// pacedOut accounts for a packet of n payload bytes that just left; prior is the
// departure clock before it (tcp_update_skb_after_send, tcp_internal_pacing).
// The timer of v4.13 to v4.19 starts from a clock reading of its own.
func (s *Sock) pacedOut(n uint32, prior vtime.Time) {
	if !s.paces() {
		return
	}
	switch s.cfg.Switches.Pace {
	case PaceTimer:
		if s.cfg.Pacing == PacingNeeded && n > 0 {
			s.pacingAt = s.readClock() + vtime.Time(uint64(n+tcpHeaderLen)*1_000_000_000/s.win.Pacing)
		}
	case PaceEDT:
		if s.dataSegsOut < 10 {
			return
		}
		d := uint64(n) * 1_000_000_000 / s.win.Pacing
		credit := uint64(s.wstamp - prior)
		s.wstamp += vtime.Time(d - min(d/2, credit))
	}
}

// pacingBlocks reports whether the next packet must wait, and sees to a timer
// (tcp_pacing_check). Starting it programs the clock event device, which reads
// the clock with interrupts off; that is not a reading that costs time.
func (s *Sock) pacingBlocks() bool {
	if s.cfg.Pacing != PacingNeeded {
		return false
	}
	switch s.cfg.Switches.Pace {
	case PaceTimer:
		return s.pacingAt != vtime.Never
	case PaceEDT:
		if s.wstamp <= s.clock {
			return false
		}
		if s.pacingAt == vtime.Never {
			s.pacingAt = s.wstamp
		}
		return true
	}
	return false
}
