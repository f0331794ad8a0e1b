package cc

// Parameters of the estimate of ACK aggregation (net/ipv4/tcp_bbr.c, v5.1).
const (
	aggrRounds   = 5          // a slot covers so many rounds
	aggrReset    = 1 << 20    // segments after which an epoch ends
	aggrAckedMax = 0xfffff    // 20 bits
	aggrMaxUs    = 100 * 1000 // bound of the bonus, µs at the bandwidth
)

// aggregation estimates how much more the path acknowledges at once than its
// bandwidth says, over the last five to ten rounds.
type aggregation struct {
	start  int64 // µs; start of this epoch
	acked  uint32
	extra  [2]uint16 // largest excess of the rounds of a slot, segments
	rounds uint8     // rounds of the slot in use
	slot   uint8
}

// updateAggregation takes an ACK. An epoch lasts as long as more is
// acknowledged than the bandwidth explains (bbr_update_ack_aggregation).
func (b *bbr) updateAggregation(w *Window, s *Sample) {
	if s.Acked == 0 || s.Rate.Delivered < 0 || s.Rate.Interval <= 0 {
		return
	}
	a := &b.aggr
	if b.roundStart {
		if a.rounds++; a.rounds >= aggrRounds {
			a.rounds = 0
			a.slot ^= 1
			a.extra[a.slot] = 0
		}
	}
	us := uint32(max(s.DeliveredAt-a.start, 0))
	expected := uint32(uint64(b.bandwidth()) * uint64(us) >> bwShift)
	if a.acked <= expected || a.acked+s.Acked >= aggrReset {
		a.acked, a.start, expected = 0, s.DeliveredAt, 0
	}
	a.acked = min(a.acked+s.Acked, aggrAckedMax)
	if extra := min(a.acked-expected, w.Cwnd); extra > uint32(a.extra[a.slot]) {
		a.extra[a.slot] = uint16(extra)
	}
}

// aggregationCwnd is the segments that the window has more for it, once the
// pipe was full (bbr_ack_aggregation_cwnd).
func (b *bbr) aggregationCwnd() uint32 {
	if !b.opt.Aggregate || !b.full {
		return 0
	}
	most := uint32(uint64(b.bandwidth()) * aggrMaxUs >> bwShift)
	return min(uint32(max(b.aggr.extra[0], b.aggr.extra[1])), most)
}
