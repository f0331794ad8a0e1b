package vhost

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// PollAlways is the Config.PollTime of workers that never sleep.
const PollAlways time.Duration = 1<<63 - 1

// minSpin is the shortest time that an adaptive worker polls, if it does at all.
const minSpin = 2 * time.Microsecond

// How often, in turns, a worker that does not sleep looks at its descriptors:
// one that has work, and one that has none.
const (
	busyTurns = 16
	idleTurns = 64
)

// spin decides how long a worker without work looks at its rings by itself
// before it asks for kicks and sleeps. The time adapts: a sleep that an event
// ended within the longest time that may be polled was not worth it, and the
// next poll lasts twice as long; a longer one shows that polling was in vain,
// and the next lasts half as long, down to not at all.
type spin struct {
	most   time.Duration // 0 never, PollAlways always
	window time.Duration // that applies now
	since  vtime.Time    // when there was work last
	slept  vtime.Time    // when the worker went to sleep
	asleep bool          // and no event has come since
}

func newSpin(most time.Duration) spin { return spin{most: most, window: most} }

// worked notes that there was work at now.
func (s *spin) worked(now vtime.Time) { s.since = now }

// on reports whether the worker goes on polling although there is no work.
func (s *spin) on(now vtime.Time) bool {
	return s.most == PollAlways || s.window > 0 && now.Sub(s.since) < s.window
}

// sleeps notes that the worker goes to sleep at now.
func (s *spin) sleeps(now vtime.Time) { s.slept, s.asleep = now, true }

// woke notes an event at now, and adapts the time to how long the worker had
// slept, if it did.
func (s *spin) woke(now vtime.Time) {
	s.since = now
	slept := s.asleep
	s.asleep = false
	switch {
	case !slept || s.most == 0 || s.most == PollAlways:
	case now.Sub(s.slept) <= s.most:
		s.window = min(s.most, max(2*s.window, minSpin))
	case s.window > minSpin:
		s.window /= 2
	default:
		s.window = 0
	}
}
