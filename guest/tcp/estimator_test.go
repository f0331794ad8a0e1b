package tcp

import (
	"testing"
)

// TestEstimator follows RFC 6298 with the kernel's treatment of falling round
// trips and its least timeout.
func TestEstimator(t *testing.T) {
	var e rttEstimator
	e.sample(100_000, rtoMinUs, 1, 100)
	if e.srtt>>3 != 100_000 || e.rttvar != 200_000 {
		t.Fatalf("%+v", e)
	}
	for range 50 {
		e.sample(100_000, rtoMinUs, 1, 100)
	}
	if e.srtt>>3 != 100_000 || e.mdev > 10 {
		t.Errorf("steady: %+v", e)
	}
	e.sample(500_000, rtoMinUs, 1, 100)
	if e.srtt>>3 != 150_000 || e.rttvar < 400_000 || e.rttvar > 400_010 {
		t.Errorf("after a spike: %+v", e)
	}
	for i := range uint32(40) {
		e.sample(150_000, rtoMinUs, 101+100*i, 200+100*i)
	}
	if e.rttvar > 210_000 {
		t.Errorf("the deviation did not fall: %+v", e)
	}
}

// TestTicks: conversions between ticks and time, for tick rates that divide a
// second and one that does not.
func TestTicks(t *testing.T) {
	for _, hz := range []uint32{100, 250, 300, 1000, 1024} {
		k, _ := Release("6.12")
		cfg := k.Config()
		cfg.HZ = hz
		s, err := NewSock(0, cfg, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := int64(1); n < 5000; n += 37 {
			at := s.tickTime(n)
			if s.ticks(at) != n || s.ticks(at-1) != n-1 {
				t.Fatalf("HZ %d: tick %d is at %d, where the counter reads %d, before it %d", hz, n, at, s.ticks(at), s.ticks(at-1))
			}
		}
		if s.usToTicks(1) != 1 || s.usToTicks(1_000_000) != int64(hz) {
			t.Errorf("HZ %d: %d %d", hz, s.usToTicks(1), s.usToTicks(1_000_000))
		}
	}
}
