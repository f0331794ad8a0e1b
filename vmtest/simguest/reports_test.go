package simguest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

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

// Report 003: BBR's window is 6 segments before the patch and 386 after it. With
// packets of two segments it opens as well.
func TestReport003(t *testing.T) {
	runs := planRuns(t, "bbr-gso-off")
	window := func(label string, least, most int64) {
		t.Helper()
		r := runs[label]
		if r == nil {
			t.Fatalf("no run %s", label)
		}
		if c := r.Flows[0].Cwnd; c < least || c > most {
			t.Errorf("%s: cwnd %d, want %d to %d", label, c, least, most)
		}
	}
	window("1seg-4.15-1q", 6, 6)
	window("1seg-4.15-bbr-gso-unaware-1q", 384, 388)
	window("2segs-4.15-1q", 12, 12)
	window("2segs-4.15-bbr-gso-unaware-1q", 100, 388)
	for label, r := range runs {
		segs := 1
		if strings.HasPrefix(label, "2segs") {
			segs = 2
		}
		if r.Totals.GSOMeanBytes > float64(segs*r.MSS) {
			t.Errorf("%s: packets of %.0f bytes, want at most %d MSS", label, r.Totals.GSOMeanBytes, segs)
		}
	}
}

// The window of report 003 does not hang on the assumed times: it is the same
// with each a fifth less, and with a link a fifth slower. Packets a fifth slower
// are too few for the largest budget: below 127 segments in 1/1024 s, which is
// 1.51 Gbit/s, the budget follows the rate.
func TestReport003Costs(t *testing.T) {
	p, err := vmtest.PlanByName("bbr-gso-off")
	if err != nil {
		t.Fatal(err)
	}
	planned, err := p.Runs()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(planned, func(r vmtest.PlannedRun) bool { return r.Label == "1seg-4.15-bbr-gso-unaware-1q" })
	if i < 0 {
		t.Fatal("no such run")
	}
	host, link := *planned[i].Scenario.Host.TxBase, planned[i].Scenario.Link.Delay
	for _, tt := range []struct {
		host, link  time.Duration
		least, most int64
	}{
		{host * 8 / 10, link, 384, 388}, {host, link * 8 / 10, 384, 388},
		{host, link * 12 / 10, 384, 388}, {host * 12 / 10, link, 3 * 118, 3 * 126},
	} {
		s := planned[i].Scenario.Clone()
		s.Host.TxBase, s.Link.Delay = &tt.host, tt.link
		run, err := simguest.New(simguest.Config{}).Run(context.Background(), s, vmtest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c := run.Flows[0].Cwnd; c < tt.least || c > tt.most {
			t.Errorf("packets of %v, link of %v: cwnd %d, want %d to %d", tt.host, tt.link, c, tt.least, tt.most)
		}
	}
}
