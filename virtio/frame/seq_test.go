package frame_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/virtio/frame"
	"pgregory.net/rapid"
)

func TestSeqTable(t *testing.T) {
	tests := []struct {
		s, t       frame.Seq
		less, leEq bool
		sub        int32
	}{
		{0, 0, false, true, 0},
		{0, 1, true, true, -1},
		{0xffffffff, 0, true, true, -1},
		{0, 0xffffffff, false, false, 1},
		{0x7fffffff, 0, false, false, 0x7fffffff},
		{0x80000001, 0, true, true, -0x7fffffff},
	}
	for _, tc := range tests {
		if tc.s.LessThan(tc.t) != tc.less || tc.s.LessThanEq(tc.t) != tc.leEq || tc.s.Sub(tc.t) != tc.sub {
			t.Errorf("%d and %d", tc.s, tc.t)
		}
	}
}

// TestSeqModel checks the arithmetic against 64-bit numbers without wrap-around,
// all within 2^31 of each other.
func TestSeqModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Uint64Range(1<<33, 1<<34).Draw(t, "base")
		off := rapid.Uint64Range(0, 1<<30)
		a, b, c := base+off.Draw(t, "a"), base+off.Draw(t, "b"), base+off.Draw(t, "c")
		s, u, v := frame.Seq(a), frame.Seq(b), frame.Seq(c)
		if s.LessThan(u) != (a < b) || s.LessThanEq(u) != (a <= b) {
			t.Fatalf("order of %d and %d", a, b)
		}
		if int64(s.Sub(u)) != int64(a)-int64(b) {
			t.Fatalf("%d - %d = %d", a, b, s.Sub(u))
		}
		if frame.MaxSeq(s, u) != frame.Seq(max(a, b)) || frame.MinSeq(s, u) != frame.Seq(min(a, b)) {
			t.Fatalf("max and min of %d and %d", a, b)
		}
		if b <= c {
			if s.InRange(u, v) != (b <= a && a < c) || s.InWindow(u, uint32(c-b)) != (b <= a && a < c) {
				t.Fatalf("%d in [%d, %d)", a, b, c)
			}
		}
	})
}
