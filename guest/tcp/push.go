package tcp

import "github.com/vnetbench/vnetbench/guest/skb"

// Nagle bits (TCP_NAGLE_*).
const (
	nagleOff  uint8 = 1 // TCP_NODELAY
	nagleCork uint8 = 2 // MSG_MORE
	naglePush uint8 = 4 // do not hold this packet back
)

// forcedPush reports whether half the peer's window was written since the last
// byte that was marked to be pushed (forced_push).
func (s *Sock) forcedPush() bool { return after(s.writeSeq, s.pushedSeq+s.maxWindow>>1) }

// markPush sets PSH on an entry (tcp_mark_push).
func (s *Sock) markPush(g *seg) {
	g.flags |= skb.PSH
	s.pushedSeq = s.writeSeq
}

// push ends a sendmsg: it marks the tail, leaves the rest to a completion if
// autocorking says so, and runs the write loop (tcp_push).
func (s *Sock) push(fl WriteFlags, mss uint32, nonagle uint8, goal uint32) {
	tail := s.wq.tail
	if tail == nil {
		return
	}
	if fl&More == 0 || s.forcedPush() {
		s.markPush(tail)
	}
	if s.shouldAutocork(tail, goal) && s.autocork(tail) {
		s.cnt.Stops[StopAutocork]++
		return
	}
	if fl&More != 0 {
		nonagle = nagleCork
	}
	s.pushPending(mss, nonagle)
}

// pushPending runs the write loop, and starts the window probe timer if nothing
// is in flight and nothing could go (__tcp_push_pending_frames).
func (s *Sock) pushPending(mss uint32, nonagle uint8) {
	if s.writeLoop(mss, nonagle, 0) {
		s.checkProbeTimer()
	}
}

// shouldAutocork reports whether a short tail may wait for a transmit
// completion (tcp_should_autocork).
func (s *Sock) shouldAutocork(tail *seg, goal uint32) bool {
	sw := &s.cfg.Switches
	if sw.Autocork == CorkOff || tail.len >= goal || s.cfg.Sysctl.Autocorking == 0 {
		return false
	}
	alone := s.rtx.head == nil
	if sw.Autocork == CorkQueue {
		alone = alone && tail == s.wq.head
	}
	return !alone && s.wmemAlloc > tail.truesize && (!sw.AutocorkEOR || !tail.eor)
}

// autocork asks for a wake-up by the next completion, and reports whether one
// is still to come.
func (s *Sock) autocork(tail *seg) bool {
	if s.tsqFlags&tsqThrottled == 0 {
		s.cnt.Autocork++
		s.tsqFlags |= tsqThrottled
	}
	return s.wmemAlloc > tail.truesize
}
