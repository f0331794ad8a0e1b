package sidebyside_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/sidebyside"
	"github.com/vnetbench/vnetbench/vmtest"
)

// result has a run for each value, which is its kicks per MB; they differ in an
// axis.
func result(guest string, kicks ...float64) *vmtest.Result {
	r := &vmtest.Result{Guest: guest}
	for i, v := range kicks {
		name := string(rune('a' + i))
		r.Runs = append(r.Runs, vmtest.Run{Label: name, Axes: map[string]string{"x": name}, Totals: vmtest.Totals{KicksPerMB: v}})
	}
	return r
}

// agreement is what is printed.
func agreement(t *testing.T, results ...*vmtest.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := sidebyside.Agreement(&b, results, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// row is the line that begins with these words, less them.
func row(text string, words ...string) string {
	for l := range strings.Lines(text) {
		l = strings.Join(strings.Fields(l), " ")
		if after, ok := strings.CutPrefix(l, strings.Join(words, " ")+" "); ok {
			return after
		}
	}
	return ""
}

func TestAgreement(t *testing.T) {
	for _, c := range []struct {
		name    string
		results []*vmtest.Result
		want    string // rank correlation, ratio; effects: all, same sign, other sign, not seen, within
	}{
		{"the same order, twice as much", []*vmtest.Result{result("sim", 1, 10, 100), result("qemu", 2, 20, 200)}, "1.00 2.00 3 3 0 0 0"},
		{"the other order", []*vmtest.Result{result("sim", 1, 10, 100), result("qemu", 100, 10, 1)}, "-1.00 1.00 3 0 3 0 0"},
		{"one apart", []*vmtest.Result{result("sim", 1, 10, 100), result("qemu", 1, 100, 50)}, "0.50 1.71 3 2 1 0 0"},
		{"the model sees less than a tenth", []*vmtest.Result{result("sim", 100, 105, 500), result("qemu", 100, 50, 500)}, "0.50 0.78 3 2 0 1 0"},
		{"within the spread of two results", []*vmtest.Result{result("sim", 10, 20, 100), result("qemu", 10, 20, 100), result("qemu", 30, 20, 100)}, "0.87 1.26 3 2 0 0 1"},
		{"the median of three, not the mean", []*vmtest.Result{result("sim", 1, 10, 100), result("qemu", 1, 10, 100), result("qemu", 1, 10, 100), result("qemu", 1, 10, 900)}, "1.00 1.00 3 1 0 0 2"},
		{"a constant", []*vmtest.Result{result("sim", 0, 0, 0), result("qemu", 1, 10, 100)}, "- - 3 0 0 3 0"},
	} {
		all := agreement(t, c.results...)
		if got := row(all, "kicks/MB"); got != c.want {
			t.Errorf("%s: %q, want %q in\n%s", c.name, got, c.want, all)
		}
	}
}

// Every run and every effect has its line, with its mark.
func TestAgreementLines(t *testing.T) {
	sim, qemu := result("sim", 10, 20, 30), result("qemu", 10, 5, 6)
	for _, r := range []*vmtest.Result{sim, qemu} {
		for i := range r.Runs {
			r.Runs[i].Kernel, r.Runs[i].Release = "6.12", "napi"
			r.Runs[i].Totals.PacketsPerMB = r.Runs[i].Totals.KicksPerMB
		}
	}
	more := result("qemu", 12, 5, 7)
	all := agreement(t, sim, qemu, more)
	if got := row(all, "a"); !strings.Contains(got, "10.0 11.0 [10.0..12.0] 1.10") {
		t.Errorf("run a: %q in\n%s", got, all)
	}
	for what, want := range map[string]string{"x a -> b": "2.00 0.455 !", "x b -> c": "1.50 1.30"} {
		if got := row(all, strings.Fields(what)...); !strings.HasPrefix(got, "6.12 napi") || !strings.Contains(got, want) {
			t.Errorf("effect %q: %q, want %q in\n%s", what, got, want, all)
		}
	}
}

// An effect is of one thing; cases are compared with the first.
func TestEffectsOfOneThing(t *testing.T) {
	runs := func(guest string) *vmtest.Result {
		r := &vmtest.Result{Guest: guest}
		for _, c := range []string{"none", "hold", "merge"} {
			for _, pairs := range []string{"1", "2"} {
				r.Runs = append(r.Runs, vmtest.Run{Label: c + pairs, Axes: map[string]string{"case": c, "queue_pairs": pairs}})
			}
		}
		return r
	}
	all := agreement(t, runs("sim"), runs("qemu"))
	for what, want := range map[string]int{"case none -> hold": 2, "case none -> merge": 2, "case hold -> merge": 0, "queue_pairs 1 -> 2": 3} {
		if got := strings.Count(strings.Join(strings.Fields(all), " "), what); got != want {
			t.Errorf("%q: %d times, want %d in\n%s", what, got, want, all)
		}
	}
}

// What an emulated processor does in a second says nothing.
func TestRatesOfAnEmulatorAreLeftOut(t *testing.T) {
	sim, qemu := result("sim", 1, 2, 3), result("qemu", 1, 2, 3)
	if all := agreement(t, sim, qemu); !strings.Contains(all, "Gbit/s") {
		t.Errorf("two guests of real speed:\n%s", all)
	}
	qemu.Environment.Accel = "tcg"
	if all := agreement(t, sim, qemu); strings.Contains(all, "Gbit/s") || !strings.Contains(all, "cannot be compared") {
		t.Errorf("an emulated guest:\n%s", all)
	}
}

func TestNothingToAgreeAbout(t *testing.T) {
	for _, rs := range [][]*vmtest.Result{
		{result("sim", 1, 2, 3), result("sim", 1, 2, 3)},
		{result("sim", 1, 2, 3), result("qemu", 1, 2)},
		{result("sim", 1, 2, 3), result("qemu", 1, 2, 3), result("uml", 1, 2, 3)},
	} {
		if all := agreement(t, rs...); all != "" {
			t.Errorf("got\n%s", all)
		}
	}
}
