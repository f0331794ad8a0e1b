package simguest_test

import (
	"context"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
)

// run runs the scenario that the settings make of base.
func run(t *testing.T, base vmtest.Scenario, settings ...string) *vmtest.Run {
	t.Helper()
	s := base.Clone()
	for _, set := range settings {
		kv, err := vmtest.ParseSetting(set)
		if err == nil {
			err = s.Set(kv.Key, kv.Value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := simguest.New(simguest.Config{}).Run(context.Background(), s, vmtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// report002 is the base of the plan that reproduces the report.
func report002(t *testing.T) vmtest.Scenario {
	t.Helper()
	p, err := vmtest.PlanByName("mq-small-packets")
	if err != nil {
		t.Fatal(err)
	}
	return p.Base
}

// pairs runs the scenario over one and over two queue pairs.
func pairs(t *testing.T, base vmtest.Scenario, settings ...string) (one, two *vmtest.Run) {
	t.Helper()
	return run(t, base, append(settings, "queue_pairs=1")...), run(t, base, append(settings, "queue_pairs=2")...)
}

// What report 002 states: multiqueue sends more and smaller packets.
func TestReport002SmallWrites(t *testing.T) {
	one, two := pairs(t, report002(t))
	if a, b := one.Totals.GSOMeanBytes, two.Totals.GSOMeanBytes; b > a/2 {
		t.Errorf("mean GSO size %.0f with one pair, %.0f with two: want it to fall to less than half", a, b)
	}
	if a, b := one.Totals.KicksPerMB, two.Totals.KicksPerMB; b < 3*a || b < 10 {
		t.Errorf("kicks per MB %.1f with one pair, %.1f with two: want several times as many", a, b)
	}
	if a, b := one.Totals.PacketsPerMB, two.Totals.PacketsPerMB; b < 2*a {
		t.Errorf("packets per MB %.0f with one pair, %.0f with two: want more", a, b)
	}
	if one.Totals.BigShare < 0.3 || two.Totals.BigShare > 0.05 {
		t.Errorf("share of bytes in big packets %.2f and %.2f", one.Totals.BigShare, two.Totals.BigShare)
	}
}

// "The problem disappear when I turn off both gso and tso."
func TestReport002WithoutOffloads(t *testing.T) {
	one, two := pairs(t, report002(t), "tso=off", "gso=off")
	for _, r := range []*vmtest.Run{one, two} {
		for _, q := range r.Queues {
			for bound := range q.GSOHist {
				if q.Dir == "tx" && len(bound) > 4 {
					t.Errorf("%d pairs: a packet of %s bytes and more", r.QueuePairs, bound)
				}
			}
		}
		if r.Totals.GSOMeanBytes > float64(r.MSS) {
			t.Errorf("%d pairs: mean packet %.0f exceeds the MSS %d", r.QueuePairs, r.Totals.GSOMeanBytes, r.MSS)
		}
	}
	if ratio := two.Totals.PacketsPerMB / one.Totals.PacketsPerMB; ratio > 1.1 { // with offloads it is above 2
		t.Errorf("two pairs send %.2f times the packets of one, want below 1.1", ratio)
	}
}

// "the throughput were almost the same [...] as single queue" after the two
// changes: the GSO size of two pairs is back.
func TestReport002Remedies(t *testing.T) {
	one, two := pairs(t, report002(t), "remedies=win-divisor-1+no-full-size-test")
	plain := run(t, report002(t), "queue_pairs=2")
	if a, b := plain.Totals.GSOMeanBytes, two.Totals.GSOMeanBytes; b < 5*a {
		t.Errorf("two pairs: mean GSO size %.0f, with both changes %.0f", a, b)
	}
	if a, b := one.Totals.GSOMeanBytes, two.Totals.GSOMeanBytes; b < 0.7*a {
		t.Errorf("with both changes: mean GSO size %.0f with one pair, %.0f with two", a, b)
	}
	if a, b := one.Totals.GoodputBps, two.Totals.GoodputBps; b < 0.8*a {
		t.Errorf("with both changes: goodput %.2g with one pair, %.2g with two", a, b)
	}
}

// "When I test with larger size, multiqueue will gradually outperfrom single
// queue."
func TestReport002LargeWrites(t *testing.T) {
	one, two := pairs(t, report002(t), "write=64k")
	if a, b := one.Totals.GoodputBps, two.Totals.GoodputBps; b < a {
		t.Errorf("64 KB writes: goodput %.2g with one pair, %.2g with two", a, b)
	}
}
