package frontier_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/frontier"
	"github.com/vnetbench/vnetbench/vmtest"
)

func run(release, policy string, pairs int, kicks, cpu, goodput float64) vmtest.Run {
	half := cpu / 2
	return vmtest.Run{Kernel: "6.12", Release: release, Policy: policy, QueuePairs: pairs, Axes: map[string]string{"policy": policy},
		Totals: vmtest.Totals{KicksPerMB: kicks, GoodputBps: goodput * 1e9, GuestNsPerMB: &half, HostNsPerMB: &half,
			PacketsPerMB: 40, WirePerMB: 40, GSOMeanBytes: 25000}}
}

func TestGuests(t *testing.T) {
	runs := []vmtest.Run{
		run("orphan", "none", 1, 0, 1, 1), run("orphan", "adaptive", 1, 0, 1, 1), run("orphan", "none", 2, 0, 1, 1),
		run("orphan", "adaptive", 2, 0, 1, 1), run("napi", "none", 2, 0, 1, 1), run("napi", "adaptive", 2, 0, 1, 1),
	}
	if d := cmp.Diff([]frontier.Guest{{One: 0, Two: 2, With: 3}}, frontier.Guests(runs)); d != "" {
		t.Error(d)
	}
}

func TestJudge(t *testing.T) {
	one, two := run("orphan", "none", 1, 4, 1000e3, 5), run("orphan", "none", 2, 400, 3000e3, 4)
	two.Totals.WirePerMB, two.Totals.RxCallsPerMB, two.Totals.GSOMeanBytes = 700, 400, 1400
	good, floor := run("orphan", "adaptive", 2, 4, 900e3, 5), 20.0
	dear, slow, kicks, many := good, good, good, good
	dear.Totals.ExitNsPerMB = 200e3
	slow.Totals.GoodputBps = 4.9e9
	kicks.Totals.KicksPerMB = 5
	many.Totals.WireFloor = &floor
	napi := good
	napi.Release, napi.Totals.TxCallsPerMB = vmtest.ReleaseNAPI, 40
	for _, c := range []struct {
		name string
		with vmtest.Run
		want []string
	}{
		{"all is well", good, []string{}},
		{"cost", dear, []string{"cost 1100 us/MB, at most 1000"}},
		{"goodput", slow, []string{"goodput 4.90 Gbit/s, at least 4.97"}},
		{"kicks", kicks, []string{"kicks 5.00 /MB, at most 4.00"}},
		{"wire", many, []string{"packets on the wire 40.0 /MB, at most 24.0"}},
		{"napi", napi, []string{"tx calls 40.0 /MB, at most 31.2"}},
	} {
		if d := cmp.Diff(c.want, frontier.Judge(&one, &two, &c.with)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestWeigh(t *testing.T) {
	points := []vmtest.FrontierPoint{
		{Policy: "none", KicksPerMB: 400, HostNsPerMB: 2000, MedianNs: 10e3, P99Ns: 20e3},
		{Policy: "a", KicksPerMB: 20, HostNsPerMB: 200, MedianNs: 12e3, P99Ns: 20e3},
		{Policy: "b", KicksPerMB: 30, HostNsPerMB: 200, MedianNs: 12e3, P99Ns: 25e3},
	}
	frontier.Weigh(points)
	if !points[0].Best || !points[1].Best || points[2].Best {
		t.Errorf("best: %v %v %v; b has more kicks than a and nothing better", points[0].Best, points[1].Best, points[2].Best)
	}
	want := []string{"median 12.0 us, at most 11.5", "p99 25.0 us, at most 24.0"}
	if d := cmp.Diff(want, points[2].Missed); d != "" {
		t.Error(d)
	}
}
