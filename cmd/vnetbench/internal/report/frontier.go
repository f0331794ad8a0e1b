package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/frontier"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Frontiers prints, for each guest that the adaptive policy does not cure in every
// respect, what it misses and what other settings give.
func Frontiers(w io.Writer, all []vmtest.Frontier) error {
	for _, f := range all {
		head := fmt.Sprintf("%s %s, 2 pairs: adaptive misses %s. Settings, the frontier of kicks, host CPU and latency marked:",
			f.Kernel, f.Release, strings.Join(f.Missed, "; "))
		if _, err := io.WriteString(w, "\n"+grid.Wrap(head, Width, "", "  ")); err != nil {
			return err
		}
		t := grid.Table{Columns: []grid.Column{{Head: []string{"policy"}, Left: true}, {Head: []string{"", ""}, Left: true}, {Head: []string{"kicks", "/MB"}},
			{Head: []string{"host CPU", "us/MB"}}, {Head: []string{"median", "us"}}, {Head: []string{"p99", "us"}}, {Head: []string{"cost", "us/MB"}},
			{Head: []string{"goodput", "Gbit/s"}}, {Head: []string{"misses"}, Left: true}}}
		for _, p := range f.Settings {
			t.Row(p.Policy, mark(p.Best), grid.Number(p.KicksPerMB), grid.Number(p.HostNsPerMB/1e3), grid.Number(float64(p.MedianNs)/1e3),
				grid.Number(float64(p.P99Ns)/1e3), grid.Number(p.CostNsPerMB/1e3), grid.Number(p.GoodputBps/1e9), clauses(p.Missed))
		}
		if err := t.Write(w); err != nil {
			return err
		}
	}
	return nil
}

func mark(best bool) string {
	if best {
		return "*"
	}
	return ""
}

// clauses are the names of what is missed.
func clauses(missed []string) string {
	var out []string
	for _, m := range missed {
		out = append(out, frontier.Clause(m))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}
