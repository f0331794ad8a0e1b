package conclude_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/conclude"
	"github.com/vnetbench/vnetbench/vmtest"
)

// run makes a run whose figures follow from its mean packet size.
func run(kernel, release string, pairs int, mean, kicksPerMB float64, remedies ...string) vmtest.Run {
	guest, host := 3e5+kicksPerMB*1e3, 2e5+1e9/mean
	const bytes = 10e6
	packetsPerMB := 1e6 / mean
	return vmtest.Run{
		Kernel: kernel, Release: release, Remedies: append([]string{}, remedies...), QueuePairs: pairs,
		Policy: "none", Write: 1024, MSS: 1448, Axes: map[string]string{},
		Totals: vmtest.Totals{
			GoodputBps: 5e9 / (1 + kicksPerMB/1e3), GSOMeanBytes: mean, BigShare: min(1, mean/65536), Bytes: bytes,
			Packets: int64(10 * packetsPerMB), Kicks: int64(10 * kicksPerMB), PacketsPerMB: packetsPerMB,
			AcksPerMB: packetsPerMB / 2, KicksPerMB: kicksPerMB, TxCallsPerMB: kicksPerMB / 3, RxCallsPerMB: packetsPerMB / 4,
			ExitNsPerMB: kicksPerMB * 960, IRQNsPerMB: packetsPerMB * 500, GuestNsPerMB: &guest, HostNsPerMB: &host,
		},
	}
}

func defaultPlan() []vmtest.Run {
	both := []string{"win-divisor-1", "no-full-size-test"}
	return []vmtest.Run{
		run("3.8", "orphan", 1, 20000, 5), run("3.8", "orphan", 2, 1300, 400),
		run("3.8", "orphan", 1, 21000, 6, both...), run("3.8", "orphan", 2, 18000, 20, both...),
		run("6.12", "napi", 1, 9000, 10), run("6.12", "napi", 2, 2600, 300),
	}
}

func TestPairsOfTheDefaultPlan(t *testing.T) {
	want := []conclude.Pair{
		{Before: 0, After: 1, What: "queue_pairs"}, {Before: 2, After: 3, What: "queue_pairs"},
		{Before: 4, After: 5, What: "queue_pairs"}, {Before: 1, After: 3, What: "remedies"},
		{Before: 0, After: 3, What: "restored"}, {Before: 1, After: 5, What: "kernel"},
	}
	if d := cmp.Diff(want, conclude.Pairs(defaultPlan())); d != "" {
		t.Error(d)
	}
}

func TestPairsAlongAnAxis(t *testing.T) {
	a, b, c := run("3.8", "orphan", 2, 1300, 400), run("3.8", "orphan", 2, 1300, 400), run("6.1", "napi", 2, 1300, 400)
	a.Axes, b.Axes, c.Axes = map[string]string{"tso": "on"}, map[string]string{"tso": "off"}, map[string]string{"tso": "off"}
	want := []conclude.Pair{{Before: 1, After: 2, What: "kernel"}, {Before: 0, After: 1, What: "tso"}}
	runs := []vmtest.Run{a, b, c}
	if d := cmp.Diff(want, conclude.Pairs(runs)); d != "" {
		t.Error(d)
	}
	cs := conclude.Draw(runs)
	if got, want := cs[len(cs)-1].Subject, "3.8 orphan, 2 queue pairs: tso off against on"; got != want {
		t.Errorf("subject %q, want %q", got, want)
	}
}

// TestCasesAreNotCompared gives two cases different numbers of queue pairs: each
// is compared within itself, at its own largest number.
func TestCasesAreNotCompared(t *testing.T) {
	of := func(name string, r vmtest.Run) vmtest.Run {
		r.Axes = map[string]string{"case": name}
		return r
	}
	runs := []vmtest.Run{
		of("big", run("6.1", "napi", 1, 9000, 10)), of("big", run("6.12", "napi", 1, 18000, 5)),
		of("many", run("6.1", "napi", 8, 9000, 10)), of("many", run("6.12", "napi", 8, 18000, 5)),
	}
	want := []conclude.Pair{{Before: 0, After: 1, What: "kernel"}, {Before: 2, After: 3, What: "kernel"}}
	if d := cmp.Diff(want, conclude.Pairs(runs)); d != "" {
		t.Error(d)
	}
	if got, want := conclude.Draw(runs)[0].Subject, "big, 1 queue pair: 6.12 napi against 6.1 napi"; got != want {
		t.Errorf("subject %q, want %q", got, want)
	}
}

// TestTextFollowsTheCounters swaps the totals of two runs: every statement must
// turn round, with the same numbers in the other order.
func TestTextFollowsTheCounters(t *testing.T) {
	runs := defaultPlan()[:2]
	forth := conclude.Draw(runs)
	runs[0].Totals, runs[1].Totals = runs[1].Totals, runs[0].Totals
	back := conclude.Draw(runs)
	opposite := map[string][2]string{
		"size": {"get smaller", "get bigger"}, "packets": {"gets more packets", "gets fewer packets"},
		"kicks": {"kicks more often", "kicks less often"}, "calls": {"interrupts more often", "interrupts less often"},
		"exits": {"take more time", "take less time"}, "cpu": {"costs more CPU", "costs less CPU"},
		"goodput": {"Goodput falls:", "Goodput rises:"},
	}
	if len(forth) != len(opposite) || len(back) != len(opposite) {
		t.Fatalf("%d and %d conclusions, want %d", len(forth), len(back), len(opposite))
	}
	for i := range forth {
		words := opposite[forth[i].ID]
		if !strings.Contains(forth[i].Text, words[0]) {
			t.Errorf("%q lacks %q", forth[i].Text, words[0])
		}
		if !strings.Contains(back[i].Text, words[1]) {
			t.Errorf("%q lacks %q", back[i].Text, words[1])
		}
		if d := cmp.Diff(reversed(numbers(forth[i].Text)), numbers(back[i].Text)); d != "" {
			t.Errorf("%s: numbers are not exchanged: %s", forth[i].ID, d)
		}
	}
}

// numbers returns the "A -> B" values of a text, in order.
func numbers(text string) []string {
	var out []string
	words := strings.Fields(text)
	for i := 1; i+1 < len(words); i++ {
		if words[i] == "->" {
			out = append(out, words[i-1], words[i+1])
		}
	}
	return out
}

// reversed exchanges the two values of each pair.
func reversed(v []string) []string {
	out := append([]string{}, v...)
	for i := 0; i+1 < len(out); i += 2 {
		out[i], out[i+1] = out[i+1], out[i]
	}
	return out
}

func TestEverySentenceNamesItsCounters(t *testing.T) {
	for _, c := range conclude.Draw(defaultPlan()) {
		for _, name := range c.Counters {
			if !strings.Contains(c.Text, name) {
				t.Errorf("%s of %s does not name %s: %q", c.ID, c.Subject, name, c.Text)
			}
		}
	}
}

func TestUnknownFiguresAreNotClaimed(t *testing.T) {
	runs := defaultPlan()[:2]
	runs[1].Totals.GuestNsPerMB = nil
	for _, c := range conclude.Draw(runs) {
		if c.ID == "cpu" {
			t.Errorf("claimed %q of a guest that does not know its CPU time", c.Text)
		}
	}
	runs[0].Totals = vmtest.Totals{}
	if cs := conclude.Draw(runs); len(cs) != 0 {
		t.Errorf("%d conclusions from a run without a byte", len(cs))
	}
}

func TestContradictionIsNamed(t *testing.T) {
	runs := defaultPlan()[:2]
	runs[1].Totals.GoodputBps = 2 * runs[0].Totals.GoodputBps
	cs := conclude.Draw(runs)
	want := "Goodput rises although packets get smaller: 4.98 -> 9.95 Gbit/s (goodput_bps, x2.00)."
	if got := cs[len(cs)-1].Text; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestJudgeFindsTheFlip(t *testing.T) {
	runs := defaultPlan()[:2]
	costs := []vmtest.Cost{
		{Name: "host.wake", Value: 2000, Kind: vmtest.CostAssumed, Runs: []int{0, 1}},
		{Name: "guest.kick", Value: 960, Kind: vmtest.CostSourced, Runs: []int{0, 1}},
		{Name: "guest.wake", Value: 0, Kind: vmtest.CostAssumed, Runs: []int{0, 1}},
		{Name: "guest.tsq", Value: 100, Kind: vmtest.CostAssumed, Runs: []int{1}},
	}
	cs := conclude.Draw(runs)
	vs := conclude.Variations(cs, costs)
	if len(vs) != 6 {
		t.Fatalf("%d variations, want 2 runs x 2 factors of host.wake and 1 x 2 of guest.tsq", len(vs))
	}
	varied := map[conclude.Variation]*vmtest.Run{}
	for _, v := range vs {
		r := runs[v.Run]
		if v.Cost == "host.wake" && v.Factor == 2 && v.Run == 1 {
			r.Totals.GoodputBps *= 10
		}
		varied[v] = &r
	}
	conclude.Judge(runs, cs, varied)
	for _, c := range cs {
		flips := []vmtest.Flip{}
		if c.ID == "goodput" {
			flips = append(flips, vmtest.Flip{Cost: "host.wake", Factor: 2})
		}
		if d := cmp.Diff(flips, c.Flips); d != "" || c.Holds != (c.ID != "goodput") {
			t.Errorf("%s: holds %v, flips differ: %s", c.ID, c.Holds, d)
		}
		if d := cmp.Diff([]string{"guest.tsq", "host.wake"}, c.Tested); d != "" {
			t.Errorf("%s: tested: %s", c.ID, d)
		}
	}
}

// The sentence on a whole matrix says which of it lose by more queue pairs.
func TestRegression(t *testing.T) {
	run := func(kernel, host string, pairs int, packets, mean, kicks float64) vmtest.Run {
		return vmtest.Run{Kernel: kernel, Release: "napi", QueuePairs: pairs, Remedies: []string{}, Axes: map[string]string{"host": host, "queue_pairs": fmt.Sprint(pairs)},
			Totals: vmtest.Totals{Bytes: 1e6, PacketsPerMB: packets, GSOMeanBytes: mean, KicksPerMB: kicks}}
	}
	slow := []vmtest.Run{run("6.1", "slow", 1, 240, 4100, 4), run("6.1", "slow", 2, 390, 2500, 10)}
	fast := []vmtest.Run{run("6.1", "fast", 1, 970, 1024, 350), run("6.1", "fast", 2, 950, 1050, 780)}
	for _, c := range []struct {
		runs []vmtest.Run
		want string
	}{
		{slow, ""},
		{slices.Concat(slow, fast), "in 1 of 2 comparisons: 6.1 napi host=slow. Not so: 6.1 napi host=fast."},
		{slices.Concat(slow, []vmtest.Run{run("6.12", "slow", 1, 240, 4100, 4), run("6.12", "slow", 2, 390, 2500, 10)}), "in all 2 comparisons."},
		{slices.Concat(fast, []vmtest.Run{run("6.12", "fast", 1, 970, 1024, 350), run("6.12", "fast", 2, 950, 1050, 780)}), "in none of 2 comparisons."},
	} {
		if got := conclude.Regression(c.runs); !strings.HasSuffix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%q, want it to end with %q", got, c.want)
		}
	}
}
