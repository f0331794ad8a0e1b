package trace

import (
	"maps"
	"slices"
	"time"
)

// Lag is how far apart packets of equal length are in time.
type Lag struct {
	Packets int           // that were compared
	P50     time.Duration // half of them are at most so far apart, whichever came first
	P99     time.Duration
	Max     time.Duration
	MaxAt   int // number of the packet with Max among the truth's, from 0
	Earlier int // packets that the model sent earlier
	Later   int // packets that the model sent later
}

func (r *Report) lag() Lag {
	var l Lag
	var apart []time.Duration
	for i := range r.sent {
		lag, equal := r.equal(i)
		if !equal {
			continue
		}
		apart = append(apart, lag.Abs())
		if lag.Abs() > l.Max {
			l.Max, l.MaxAt = lag.Abs(), i
		}
		switch {
		case lag < 0:
			l.Earlier++
		case lag > 0:
			l.Later++
		}
	}
	slices.Sort(apart)
	l.Packets = len(apart)
	l.P50, l.P99 = quantile(apart, 50), quantile(apart, 99)
	return l
}

// quantile is the smallest value that percent of the sorted values do not
// exceed; 0 of none.
func quantile[T any](sorted []T, percent int) T {
	var none T
	if len(sorted) == 0 {
		return none
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}

// SizePair is how often the two traces have packets of a length.
type SizePair struct {
	Len   int `json:"len"`
	Truth int `json:"truth"`
	Model int `json:"model"`
}

// sizes counts the lengths of both, the model's without those after the end.
func (r *Report) sizes() []SizePair {
	pairs := map[int]SizePair{}
	for _, at := range r.sent {
		n := r.truth.Packets[at].Len
		p := pairs[n]
		p.Len, p.Truth = n, p.Truth+1
		pairs[n] = p
	}
	end := r.end()
	for _, at := range r.other {
		m := &r.model.Packets[at]
		if m.TNs > end {
			continue
		}
		p := pairs[m.Len]
		p.Len, p.Model = m.Len, p.Model+1
		pairs[m.Len] = p
	}
	return slices.SortedFunc(maps.Values(pairs), func(a, b SizePair) int { return a.Len - b.Len })
}
