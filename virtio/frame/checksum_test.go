package frame_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/virtio/frame"
	"pgregory.net/rapid"
)

// slowSum is the definition: one word after the other.
func slowSum(b []byte, init uint16) uint16 {
	s := uint32(init)
	for i, v := range b {
		if i%2 == 0 {
			s += uint32(v) << 8
		} else {
			s += uint32(v)
		}
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

func TestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "b")
		init := rapid.Uint16().Draw(t, "init")
		got, want := frame.Sum(b, init), slowSum(b, init)
		// 0 and 0xffff are both zero; which of them is the sum's is not defined.
		if got%0xffff != want%0xffff {
			t.Fatalf("sum %#x, want %#x", got, want)
		}
		var a frame.Adder
		a.AddSum(init)
		for rest := b; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			a.Add(rest[:n])
			rest = rest[n:]
		}
		if a.Sum()%0xffff != want%0xffff {
			t.Fatalf("sum in pieces %#x, want %#x", a.Sum(), want)
		}
	})
}

func TestUpdateCSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "header")
		b[0] = 0x45
		ip := frame.IPv4(b)
		ip.UpdateCSum()
		old, id := ip.ID(), rapid.Uint16().Draw(t, "id")
		c := frame.UpdateCSum(ip.CSum(), old, id)
		ip.SetID(id)
		ip.UpdateCSum()
		if c%0xffff != ip.CSum()%0xffff {
			t.Fatalf("updated %#x, computed %#x", c, ip.CSum())
		}
	})
}

func TestCompleteCSumBounds(t *testing.T) {
	b := make([]byte, 40)
	for _, tc := range []struct {
		start, offset int
		want          bool
	}{
		{0, 0, true}, {20, 18, true}, {38, 0, true},
		{20, 19, false}, {39, 0, false}, {40, 0, false}, {41, 0, false},
		{-1, 0, false}, {0, -1, false}, {65535, 65535, false}, {0, 39, false},
	} {
		if got := frame.CompleteCSum(b, tc.start, tc.offset); got != tc.want {
			t.Errorf("start %d, offset %d: %v", tc.start, tc.offset, got)
		}
	}
}

func BenchmarkSum(b *testing.B) {
	buf := make([]byte, 1500)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		frame.Sum(buf, 0)
	}
}
