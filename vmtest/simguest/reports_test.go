package simguest_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
)

// planRuns runs a named plan and returns its runs by label.
func planRuns(t *testing.T, name string) map[string]*vmtest.Run {
	t.Helper()
	p, err := vmtest.PlanByName(name)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := p.Runs()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*vmtest.Run{}
	for _, r := range runs {
		run, err := simguest.New(simguest.Config{}).Run(context.Background(), r.Scenario, vmtest.Options{})
		if err != nil {
			t.Fatalf("%s: %v", r.Label, err)
		}
		out[r.Label] = run
	}
	return out
}

// repeats is the pattern that most of flow 0's packets repeat.
func repeats(r *vmtest.Run) []int {
	best := vmtest.SizeRun{}
	for _, s := range r.Sizes {
		if len(s.Lens)*s.Times > len(best.Lens)*best.Times {
			best = s
		}
	}
	return best.Lens
}

// Report 000: big-small-big-small before, one size after, and with the last
// patch alone.
func TestReport000(t *testing.T) {
	runs := planRuns(t, "tso-leftover")
	for label, want := range map[string][]int{
		"big-6.1-1q": {8192, 172032}, "big-6.1-grow-1q": {172032}, "big-6.12-1q": {172032},
		"mss1428-6.1-1q": {14280, 49980}, "mss1428-6.1-grow-1q": {49980}, "mss1428-6.12-1q": {49980},
	} {
		r := runs[label]
		if r == nil {
			t.Errorf("no run %s", label)
			continue
		}
		if d := cmp.Diff(want, repeats(r)); d != "" {
			t.Errorf("%s repeats %v, want %v", label, repeats(r), want)
		}
	}
	before, after := runs["200flows-6.1-8q"].Totals, runs["200flows-6.12-8q"].Totals
	if ratio := after.PacketsPerMB / before.PacketsPerMB; ratio > 0.8 {
		t.Errorf("200 flows: packets per MB %.2f before, %.2f after: want at least a fifth fewer", before.PacketsPerMB, after.PacketsPerMB)
	}
	if ratio := after.AcksPerMB / before.AcksPerMB; ratio > 0.8 {
		t.Errorf("200 flows: ACKs per MB %.2f before, %.2f after: want at least a fifth fewer", before.AcksPerMB, after.AcksPerMB)
	}
}

// Report 003: BBR's window is 6 segments before the patch and 386 after it.
func TestReport003(t *testing.T) {
	runs := planRuns(t, "bbr-gso-off")
	before, after := runs["4.15-1q"], runs["4.15-bbr-gso-unaware-1q"]
	if before.Flows[0].Cwnd != 6 {
		t.Errorf("before: cwnd %d, want 6", before.Flows[0].Cwnd)
	}
	if c := after.Flows[0].Cwnd; c < 384 || c > 388 {
		t.Errorf("after: cwnd %d, want 384 to 388", c)
	}
	for _, r := range []*vmtest.Run{before, after} {
		if r.Totals.GSOMeanBytes > float64(r.MSS) {
			t.Errorf("%s: packets of %.0f bytes, want at most one MSS", r.Label, r.Totals.GSOMeanBytes)
		}
	}
}
