package tcp

import "github.com/vnetbench/vnetbench/guest/tcp/cc"

// Parameters of RACK (net/ipv4/tcp_recovery.c, v6.1; RFC 8985).
const (
	rackRecoveries = 16   // recoveries that a wider window lasts for (TCP_RACK_RECOVERY_THRESH)
	rackMinUs      = 2000 // added to its timer, µs (TCP_TIMEOUT_MIN_US)
)

// rackState is the time of what was delivered last, by which segments that were
// sent before it are found lost.
type rackState struct {
	at        int64  // send time of the most recently sent delivered segment, µs
	end       uint32 // its end
	rttUs     uint32 // its round trip, µs
	advanced  bool   // something was delivered since the last look
	dsack     bool   // a duplicate was reported that reordering may have caused
	steps     uint8  // reordering window, in quarters of the least round trip
	persist   uint8  // recoveries until it shrinks
	delivered uint64 // delivered count when it was widened
}

// sentAfter orders transmissions by time, then by sequence number
// (tcp_skb_sent_after).
func sentAfter(t1, t2 int64, seq1, seq2 uint32) bool {
	return t1 > t2 || (t1 == t2 && after(seq1, seq2))
}

// rackAdvance takes an entry that was delivered and left at sent, µs. If it was
// retransmitted and its round trip is too short, it is the original that arrived
// (tcp_rack_advance).
func (s *Sock) rackAdvance(g *seg, sent int64) {
	if s.cfg.Switches.Loss != LossRACK {
		return
	}
	r := &s.rack
	rtt := uint32(max(micro(s.clock)-sent, 0))
	if rtt < s.minRTT.Value() && g.mark&(markRetrans|markEver) != 0 {
		return
	}
	r.advanced, r.rttUs = true, rtt
	if sentAfter(sent, r.at, g.end, r.end) {
		r.at, r.end = sent, g.end
	}
}

// rackWindow is how long a segment may be overtaken before it counts as lost,
// µs (tcp_rack_reo_wnd).
func (s *Sock) rackWindow() uint32 {
	if s.reordSeen == 0 && (s.ca >= cc.Recovery || s.sackedOut >= s.reordering) {
		return 0
	}
	return min(s.minRTT.Value()>>2*uint32(s.rack.steps), s.srttUs()>>3)
}

// rackRemaining is how long it takes until an entry counts as lost, µs
// (tcp_rack_skb_timeout).
func (s *Sock) rackRemaining(g *seg, window uint32) int64 {
	return int64(s.rack.rttUs) + int64(window) - max(micro(s.clock)-micro(g.sent), 0)
}

// rackDetect marks entries that were sent long enough before one that was
// delivered. It returns the longest time that another has left, µs
// (tcp_rack_detect_loss).
func (s *Sock) rackDetect() (wait int64) {
	window := s.rackWindow()
	for g := s.sentHead; g != nil; {
		next := g.sentNext
		if g.mark&(markLost|markRetrans) == markLost {
			g = next
			continue
		}
		if !sentAfter(s.rack.at, micro(g.sent), s.rack.end, g.end) {
			break
		}
		if left := s.rackRemaining(g, window); left > 0 {
			wait = max(wait, left)
		} else {
			s.markLost(g)
			s.unlistSent(g)
		}
		g = next
	}
	return wait
}

// rackMarkLost looks for losses after something was delivered, and reports
// whether a timer waits for more (tcp_rack_mark_lost).
func (s *Sock) rackMarkLost() bool {
	if !s.rack.advanced {
		return false
	}
	s.rack.advanced = false
	wait := s.rackDetect()
	if wait > 0 {
		s.setTimer(pendingReorder, min(s.minTicks(wait, rackMinUs), s.rto))
	}
	return wait > 0
}

// rackTimeout marks and retransmits what stayed out too long
// (tcp_rack_reo_timeout).
func (s *Sock) rackTimeout() {
	flight, lost := s.inFlight(), s.lostTotal
	s.rackDetect()
	if flight != s.inFlight() {
		if s.ca != cc.Recovery {
			s.enterRecovery(false)
			if s.rateCC == nil {
				s.reduceCwnd(1, uint32(s.lostTotal-lost), 0)
			}
		}
		s.retransmitQueue()
	}
	if s.pending != pendingRTO {
		s.rearmRTO()
	}
}

// rackUpdateWindow widens the reordering window when a duplicate was reported,
// at most once per round trip (tcp_rack_update_reo_wnd).
func (s *Sock) rackUpdateWindow() {
	r, prior := &s.rack, s.dlv.rs.PriorDelivered
	if prior == 0 {
		return
	}
	if prior < r.delivered {
		r.dsack = false
	}
	if r.dsack {
		r.steps = uint8(min(0xff, int(r.steps)+1))
		r.dsack = false
		r.delivered = s.dlv.total
		r.persist = rackRecoveries
	} else if r.persist == 0 {
		r.steps = 1
	}
}

// listSent puts an entry at the end of the list of entries by the time of
// their last transmission (tsorted_sent_queue).
func (s *Sock) listSent(g *seg) {
	if s.cfg.Switches.Loss != LossRACK {
		return
	}
	s.unlistSent(g)
	s.listSentAfter(s.sentTail, g)
}

func (s *Sock) listSentAfter(at, g *seg) {
	g.sentOn, g.sentPrev = true, at
	if at == nil {
		g.sentNext, s.sentHead = s.sentHead, g
	} else {
		g.sentNext, at.sentNext = at.sentNext, g
	}
	if g.sentNext == nil {
		s.sentTail = g
	} else {
		g.sentNext.sentPrev = g
	}
}

// unlistSent takes an entry off that list if it is on it.
func (s *Sock) unlistSent(g *seg) {
	if !g.sentOn {
		return
	}
	if g.sentPrev == nil {
		s.sentHead = g.sentNext
	} else {
		g.sentPrev.sentNext = g.sentNext
	}
	if g.sentNext == nil {
		s.sentTail = g.sentPrev
	} else {
		g.sentNext.sentPrev = g.sentPrev
	}
	g.sentOn, g.sentNext, g.sentPrev = false, nil, nil
}
