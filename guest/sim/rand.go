package sim

import (
	"math/bits"
	"time"
)

// Rand is a stream of pseudo-random numbers (splitmix64). A run has one per
// purpose, so that a component that draws more or fewer numbers does not
// disturb the others. The sequence of a stream depends on seed and name only
// and does not change between releases. It is not safe for concurrent use.
type Rand struct {
	state uint64
}

// splitmix64's increment: 2^64 divided by the golden ratio.
const golden = 0x9e3779b97f4a7c15

// NewRand returns the stream called name of the run with this seed.
func NewRand(seed uint64, name string) *Rand {
	var h Hash
	h.Word(seed)
	h.String(name)
	return &Rand{state: h.Sum64()}
}

// Uint64 returns the next number.
func (r *Rand) Uint64() uint64 {
	r.state += golden
	return mix(r.state)
}

// Uint64n returns a number in [0, n), unbiased. It returns 0 if n is 0.
func (r *Rand) Uint64n(n uint64) uint64 {
	hi, lo := bits.Mul64(r.Uint64(), n)
	if lo < n {
		for least := -n % max(n, 1); lo < least; {
			hi, lo = bits.Mul64(r.Uint64(), n)
		}
	}
	return hi
}

// Duration returns a duration in [0, d), in nanoseconds. It returns 0 if d is
// not positive.
func (r *Rand) Duration(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.Uint64n(uint64(d)))
}

// Chance returns true with probability p. It draws one number whatever p is.
func (r *Rand) Chance(p float64) bool {
	return float64(r.Uint64()>>11)/(1<<53) < p
}

// mix is splitmix64's output function: every output bit depends on every input
// bit, and no two inputs have the same output.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
