package netdev

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// service decides when packets are taken off a transmit ring: as soon as a kick
// says that there are some, some time after the first, or again and again for a
// while, without kicks.
type service struct {
	delay   time.Duration // policy delay-service; 0: at once
	packets int           // and so many end it; 0: no such number
	poll    time.Duration // policy poll: so long after work; 0: not at all
	every   time.Duration // and so often

	open   bool       // the ring is being drained ...
	left   int        // ... of so many packets; what comes meanwhile waits for the next look. 0: of all
	at     vtime.Time // when the drain that was put off begins; vtime.Never if none was
	until  vtime.Time // the end of the time in which the device looks by itself
	lookAt vtime.Time // the next look of that time; vtime.Never outside of it
}

// set takes over the parameters of a policy.
func (s *service) set(p *Policy) {
	s.delay, s.packets = p.DelayTime, p.DelayPackets
	s.poll, s.every = p.PollTime, p.pollEvery()
}

// reset forgets what belonged to a ring.
func (s *service) reset() {
	s.open, s.left, s.at, s.until, s.lookAt = false, 0, vtime.Never, 0, vtime.Never
}

// next returns when the ring is looked at without a kick.
func (s *service) next() vtime.Time { return min(s.at, s.lookAt) }

// mayTake reports whether packets may be taken now. It is asked when there may
// be some; if not, the time for which Next asks is set.
func (t *TX) mayTake(now vtime.Time) bool {
	s := &t.svc
	if s.open || t.q.Pending() == 0 {
		return true
	}
	if s.lookAt != vtime.Never && now < s.until {
		if s.open = now >= s.lookAt; s.open {
			s.left = int(t.q.Pending())
			if c := t.pair.ctl; c != nil && c.scans {
				c.looks(now, t.pair, s.left)
			}
		}
	} else {
		s.open = s.delay == 0 || t.delayed(now)
	}
	t.more = s.open // and until the ring is found empty
	return s.open
}

// delayed reports whether the packets in the ring have waited long enough.
func (t *TX) delayed(now vtime.Time) bool {
	s := &t.svc
	if s.at == vtime.Never {
		s.at = now.Add(s.delay)
		t.q.DisableKicks()
		t.awake = true
	}
	if now < s.at && (s.packets == 0 || int(t.q.Pending()) < s.packets) {
		return false
	}
	s.at = vtime.Never
	return true
}

// looked notes that a Poll has taken n packets, and whether the ring is empty.
// It reports whether there may be more to take now.
func (s *service) looked(now vtime.Time, n int, empty bool) (more bool) {
	if s.open && s.left > 0 {
		s.left = max(s.left-n, 0)
		empty = empty || s.left == 0
	}
	if empty {
		s.open, s.left = false, 0
	}
	if s.poll == 0 {
		s.lookAt = vtime.Never
		return !empty
	}
	if n > 0 {
		s.until = now.Add(s.poll)
	}
	switch {
	case now >= s.until:
		s.lookAt = vtime.Never
	case n > 0 || now >= s.lookAt:
		s.lookAt = now.Add(s.every)
	}
	return !empty
}

// rearmService is Rearm where the policy has a say.
func (t *TX) rearmService() (more bool) {
	s := &t.svc
	if s.lookAt != vtime.Never {
		return false // the device looks by itself
	}
	if s.at == vtime.Never {
		return t.rearm()
	}
	if s.packets > 1 && t.q.EnableKicksAfter(uint16(s.packets-1)) {
		return true
	}
	return false
}

// Looks returns when the queue wants to look at its ring without a kick, by the
// policies poll and delay-service: vtime.Never if it does not. A composer that
// polls with a budget below zero meanwhile gives it a Poll that takes packets
// then.
func (t *TX) Looks() vtime.Time {
	if !t.running() {
		return vtime.Never
	}
	return t.svc.next()
}

// spinTime is how long a worker waits awake rather than asleep.
const spinTime = 5 * time.Microsecond

// Spins reports whether the queue looks at its ring so often now that whoever
// polls it does not sleep in between.
func (t *TX) Spins() bool { return t.svc.lookAt != vtime.Never && t.svc.every <= spinTime }
