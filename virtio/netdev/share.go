package netdev

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Thresholds of the sharing of a worker by the adaptive policy.
const (
	shareWindow = time.Millisecond       // over which a pair is judged
	shareTrial  = 4 * time.Millisecond   // over which sharing is
	shareKeeps  = 12                     // sixteenths of its rate that a pair must keep then, and packets grow by half
	shareStays  = 14                     // sixteenths of it that the mean of its rates must keep later
	shareDrain  = 8                      // one of so many packets, or more, was kicked for: the ring is drained
	shareMean   = 8 << 10                // mean payload of packets from which it cannot gain
	shareTime   = time.Second            // after which its rate without is measured again
	thinShared  = 200 * time.Microsecond // hold of a guest's ACKs meanwhile
)

// sharing is the part of the adaptive policy that has pairs served by one worker.
// A guest that orphans has large packets only where its ring is not drained. Two
// workers that are both behind, but not by much, take its packets small; one that
// serves both pairs is further behind, and takes fewer. Whether it still takes as
// many bytes is tried.
type sharing struct {
	wish   bool
	shared bool // there is another pair on the worker
	judged bool // the rate has been found to be as before

	from          vtime.Time // start of the window in which these count:
	bytes         uint64
	kicks, chains uint64

	rate  uint64     // bytes/s without sharing, a moving average
	mean  uint64     // payload of a packet then
	now   uint64     // bytes/s with it, a moving average
	until vtime.Time // shared at most
	retry vtime.Time // not before
	pause time.Duration
}

// Shares reports whether the pair's policy would have it served by one worker
// together with the other pairs that say so, at most as many as Policy.SharePairs
// says. It changes in the course of a Poll of TX, and is then the composer's to
// heed when it can, and to answer by SetShared.
func (p *Pair) Shares() bool {
	if p.ctl != nil {
		return p.ctl.share.wish
	}
	return p.policy.SharePairs > 1
}

// SetShared tells the pair that its worker serves other pairs as well, or no
// longer does. It takes effect at once, and is called by the pair's owner.
func (p *Pair) SetShared(now vtime.Time, on bool) {
	if p.ctl == nil || p.ctl.share.shared == on {
		return
	}
	s := &p.ctl.share
	s.shared, s.judged, s.until = on, false, now.Add(shareTime)
	s.begin(now, &p.TX.stats)
}

// begin begins a window.
func (s *sharing) begin(now vtime.Time, n *Stats) {
	s.from, s.bytes, s.kicks, s.chains = now, n.PayloadBytes, n.Kicks, n.Packets
}

// consider takes part in the decisions about a guest that orphans and whose ring
// has only flows that are held. looked says that its ring is looked at instead of
// being kicked.
func (s *sharing) consider(now vtime.Time, n *Stats, looked bool) {
	d, window := now.Sub(s.from), shareWindow
	if s.shared && !s.judged {
		window = shareTrial
	}
	if d < window {
		return
	}
	bytes, chains := n.PayloadBytes-s.bytes, n.Packets-s.chains
	rate := bytes * uint64(time.Second) / uint64(d)
	drained := (n.Kicks-s.kicks)*shareDrain >= chains
	s.begin(now, n)
	if d > 2*window {
		return // there was a pause in it
	}
	switch {
	case s.shared && !s.judged:
		s.judge(now, rate, bytes/max(chains, 1))
	case drained || looked:
		s.wish = false
	case !s.shared:
		s.rate, s.mean = average(s.rate, rate, 8), bytes/max(chains, 1)
		s.wish = now >= s.retry && s.mean < shareMean
	default:
		if s.now = average(s.now, rate, 32); s.now*16 < s.rate*shareStays {
			s.leave(now)
		} else if now >= s.until {
			s.wish = false
		}
	}
}

// judge ends the trial of sharing.
func (s *sharing) judge(now vtime.Time, rate, mean uint64) {
	if rate*16 < s.rate*shareKeeps || mean*2 < s.mean*3 {
		s.leave(now)
		return
	}
	s.judged, s.pause, s.now = true, 0, max(rate, s.rate)
}

// average takes a rate into a moving average over about n of them.
func average(of, rate, n uint64) uint64 {
	if of == 0 {
		return rate
	}
	return ((n-1)*of + rate) / n
}

// leave ends the sharing for a while, that doubles each time.
func (s *sharing) leave(now vtime.Time) {
	if !s.wish {
		return
	}
	s.wish = false
	s.pause = min(max(firstPause, 2*s.pause), longestWait)
	s.retry = now.Add(s.pause)
}
