package netdev

import (
	"math/bits"
	"strconv"
)

// HistBuckets is the number of buckets of a Hist.
const HistBuckets = 41

// Hist is a histogram in powers of two. Bucket 0 counts the value 0, bucket
// i > 0 the values in [2^(i-1), 2^i); the last bucket has no upper bound. The
// zero value is empty. Copying it is a snapshot.
type Hist struct {
	N       uint64 // values counted
	Sum     uint64 // their sum
	Buckets [HistBuckets]uint64
}

// Add counts v.
func (h *Hist) Add(v uint64) {
	h.N++
	h.Sum += v
	h.Buckets[min(bits.Len64(v), HistBuckets-1)]++
}

// AddN counts v n times, n >= 0.
func (h *Hist) AddN(v uint64, n int) {
	h.N += uint64(n)
	h.Sum += v * uint64(n)
	h.Buckets[min(bits.Len64(v), HistBuckets-1)] += uint64(n)
}

// Merge adds the counts of o to h.
func (h *Hist) Merge(o *Hist) {
	h.N += o.N
	h.Sum += o.Sum
	for i, n := range o.Buckets {
		h.Buckets[i] += n
	}
}

// Sub takes the counts of an earlier snapshot o off h.
func (h *Hist) Sub(o *Hist) {
	h.N -= o.N
	h.Sum -= o.Sum
	for i, n := range o.Buckets {
		h.Buckets[i] -= n
	}
}

// Mean returns the mean of the counted values, 0 if there are none.
func (h *Hist) Mean() float64 {
	if h.N == 0 {
		return 0
	}
	return float64(h.Sum) / float64(h.N)
}

// LowerBound returns the smallest value of bucket i.
func LowerBound(i int) uint64 {
	if i <= 0 {
		return 0
	}
	return 1 << (i - 1)
}

// MarshalJSON writes {"<lower bound>": count, …} for the buckets that are not
// empty, lowest first.
func (h Hist) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, n := range h.Buckets {
		if n == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = strconv.AppendUint(b, LowerBound(i), 10)
		b = append(b, '"', ':')
		b = strconv.AppendUint(b, n, 10)
	}
	return append(b, '}'), nil
}
