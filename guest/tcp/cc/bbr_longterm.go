package cc

// Parameters of the long-term bandwidth, by which BBR notices a policer
// (net/ipv4/tcp_bbr.c).
const (
	ltMinRounds = 4  // an interval is at least so many rounds, and at most four times that
	ltLoss      = 50 // of 256 lost per delivered make an interval lossy
	ltRatio     = gainUnit / 8
	ltDiff      = 4000 / 8 // bytes/s
	ltUseRounds = 48       // an estimate is used for so many rounds
)

// longTerm estimates the rate that a token bucket on the path lets through.
type longTerm struct {
	sampling  bool
	use       bool
	rounds    uint8
	bw        uint32
	stamp     uint32 // ms; start of the interval
	delivered uint64
	lost      uint64
}

// restart begins an interval.
func (l *longTerm) restart(s *Sample) {
	l.stamp = uint32(s.DeliveredAt / 1000)
	l.delivered, l.lost = s.DeliveredAll, s.LostAll
	l.rounds = 0
}

// reset forgets everything and begins an interval.
func (l *longTerm) reset(s *Sample) {
	*l = longTerm{}
	l.restart(s)
}

// sampleLongTerm takes an ACK: two lossy intervals of about the same rate tell
// of a policer (bbr_lt_bw_sampling).
func (b *bbr) sampleLongTerm(s *Sample) {
	l := &b.lt
	if l.use {
		if b.mode == bbrProbeBW && b.roundStart {
			if l.rounds++; l.rounds >= ltUseRounds {
				l.reset(s)
				b.startProbeBW(s)
			}
		}
		return
	}
	if !l.sampling {
		if s.Losses == 0 {
			return
		}
		l.restart(s)
		l.sampling = true
	}
	if s.Rate.AppLimited {
		l.reset(s)
		return
	}
	if b.roundStart {
		l.rounds++
	}
	if l.rounds < ltMinRounds {
		return
	}
	if l.rounds > 4*ltMinRounds {
		l.reset(s)
		return
	}
	if s.Losses > 0 {
		b.endInterval(s)
	}
}

// endInterval looks at an interval that ends with a loss, if enough was lost in
// it.
func (b *bbr) endInterval(s *Sample) {
	const msMax = (1<<32 - 1) / 1000
	l := &b.lt
	lost, delivered := uint32(s.LostAll-l.lost), uint32(s.DeliveredAll-l.delivered)
	if delivered == 0 || lost<<gainShift < ltLoss*delivered {
		return
	}
	ms := uint32(s.DeliveredAt/1000) - l.stamp
	if int32(ms) < 1 {
		return
	}
	if ms >= msMax {
		l.reset(s)
		return
	}
	b.compareInterval(s, uint32(uint64(delivered)*bwUnit/uint64(ms*1000)))
}

// compareInterval uses the mean of this and the last interval if they agree
// (bbr_lt_bw_interval_done).
func (b *bbr) compareInterval(s *Sample, bw uint32) {
	l := &b.lt
	if l.bw != 0 {
		diff := max(bw, l.bw) - min(bw, l.bw)
		if diff*gainUnit <= ltRatio*l.bw || b.bytesPerSec(uint64(diff), gainUnit, s.MSS) <= ltDiff {
			l.bw = (bw + l.bw) >> 1
			l.use = true
			b.pacingGain = gainUnit
			l.rounds = 0
			return
		}
	}
	l.bw = bw
	l.restart(s)
}
