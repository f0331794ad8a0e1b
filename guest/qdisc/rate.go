package qdisc

import "time"

// rate turns bytes into the time that they take, the way the kernel's schedulers
// do it: a multiplication and a shift stand for the division, and the result is
// rounded down (psched_ratecfg_precompute and psched_l2t_ns, v6.1).
type rate struct {
	mult  uint64 // below 2^32
	shift uint
}

// newRate returns the rate of so many bytes per second, of which there is one
// at least. The multiplier gets as many bits, up to 32, as keep a second scaled
// by the shift within 64.
func newRate(bytes uint64) rate {
	factor, shift := uint64(time.Second), uint(0)
	for uint32(factor/bytes)>>31 == 0 && factor>>63 == 0 {
		factor <<= 1
		shift++
	}
	return rate{mult: uint64(uint32(factor / bytes)), shift: shift}
}

// time returns what so many bytes take, below 2^32 of them.
func (r rate) time(n int64) time.Duration {
	return time.Duration(uint64(n) * r.mult >> r.shift)
}
