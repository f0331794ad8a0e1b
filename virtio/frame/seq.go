package frame

// Seq is a TCP sequence number. It wraps around at 2^32: comparisons hold for
// numbers less than 2^31 apart (RFC 9293 §3.4).
type Seq uint32

// LessThan reports whether s comes before t.
func (s Seq) LessThan(t Seq) bool { return int32(s-t) < 0 }

// LessThanEq reports whether s is t or comes before it.
func (s Seq) LessThanEq(t Seq) bool { return int32(s-t) <= 0 }

// InRange reports whether s is in [first, end).
func (s Seq) InRange(first, end Seq) bool { return s-first < end-first }

// InWindow reports whether s is in the size numbers from first on.
func (s Seq) InWindow(first Seq, size uint32) bool { return uint32(s-first) < size }

// Add returns the number n after s.
func (s Seq) Add(n uint32) Seq { return s + Seq(n) }

// Sub returns the signed distance from t to s.
func (s Seq) Sub(t Seq) int32 { return int32(s - t) }

// MaxSeq returns the later of two numbers.
func MaxSeq(s, t Seq) Seq {
	if s.LessThan(t) {
		return t
	}
	return s
}

// MinSeq returns the earlier of two numbers.
func MinSeq(s, t Seq) Seq {
	if s.LessThan(t) {
		return s
	}
	return t
}
