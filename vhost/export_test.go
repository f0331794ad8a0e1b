package vhost

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// SetWriteTimeout shortens the patience with a front-end that does not read its
// replies, and returns what sets it back.
func SetWriteTimeout(d time.Duration) (restore func()) {
	old := writeTimeout
	writeTimeout = d
	return func() { writeTimeout = old }
}

// Spin is a worker's decision to go on polling.
type Spin struct{ s spin }

// NewSpin makes one that polls for most at most.
func NewSpin(most time.Duration) *Spin { return &Spin{newSpin(most)} }

// Worked, On, Sleeps and Woke are its methods.
func (s *Spin) Worked(now vtime.Time)  { s.s.worked(now) }
func (s *Spin) On(now vtime.Time) bool { return s.s.on(now) }
func (s *Spin) Sleeps(now vtime.Time)  { s.s.sleeps(now) }
func (s *Spin) Woke(now vtime.Time)    { s.s.woke(now) }
