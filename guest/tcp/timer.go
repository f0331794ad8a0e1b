package tcp

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp/cc"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// pendingKind is what the one retransmission timer waits for (ICSK_TIME_*).
type pendingKind uint8

const (
	pendingNone    pendingKind = iota
	pendingRTO                 // retransmission timeout
	pendingTLP                 // tail loss probe
	pendingProbe               // zero window probe
	pendingReorder             // RACK's reordering timer
)

// setTimer starts the timer for an event in so many ticks.
func (s *Sock) setTimer(kind pendingKind, ticks int64) {
	now := s.ticks(s.env.Local())
	s.pending = kind
	s.timerTick = s.wheel(now, now+ticks)
}

// setXmitTimer is the same for a timer that begins when the last packet
// departs (tcp_reset_xmit_timer, v4.20).
func (s *Sock) setXmitTimer(kind pendingKind, ticks int64) {
	if late := s.wstamp - s.clock; late > 0 && int64(late) >= s.tickNs && s.cfg.Switches.Pace == PaceEDT {
		ticks += s.wholeTicks(late)
	}
	s.setTimer(kind, ticks)
}

// wheel is the tick at which a timer runs that is set to one. The timer wheel
// of v4.8 never runs a timer early, and so always at least a tick later than
// asked for; what is further away has coarser slots (kernel/time/timer.c,
// calc_index). Before, a timer ran in the tick that it was set to.
func (s *Sock) wheel(now, expires int64) int64 {
	if !s.cfg.Switches.TimerWheel {
		return max(expires, now+1)
	}
	shift := 0
	for limit := int64(63); expires-now >= limit && shift < 24; limit <<= 3 {
		shift += 3
	}
	return (expires>>shift + 1) << shift
}

// minTicks is a time in ticks with the least margin of a timer added: 2 ms, or
// two ticks before v6.6.
func (s *Sock) minTicks(us, margin int64) int64 {
	if s.cfg.Switches.TimeoutUs {
		return s.usToTicks(us + margin)
	}
	return s.usToTicks(us) + 2
}

func (s *Sock) clearTimer(kind pendingKind) {
	if s.pending == kind || kind == pendingRTO {
		s.pending = pendingNone
	}
}

// rearmRTO starts the retransmission timer, or stops it if nothing is in flight
// (tcp_rearm_rto). Time that a tail loss probe waited counts.
func (s *Sock) rearmRTO() {
	if s.packetsOut == 0 {
		s.clearTimer(pendingRTO)
		return
	}
	rto := s.rto
	if s.pending == pendingTLP || s.pending == pendingReorder {
		rto = s.usToTicks(max(s.rtoDelta(), 1))
	}
	s.setXmitTimer(pendingRTO, rto)
}

// rtoDelta is how far away the timeout of the oldest packet is, µs
// (tcp_rto_delta_us).
func (s *Sock) rtoDelta() int64 {
	h := s.rtx.head
	if h == nil {
		return s.ticksToUs(s.rto)
	}
	return micro(h.sent) + s.ticksToUs(s.rto) - micro(s.clock)
}

// Next returns when Timer wants to be called, or vtime.Never. It may change
// with every call of another method.
func (s *Sock) Next() vtime.Time {
	pacing, wheel := s.Deadlines()
	return min(pacing, wheel)
}

// Deadlines are the two parts of Next: the pacing timer, which is a
// high-resolution timer that expires in a softirq, and the timer of
// retransmissions and probes, which is on the timer wheel.
func (s *Sock) Deadlines() (pacing, wheel vtime.Time) {
	wheel = vtime.Never
	if s.pending != pendingNone {
		wheel = s.tickTime(s.timerTick)
	}
	return s.pacingAt, wheel
}

// Timer runs what is due at now, in softirq context: retransmission, tail loss
// probe, window probe, pacing. The retransmission timer reads the clock once
// before it acts (tcp_write_timer_handler); the pacing timer leaves that to the
// write loop.
func (s *Sock) Timer(now vtime.Time) {
	if s.pacingAt <= now {
		s.pacingAt = vtime.Never
		s.kick()
	}
	if s.pending == pendingNone || s.ticks(now) < s.timerTick {
		return
	}
	if s.owned {
		s.timerDeferred = true
		return
	}
	s.runTimer()
}

func (s *Sock) runTimer() {
	if s.pending == pendingNone || s.ticks(s.env.Local()) < s.timerTick {
		return
	}
	s.refreshClock()
	kind := s.pending
	switch kind {
	case pendingTLP:
		s.sendTLP()
	case pendingReorder:
		s.rackTimeout()
	case pendingRTO:
		s.pending = pendingNone
		s.timeout()
	case pendingProbe:
		s.pending = pendingNone
		s.sendProbe()
	}
}

// timeout retransmits the head of the queue and doubles the timeout
// (tcp_retransmit_timer).
func (s *Sock) timeout() {
	if s.packetsOut == 0 || s.rtx.head == nil {
		return
	}
	s.cnt.Timeouts++
	s.enterLoss()
	s.retransmits++
	s.retransmit(s.rtx.head, 1)
	s.backoff++
	s.rto = min(s.rto<<1, s.usToTicks(rtoMaxUs))
	s.setTimer(pendingRTO, s.rto)
}

// scheduleTLP starts the tail loss probe timer if the state allows, and reports
// whether it did (tcp_schedule_loss_probe). advancing says that the timeout
// would start anew now.
func (s *Sock) scheduleTLP(advancing bool) bool {
	if s.packetsOut == 0 || !s.mayProbe() {
		return false
	}
	ticks := s.probeAfter()
	if advancing {
		ticks = min(ticks, s.rto)
	} else if left := s.rtoDelta(); left > 0 {
		ticks = min(ticks, s.usToTicks(left))
	}
	s.setXmitTimer(pendingTLP, ticks)
	return true
}

// mayProbe reports whether the state allows tail loss probes.
func (s *Sock) mayProbe() bool { return s.probes && s.sackOK && (s.ca == cc.Open || s.ca == cc.CWR) }

// probeAfter is how long the peer may take to acknowledge before a probe goes
// out, in ticks: two round trips, and if it may delay the acknowledgement of a
// single packet the least timeout more.
func (s *Sock) probeAfter() int64 {
	srtt := s.srttUs()
	if srtt == 0 {
		return s.usToTicks(rtoInitUs)
	}
	if s.packetsOut == 1 {
		return s.usToTicks(int64(srtt>>2) + rtoMinUs)
	}
	if srtt != s.ptoSRTT {
		s.ptoSRTT, s.ptoTicks = srtt, s.minTicks(int64(srtt>>2), rackMinUs)
	}
	return s.ptoTicks
}

// sendTLP sends one new packet, or else the last segment again, so that a loss
// at the tail is noticed before the timeout (tcp_send_loss_probe).
func (s *Sock) sendTLP() {
	s.pending = pendingTLP
	if !s.tlpActive && s.probeTail() {
		s.cnt.TLPs++
		s.tlpHigh, s.tlpActive = s.sndNxt, true
		s.pending = pendingNone // so that the timeout starts from now
	}
	s.rearmRTO()
}

func (s *Sock) probeTail() bool {
	s.tlpRetrans = false
	if g := s.wq.head; g != nil && s.windowTest(g, s.mss) {
		was := s.packetsOut
		s.writeLoop(s.mss, nagleOff, 2)
		return s.packetsOut > was
	}
	g := s.rtx.tail
	if g == nil {
		return false
	}
	if g.pcount > 1 && g.len > (g.pcount-1)*g.pmss {
		g = s.splitRtx(g, (g.pcount-1)*g.pmss)
	}
	// The probe is not counted as a retransmission in the network.
	s.cnt.RetransPkts++
	s.cnt.RetransSegs += uint64(g.pcount)
	s.cnt.RetransBytes += uint64(g.len)
	s.tlpRetrans = s.transmit(g, RuleProbe, true)
	g.mark |= markEver
	return s.tlpRetrans
}

// tlpAck ends the episode of a tail loss probe; if the probe repaired a loss,
// the window is reduced (tcp_process_tlp_ack).
func (s *Sock) tlpAck(ack uint32, st *ackState) {
	if !s.tlpActive || before(ack, s.tlpHigh) {
		return
	}
	switch {
	case !s.tlpRetrans || st.flag&flagDSACKTLP != 0:
		s.tlpActive = false
	case after(ack, s.tlpHigh):
		s.tlpActive = false
		s.initReduction()
		s.setState(cc.CWR)
		s.endReduction()
		s.keepOpen()
	case st.flag&(flagUnaAdvanced|flagNotDup|flagDataSacked) == 0:
		s.tlpActive = false
	}
}

// checkProbeTimer starts the zero window probe timer if no other runs
// (tcp_check_probe_timer).
func (s *Sock) checkProbeTimer() {
	if s.packetsOut == 0 && s.pending == pendingNone {
		s.setXmitTimer(pendingProbe, max(s.rto, s.usToTicks(rtoMinUs)))
	}
}

// ackProbe looks at the window that an ACK brought while nothing was in flight
// (tcp_ack_probe).
func (s *Sock) ackProbe() {
	h := s.wq.head
	if h == nil {
		return
	}
	if !after(h.end, s.wndEnd()) {
		s.backoff = 0
		s.clearTimer(pendingProbe)
		return
	}
	s.setXmitTimer(pendingProbe, s.probeTicks())
}

func (s *Sock) probeTicks() int64 {
	base := max(s.rto, s.usToTicks(rtoMinUs))
	return min(base<<min(s.backoff, 9), s.usToTicks(rtoMaxUs))
}

// sendProbe probes a closed window: with as much of the next entry as fits, or
// with an empty packet below the left edge (tcp_send_probe0).
func (s *Sock) sendProbe() {
	if s.packetsOut > 0 || s.wq.head == nil {
		return
	}
	s.cnt.ZeroProbes++
	if g := s.wq.head; before(g.seq, s.wndEnd()) {
		s.probeData(g)
	} else {
		p := s.newPacket()
		p.Seq, p.Flags, p.Rule = s.sndUna-1, skb.ACK, uint8(RuleProbe)
		p.TrueSize = int32(s.cfg.TruesizeOverhead)
		p.Owner = s
		s.wmemAlloc += s.cfg.TruesizeOverhead
		s.env.Transmit(s, p)
	}
	if s.packetsOut > 0 || s.wq.head == nil {
		s.probesOut, s.backoff = 0, 0
		return
	}
	s.probesOut++
	s.backoff = min(s.backoff+1, 15)
	s.setXmitTimer(pendingProbe, s.probeTicks())
}

// probeData sends what the window takes of the head of the write queue, at most
// a segment (tcp_write_wakeup).
func (s *Sock) probeData(g *seg) {
	n := s.wndEnd() - g.seq
	if before(s.pushedSeq, g.end) {
		s.pushedSeq = g.end
	}
	if n < g.end-g.seq || g.len > s.mss {
		if n = min(n, s.mss); n < g.len {
			s.split(&s.wq, g, n, s.mss)
		}
	}
	g.initSegs(s.mss)
	g.flags |= skb.PSH
	if s.transmit(g, RuleProbe, false) {
		s.sentNew(g, s.mss, false)
	}
}
