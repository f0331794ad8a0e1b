package sidebyside_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/sidebyside"
	"github.com/vnetbench/vnetbench/vmtest"
)

// result has a run for each value, which is its kicks per MB.
func result(guest string, kicks ...float64) *vmtest.Result {
	r := &vmtest.Result{Guest: guest}
	for i, v := range kicks {
		r.Runs = append(r.Runs, vmtest.Run{Label: string(rune('a' + i)), Totals: vmtest.Totals{KicksPerMB: v}})
	}
	return r
}

// kicks is the line of the table about kicks.
func kicks(t *testing.T, results ...*vmtest.Result) (line, all string) {
	t.Helper()
	var b bytes.Buffer
	if err := sidebyside.Agreement(&b, results); err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(b.String()) {
		if f := strings.Fields(l); len(f) == 6 && f[0] == "kicks/MB" {
			line = strings.Join(f[1:], " ")
		}
	}
	return line, b.String()
}

func TestAgreement(t *testing.T) {
	for _, c := range []struct {
		name    string
		results []*vmtest.Result
		want    string // rank correlation, ratio, changes
	}{
		{"the same order, twice as much", []*vmtest.Result{result("sim", 1, 10, 100), result("qemu", 2, 20, 200)}, "1.00 2.00 3 0 0"},
		{"the other order", []*vmtest.Result{result("sim", 1, 10, 100), result("qemu", 100, 10, 1)}, "-1.00 1.00 0 3 0"},
		{"one apart", []*vmtest.Result{result("sim", 1, 10, 100), result("qemu", 1, 100, 50)}, "0.50 1.71 2 1 0"},
		{"less than a tenth", []*vmtest.Result{result("sim", 100, 105, 500), result("qemu", 100, 50, 500)}, "0.50 0.78 2 0 1"},
		{"within the spread of two results", []*vmtest.Result{result("sim", 10, 20, 100), result("qemu", 10, 20, 100), result("qemu", 30, 20, 100)}, "0.87 1.26 2 0 1"},
		{"a constant", []*vmtest.Result{result("sim", 0, 0, 0), result("qemu", 1, 10, 100)}, "- - 0 0 3"},
	} {
		if got, all := kicks(t, c.results...); got != c.want {
			t.Errorf("%s: %q, want %q in\n%s", c.name, got, c.want, all)
		}
	}
}

func TestDisagreementIsNamed(t *testing.T) {
	_, all := kicks(t, result("sim", 1, 10, 100), result("qemu", 1, 100, 50))
	if !strings.Contains(all, "kicks/MB, other sign: b -> c: 10 -> 100 and 100 -> 50") {
		t.Errorf("got\n%s", all)
	}
}

func TestNothingToAgreeAbout(t *testing.T) {
	for _, rs := range [][]*vmtest.Result{
		{result("sim", 1, 2, 3), result("sim", 1, 2, 3)},
		{result("sim", 1, 2, 3), result("qemu", 1, 2)},
		{result("sim", 1, 2, 3), result("qemu", 1, 2, 3), result("uml", 1, 2, 3)},
	} {
		if _, all := kicks(t, rs...); all != "" {
			t.Errorf("got\n%s", all)
		}
	}
}
