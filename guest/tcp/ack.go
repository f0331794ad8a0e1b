package tcp

import (
	"github.com/vnetbench/vnetbench/guest/tcp/cc"
	"github.com/vnetbench/vnetbench/guest/vcpu"
)

// What one ACK turned out to be (FLAG_* of tcp_input.c).
const (
	flagWinUpdate    uint16 = 1 << iota // it changed the window
	flagDataAcked                       // it acknowledged data
	flagRetransAcked                    // some of which was retransmitted
	flagDataSacked                      // it SACKed data
	flagUnaAdvanced                     // it moved the left edge
	flagECE                             // it echoes a congestion mark
	flagSetTimer                        // the retransmission timer starts anew
	flagMaybeDelayed                    // the receiver may have held it back
	flagDSACK                           // it reports a duplicate
	flagReneging                        // the receiver gave up SACKed data
	flagOrigSacked                      // data from before the recovery arrived that was sent once only
	flagLostRetrans                     // a retransmission was lost
	flagDSACKTLP                        // the duplicate is a tail loss probe
)

const flagNotDup = flagWinUpdate | flagDataAcked

// ackState is the working state of one ACK.
type ackState struct {
	flag        uint16
	priorUna    uint32
	priorFlight uint32
	priorSacked uint32
	priorFack   uint32 // end of the highest SACKed segment before this ACK
	reord       uint32 // lowest segment that was overtaken
	rttTaken    bool   // a round trip was taken
	priorReneg  bool   // the receiver gave up SACKed data, and the recovery from that goes on
	lostBefore  uint64
	dlvBefore   uint64
	pktsAcked   uint32
	firstAckt   int64 // send time of the first newly acknowledged, never retransmitted segment, µs; -1: none
	lastAckt    int64 // of the last one
	firstSackt  int64 // the same for newly SACKed segments
	lastSackt   int64
	rttUs       int64 // round trip of the last (S)ACKed segment, µs; -1: none
	tsEcr       uint32
	tick        uint32 // jiffies, which do not pass while an ACK is processed
}

// backlogAck is an acknowledgement that waits for the socket's user.
type backlogAck struct {
	a     Ack
	sacks [4]Range
}

// Input processes one incoming acknowledgement in softirq context. While a
// Write is under way further up the stack it is kept for the end of it.
//
// It reads the clock once (tcp_mstamp_refresh in tcp_rcv_established, v4.13),
// and the write loop that follows reads it again if anything is queued.
func (s *Sock) Input(a Ack) {
	if s.owned {
		s.addBacklog(&a)
		return
	}
	s.receive(&a)
}

// addBacklog keeps an acknowledgement until the socket is free. If it moves on
// from the last one that waits, and their options are the same, it takes that
// one's place (tcp_add_backlog, v5.0).
func (s *Sock) addBacklog(a *Ack) {
	s.cnt.Backlogged++
	if n := len(s.backlog); s.cfg.Switches.BacklogMerge && n > s.spliced && len(a.Sacks)+s.backlogSacks[n-1] == 0 {
		t := &s.backlog[n-1].a
		if after(a.Ack, t.Ack) && a.TSVal == t.TSVal && a.TSEcr == t.TSEcr && a.ECE == t.ECE {
			t.Ack, t.Wnd = a.Ack, a.Wnd
			return
		}
	}
	b := backlogAck{a: *a}
	n := copy(b.sacks[:], a.Sacks)
	b.a.Sacks = nil
	s.backlog = append(s.backlog, b)
	s.backlogSacks = append(s.backlogSacks, n)
}

// drainBacklog processes the acknowledgements that came while the socket was in
// use, and reports whether there were any.
func (s *Sock) drainBacklog() bool {
	any := len(s.backlog) > 0
	for i := 0; i < len(s.backlog); i++ { // receiving one can add to the list
		if i == s.spliced {
			s.spliced = len(s.backlog) // what comes now is not added to these
		}
		b := &s.backlog[i]
		a := b.a
		s.sackBuf = b.sacks
		a.Sacks = s.sackBuf[:s.backlogSacks[i]]
		s.receive(&a)
	}
	s.backlog, s.backlogSacks, s.spliced = s.backlog[:0], s.backlogSacks[:0], 0
	return any
}

// lock begins the use of the socket by a process (lock_sock). Softirqs that wait
// run now, and find it in use.
func (s *Sock) lock() {
	s.owned = true
	s.bh.DisableBH()
	s.bh.EnableBH()
}

// release ends the use of the socket by a process: what came meanwhile is
// processed now (release_sock).
func (s *Sock) release() {
	if len(s.backlog) > 0 {
		s.drainBacklog()
	}
	s.bh.DisableBH()
	s.releaseCallback()
	s.owned = false
	s.bh.EnableBH()
}

// releaseCallback does what softirqs left to the user of the socket, with
// softirqs off (tcp_release_cb).
func (s *Sock) releaseCallback() {
	s.quiet = true
	if s.tsqFlags&tsqDeferred != 0 {
		s.tsqFlags &^= tsqDeferred
		s.tsqWrite()
	}
	if s.timerDeferred {
		s.timerDeferred = false
		s.runTimer()
	}
	if len(s.backlog) > 0 {
		s.drainBacklog()
	}
	s.quiet = false
}

// receive is the receive path for an ACK: the ACK, then the write loop, then
// space for the writer (tcp_rcv_established).
func (s *Sock) receive(a *Ack) {
	s.cnt.Acks++
	s.env.Charge(vcpu.OpTCPAck, 1)
	s.refreshClock()
	if !s.cfg.Switches.ClockCache && (s.cfg.Switches.RTTUs || s.rttStamp) && s.packetsOut > 0 {
		s.clock = s.readClock() // the retransmit queue is cleaned with a reading of its own
	}
	s.ack(a)
	if s.wq.head != nil {
		s.pushPending(s.mss, s.nonagle)
	}
	s.checkSpace()
}

// ack processes the acknowledgement proper (tcp_ack).
func (s *Sock) ack(a *Ack) {
	st := &s.work.st
	*st = ackState{}
	st.priorUna, st.priorFlight, st.priorSacked = s.sndUna, s.inFlight(), s.sackedOut
	st.priorFack, st.priorReneg = s.fack(), s.sackReneg
	st.lostBefore, st.dlvBefore = s.lostTotal, s.dlv.total
	st.firstAckt, st.lastAckt, st.firstSackt, st.lastSackt, st.rttUs = -1, -1, -1, -1, -1
	st.tsEcr, st.tick = a.TSEcr, s.jiffies()
	if after(a.Ack, s.sndNxt) {
		s.cnt.BadAcks++
		return
	}
	s.dlv.rateReset()
	if before(a.Ack, s.sndUna) {
		s.oldAck(a, st)
		return
	}
	priorPackets := s.packetsOut
	s.advance(a, st)
	if a.ECE && s.ecnOK {
		st.flag |= flagECE
	}
	if len(a.Sacks) > 0 && s.sackOK {
		s.sackTag(a.Sacks, st)
	}
	s.probesOut = 0
	if priorPackets == 0 {
		s.tellDelivered()
		if st.flag&flagDSACK != 0 {
			s.fastRetransAlert(st, false)
		}
		s.ackProbe()
		s.tlpAck(a.Ack, st)
		return
	}
	s.cleanRtx(st)
	s.rackUpdateWindow()
	s.tellDelivered()
	s.tlpAck(a.Ack, st)
	kind := rexmitNone
	if s.dubious(st) {
		kind = s.fastRetransAlert(st, st.flag&(flagUnaAdvanced|flagNotDup|flagDSACK) == 0)
	}
	if st.flag&flagSetTimer != 0 && !s.scheduleTLP(true) {
		s.rearmRTO()
	}
	s.congestion(st)
	s.sendRecovery(kind)
}

// oldAck looks at an ACK that another one overtook: what it SACKs counts.
func (s *Sock) oldAck(a *Ack, st *ackState) {
	s.cnt.OldAcks++
	if len(a.Sacks) == 0 || !s.sackOK || s.sndUna-a.Ack > s.maxWindow {
		return
	}
	s.sackTag(a.Sacks, st)
	s.sendRecovery(s.fastRetransAlert(st, false))
}

// tellDelivered tells congestion control that looks at every ACK.
func (s *Sock) tellDelivered() {
	if s.ackCC != nil {
		s.ackCC.OnDelivered(&s.win, s.sample())
	}
}

// advance moves the left edge and takes the window that the ACK offers
// (tcp_ack_update_window).
func (s *Sock) advance(a *Ack, st *ackState) {
	forward := after(a.Ack, s.sndUna)
	if forward {
		st.flag |= flagUnaAdvanced
		s.retransmits = 0
	}
	if forward || a.Wnd > s.sndWnd {
		st.flag |= flagWinUpdate
		if a.Wnd != s.sndWnd {
			s.newWindow(a.Wnd)
		}
	}
	s.cnt.BytesAcked += uint64(a.Ack - s.sndUna)
	s.sndUna = a.Ack
}

// newWindow takes a window of another size. If data waits for it, an idle time
// before counts (v4.3); a larger one than ever bounds the segment size anew.
func (s *Sock) newWindow(wnd uint32) {
	s.sndWnd = wnd
	if s.wq.head != nil && s.cfg.Switches.IdleEntail {
		s.checkIdle(s.packetsOut == 0)
	}
	if wnd > s.maxWindow {
		s.maxWindow = wnd
		s.mss = s.boundHalf(s.cfg.MSS)
	}
}

// congestion lets congestion control see the ACK: it may cut or raise the
// window, and the pacing rate follows (tcp_cong_control).
func (s *Sock) congestion(st *ackState) {
	delivered := uint32(s.dlv.total - st.dlvBefore)
	s.rateGen(delivered, st)
	losses := uint32(s.lostTotal - st.lostBefore)
	smp := s.sampleAt(st.tick)
	smp.Acked, smp.RTT, smp.Losses = delivered, st.rttUs, losses
	smp.PriorFlight, smp.Rate = st.priorFlight, s.dlv.rs
	if s.rateCC != nil {
		s.rateCC.OnRate(&s.win, smp)
		return
	}
	if s.reducing() {
		s.reduceCwnd(delivered, losses, st.flag)
	} else if st.flag&s.progress() != 0 {
		smp.CwndLimited = s.cwndLimited(st.priorFlight)
		s.cc.OnAck(&s.win, smp)
		s.cwndStamp = smp.Jiffies
	}
	s.updateRate()
}

// progress is the flags that let the window grow: where packets overtake each
// other much, SACKs do too (tcp_may_raise_cwnd).
func (s *Sock) progress() uint16 {
	if s.reordering > uint32(s.cfg.Sysctl.Reordering) {
		return flagDataAcked | flagDataSacked
	}
	return flagDataAcked
}

// sample fills the event that congestion control is told of.
func (s *Sock) sample() *cc.Sample { return s.sampleAt(s.jiffies()) }

// sampleAt is sample in a known tick.
func (s *Sock) sampleAt(tick uint32) *cc.Sample {
	p := &s.work.smp
	p.Now, p.Jiffies = s.clock, tick
	p.Acked, p.RTT, p.Losses = 0, -1, 0
	p.SRTT, p.RTTMin = s.srttUs(), s.minRTT.Value()
	p.SndUna, p.SndNxt = s.sndUna, s.sndNxt
	p.InFlight, p.PriorFlight = s.inFlight(), s.inFlight()
	p.MSS, p.GSOMaxSize = s.mss, s.gsoMax
	p.PacingRate, p.Paced = s.win.Pacing, s.cfg.Pacing != PacingNone
	p.MaxPacing = s.maxPacing
	p.CwndLimited = false
	p.DeliveredAll, p.DeliveredAt, p.LostAll = s.dlv.total, s.dlv.at, s.lostTotal
	p.Ahead = int64(max(s.wstamp-s.clock, 0)) / 1000
	p.State, p.MarkedAll, p.PriorCwnd, p.ECN = s.ca, s.dlv.marked, s.priorCwnd, s.ecnOK
	return p
}
