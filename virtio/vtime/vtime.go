// Package vtime is the time that the sans-I/O core is called with: a count of
// nanoseconds without an owner. It reads no clock. A composer decides whether
// the nanoseconds are virtual (the simulator, a time-travel guest) or those of
// CLOCK_MONOTONIC (the vhost worker); the core cannot tell.
package vtime

import (
	"math"
	"time"
)

// Time is a point in time, in nanoseconds since an epoch that the composer
// chose (the start of a simulated run, or the host's CLOCK_MONOTONIC epoch).
type Time int64

// Never is later than every event: what a component returns from Next when it
// waits for an input and for no time.
const Never Time = math.MaxInt64

// Add returns t+d. Never plus anything is Never, and a sum beyond it is Never.
func (t Time) Add(d time.Duration) Time {
	if t == Never || (d > 0 && t > Never-Time(d)) {
		return Never
	}
	return t + Time(d)
}

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool { return t < u }

// Min returns the earlier of the two.
func Min(a, b Time) Time { return min(a, b) }

// Max returns the later of the two.
func Max(a, b Time) Time { return max(a, b) }
