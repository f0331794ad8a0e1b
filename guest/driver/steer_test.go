package driver_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vnetbench/vnetbench/guest/driver"
)

// byCPU returns the queue of each CPU for a flow that has none yet.
func byCPU(k driver.Picker, hash uint32) []int {
	var q []int
	for cpu := range k.CPUs {
		q = append(q, k.Queue(driver.Pick{CPU: cpu, Hash: hash, Prev: -1, Recorded: -1}))
	}
	return q
}

func TestQueueByCPU(t *testing.T) {
	const low, high = 0x10000000, 0xf0000000
	for _, c := range []struct {
		name string
		k    driver.Picker
		hash uint32
		want []int
	}{
		{"one pair", driver.Picker{Steering: driver.SteerStriped, CPUs: 2, MaxPairs: 2, Pairs: 1}, high, []int{0, 0}},
		{"3.8, a pair per CPU", driver.Picker{CPUs: 4, MaxPairs: 4, Pairs: 4}, high, []int{0, 1, 2, 3}},
		{"3.8, fewer in use", driver.Picker{CPUs: 4, MaxPairs: 4, Pairs: 2}, high, []int{0, 1, 0, 1}},
		{"3.8, more pairs than CPUs", driver.Picker{CPUs: 2, MaxPairs: 4, Pairs: 4}, high, []int{1, 2}},
		{"XPS, a pair per CPU", driver.Picker{Steering: driver.SteerXPS, CPUs: 2, MaxPairs: 2, Pairs: 2}, high, []int{0, 1}},
		{"XPS without maps", driver.Picker{Steering: driver.SteerXPS, CPUs: 4, MaxPairs: 2, Pairs: 2}, high, []int{1, 1, 1, 1}},
		{"striped, groups of CPUs", driver.Picker{Steering: driver.SteerStriped, CPUs: 5, MaxPairs: 2, Pairs: 2}, high, []int{0, 0, 0, 1, 1}},
		{"striped, a pair per CPU", driver.Picker{Steering: driver.SteerStriped, CPUs: 3, MaxPairs: 3, Pairs: 3}, high, []int{0, 1, 2}},
		{"one CPU, by hash", driver.Picker{Steering: driver.SteerStriped, CPUs: 1, MaxPairs: 2, Pairs: 2}, low, []int{0}},
		{"one CPU, by another hash", driver.Picker{Steering: driver.SteerStriped, CPUs: 1, MaxPairs: 2, Pairs: 2}, high, []int{1}},
		{"two CPUs, five pairs", driver.Picker{Steering: driver.SteerStriped, CPUs: 2, MaxPairs: 5, Pairs: 5}, high, []int{4, 3}},
	} {
		if d := cmp.Diff(c.want, byCPU(c.k, c.hash)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestASocketKeepsItsQueueWhilePacketsAreOut(t *testing.T) {
	k := driver.Picker{Steering: driver.SteerStriped, CPUs: 2, MaxPairs: 2, Pairs: 2}
	p := driver.Pick{CPU: 1, Prev: 0, Recorded: -1}
	if q := k.Queue(p); q != 0 {
		t.Errorf("moved to %d with packets out", q)
	}
	p.OOOOkay = true
	if q := k.Queue(p); q != 1 {
		t.Errorf("stayed on %d with none out", q)
	}
	p.Prev, p.OOOOkay = 5, false // of a time with more pairs
	if q := k.Queue(p); q != 1 {
		t.Errorf("went to %d of 2", q)
	}
	old := driver.Picker{CPUs: 2, MaxPairs: 2, Pairs: 2}
	if q := old.Queue(driver.Pick{CPU: 0, Prev: 0, Recorded: 3}); q != 1 {
		t.Errorf("a forwarded packet of receive queue 3 went to %d", q)
	}
}

func TestNAPINeedsQueuesWithCPUs(t *testing.T) {
	for _, c := range []struct {
		k    driver.Picker
		want bool
	}{
		{driver.Picker{Steering: driver.SteerXPS, CPUs: 2, MaxPairs: 2, Pairs: 2}, true},
		{driver.Picker{Steering: driver.SteerXPS, CPUs: 2, MaxPairs: 2, Pairs: 1}, false},
		{driver.Picker{Steering: driver.SteerXPS, CPUs: 4, MaxPairs: 2, Pairs: 2}, false},
		{driver.Picker{Steering: driver.SteerStriped, CPUs: 4, MaxPairs: 2, Pairs: 1}, true},
	} {
		if c.k.NAPIWorks() != c.want {
			t.Errorf("%+v: %v", c.k, !c.want)
		}
	}
}
