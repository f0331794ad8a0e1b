package grid_test

import (
	"math"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
)

func TestTableAlignsAndTrims(t *testing.T) {
	tb := grid.Table{Columns: []grid.Column{
		{Head: []string{"run"}, Left: true}, {Head: []string{"goodput", "Gbit/s"}}, {Head: []string{"note"}, Left: true},
	}}
	tb.Row("a", "1.5")
	tb.Row("longer µs", "12", "x", "beyond")
	var b strings.Builder
	if err := tb.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"           goodput\n" +
		"run         Gbit/s  note\n" +
		"a              1.5\n" +
		"longer µs       12  x\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestWrapKeepsWidth(t *testing.T) {
	got := grid.Wrap("one two three four averyveryverylongword five", 12, "- ", "  ")
	want := "- one two\n  three four\n  averyveryverylongword\n  five\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0, "0"}, {0.00012345, "0.000123"}, {0.25, "0.250"}, {1.005, "1.00"}, {9.996, "10.0"},
		{99.96, "100"}, {1234.5, "1234"}, {1e12, "1000000000000"}, {-3.14159, "-3.14"}, {math.NaN(), "-"}, {math.Inf(1), "-"},
	} {
		if got := grid.Number(c.v); got != c.want {
			t.Errorf("Number(%v) = %q, want %q", c.v, got, c.want)
		}
	}
	if got := grid.Optional(nil); got != "-" {
		t.Errorf("Optional(nil) = %q", got)
	}
}
