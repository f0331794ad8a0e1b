package tcp

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
)

// Bits of the small queue state (TSQ_*).
const (
	tsqThrottled uint8 = 1 << iota // the next freed packet must wake the socket
	tsqQueued                      // on a tasklet's list
	tsqDeferred                    // the tasklet found the socket in use
)

// tsqBlocks reports whether too much of the socket is below TCP, and if so asks
// for a wake-up (tcp_small_queue_check). factor doubles the limit for
// retransmissions.
func (s *Sock) tsqBlocks(g *seg, factor uint8) bool {
	limit := s.tsqLimit(g) << factor
	over := uint64(s.wmemAlloc) > limit
	if s.cfg.Switches.TSQ == TSQFixed {
		over = uint64(s.wmemAlloc) >= limit
	}
	if !over || s.tsqPasses(g) {
		return false
	}
	if s.tsqFlags&tsqThrottled == 0 {
		s.cnt.Throttled++
	}
	s.tsqFlags |= tsqThrottled
	return true
}

// tsqLimit is how many bytes of truesize may be below TCP.
func (s *Sock) tsqLimit(g *seg) uint64 {
	sysctl := uint64(s.cfg.Sysctl.LimitOutputBytes)
	rate := s.win.Pacing >> s.pacingShift
	if s.cfg.Switches.Rate == RateNone {
		rate = 0
	}
	limit := max(2*uint64(g.truesize), rate)
	switch s.cfg.Switches.TSQ {
	case TSQFixed:
		return sysctl
	case TSQDynamic:
		return max(sysctl, rate)
	case TSQUnpaced:
		if s.cfg.Pacing != PacingNone {
			return min(limit, 1<<60)
		}
	}
	return min(limit, sysctl)
}

// tsqPasses is the exception for a socket that has almost nothing outstanding,
// so that a late completion cannot stall it.
func (s *Sock) tsqPasses(g *seg) bool {
	switch s.cfg.Switches.TSQPass {
	case PassEmpty:
		return s.rtx.head == nil
	case PassOne:
		return s.rtx.head == s.rtx.tail
	case PassTwo:
		return s.rtx.head == nil || (s.rtx.head == s.rtx.tail && g == s.wq.head) ||
			g == s.rtx.head || g == s.rtx.head.next
	}
	return false
}

// Freed takes a packet's charge off the socket and, if the socket waits for
// that, queues it to the tasklet (tcp_wfree). It implements skb.Owner.
func (s *Sock) Freed(p *skb.SKB) {
	s.wmemAlloc -= uint32(p.TrueSize)
	if s.wmemAlloc >= minTruesize && s.bh.InDaemon() {
		return
	}
	if s.tsqFlags&(tsqThrottled|tsqQueued) != tsqThrottled {
		return
	}
	s.tsqFlags = s.tsqFlags&^tsqThrottled | tsqQueued
	s.env.QueueTSQ(s)
}

// TSQ is the body of the TSQ tasklet for this socket (tcp_tsq_handler). If the
// socket is in use it is done when that ends.
func (s *Sock) TSQ() {
	if s.tsqFlags&tsqQueued == 0 {
		return
	}
	s.tsqFlags &^= tsqQueued
	s.cnt.TSQRuns++
	s.env.Charge(vcpu.OpTSQ, 1)
	s.kick()
}

// kick runs the write loop from the tasklet or the pacing timer, now or when
// the socket is free.
func (s *Sock) kick() {
	if s.owned {
		s.tsqFlags |= tsqDeferred
		return
	}
	s.tsqWrite()
}

// tsqWrite retransmits what is due and runs the write loop (tcp_tsq_write). Each
// of the two reads the clock once.
func (s *Sock) tsqWrite() {
	if s.lostOut > s.retransOut && s.win.Cwnd > s.inFlight() {
		s.refreshClock()
		s.retransmitQueue()
	}
	nonagle := uint8(0)
	if s.cfg.Switches.TSQNagle {
		nonagle = s.nonagle
	}
	s.writeLoop(s.mss, nonagle, 0)
}
