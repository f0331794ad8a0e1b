package vhost_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// sleepAfter has a worker without work since since go on until it sleeps, and
// returns how long it polled, in steps of 100 ns, at most a millisecond.
func sleepAfter(s *vhost.Spin, now vtime.Time) time.Duration {
	for d := time.Duration(0); d < time.Millisecond; d += 100 {
		if !s.On(now.Add(d)) {
			return d
		}
	}
	return time.Millisecond
}

func TestSpin(t *testing.T) {
	tests := []struct {
		name   string
		most   time.Duration
		sleeps []time.Duration // each ended by an event
		want   []time.Duration // polled before each
	}{
		{"never", 0, []time.Duration{1, 1}, []time.Duration{0, 0}},
		{"always", vhost.PollAlways, []time.Duration{1, 1}, []time.Duration{1e6, 1e6}},
		{"in vain", 8000, []time.Duration{9000, 9000, 9000, 9000, 9000}, []time.Duration{8000, 4000, 2000, 0, 0}},
		{"worth it again", 8000, []time.Duration{9e3, 9e3, 9e3, 9e3, 100, 100, 100}, []time.Duration{8000, 4000, 2000, 0, 0, 2000, 4000}},
		{"never more than allowed", 5000, []time.Duration{100, 100, 100}, []time.Duration{5000, 5000, 5000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, now := vhost.NewSpin(tt.most), vtime.Time(1000)
			s.Worked(now)
			var got []time.Duration
			for _, d := range tt.sleeps {
				polled := sleepAfter(s, now)
				got = append(got, polled)
				now = now.Add(polled)
				s.Sleeps(now)
				now = now.Add(d)
				s.Woke(now)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// An event that did not end a sleep says nothing about whether to sleep.
func TestSpinEventWhileAwake(t *testing.T) {
	s := vhost.NewSpin(8000)
	s.Sleeps(0)
	s.Woke(100)
	for now := vtime.Time(20_000); now < 1e6; now += 20_000 {
		s.Woke(now)
	}
	if got := sleepAfter(s, 980_000); got != 8000 {
		t.Errorf("polls for %v, want 8us", got)
	}
}
