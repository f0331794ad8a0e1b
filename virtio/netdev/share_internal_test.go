package netdev

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// sharer is a pair's sharing with the counters and the time that it judges by.
type sharer struct {
	sharing
	now vtime.Time
	n   Stats
}

// ms lets some milliseconds pass, in each of which so many packets of that size
// are taken, and so many kicks come.
func (s *sharer) ms(n int, packets, size, kicks uint64) {
	for range n {
		s.now = s.now.Add(time.Millisecond)
		s.n.Packets += packets
		s.n.PayloadBytes += packets * size
		s.n.Kicks += kicks
		s.consider(s.now, &s.n, false)
	}
}

// share is what Pair.SetShared does.
func (s *sharer) share(on bool) {
	p := &Pair{ctl: &control{share: s.sharing}}
	p.TX = &TX{queue: queue{stats: s.n}}
	p.SetShared(s.now, on)
	s.sharing = p.ctl.share
}

func TestSharing(t *testing.T) {
	for _, c := range []struct {
		name  string
		run   func(s *sharer)
		wants bool
	}{
		{"a ring with some backlog, of small packets", func(s *sharer) { s.ms(4, 500, 3000, 2) }, true},
		{"a ring that is drained", func(s *sharer) { s.ms(4, 500, 3000, 100) }, false},
		{"large packets", func(s *sharer) { s.ms(4, 500, 16000, 2) }, false},
		{"a trial that makes packets grow", func(s *sharer) { s.ms(4, 500, 3000, 2); s.share(true); s.ms(4, 150, 10000, 0) }, true},
		{"one that does not", func(s *sharer) { s.ms(4, 500, 3000, 2); s.share(true); s.ms(4, 500, 3100, 0) }, false},
		{"one that slows the pair down", func(s *sharer) { s.ms(4, 500, 3000, 2); s.share(true); s.ms(4, 90, 10000, 0) }, false},
		{"slower later", func(s *sharer) { s.ms(4, 500, 3000, 2); s.share(true); s.ms(4, 150, 10000, 0); s.ms(20, 60, 10000, 0) }, false},
		{"a short lull later", func(s *sharer) { s.ms(4, 500, 3000, 2); s.share(true); s.ms(4, 150, 10000, 0); s.ms(2, 60, 10000, 0) }, true},
		{"drained later", func(s *sharer) { s.ms(4, 500, 3000, 2); s.share(true); s.ms(5, 150, 10000, 50) }, false},
		{"somebody else on the ring", func(s *sharer) { s.ms(4, 500, 3000, 2); s.leave(s.now) }, false},
		{"soon after that", func(s *sharer) { s.ms(4, 500, 3000, 2); s.leave(s.now); s.ms(9, 500, 3000, 2) }, false},
		{"some time after that", func(s *sharer) { s.ms(4, 500, 3000, 2); s.leave(s.now); s.ms(11, 500, 3000, 2) }, true},
		{"its time is over: the rate without is measured again", func(s *sharer) {
			s.ms(4, 500, 3000, 2)
			s.share(true)
			s.ms(1000, 150, 10000, 0)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s sharer
			c.run(&s)
			if s.wish != c.wants {
				t.Errorf("wants to share: %v, want %v (%+v)", s.wish, c.wants, s.sharing)
			}
		})
	}
}

// Without the adaptive policy share-worker is for always.
func TestSharesByPolicy(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		want   bool
	}{{Policy{}, false}, {Policy{SharePairs: 1}, false}, {Policy{SharePairs: 2}, true}} {
		p := &Pair{policy: c.policy}
		p.SetShared(0, true) // which it need not be told
		if got := p.Shares(); got != c.want {
			t.Errorf("%+v: shares %v, want %v", c.policy, got, c.want)
		}
	}
}
