package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vmtest"
)

// noteWidth is the widest line of a cost's note, in columns.
const noteWidth = 84

// Costs writes the cost model: each entry with its value, whether it is sourced,
// measured, assumed or set by the scenario, and where it is from. runs is the number of the result's runs: an entry that does
// not hold for all of them says for which.
func Costs(w io.Writer, costs []vmtest.Cost, runs int) error {
	t := grid.Table{Columns: []grid.Column{
		{Head: []string{"cost"}, Left: true}, {Head: []string{"value"}}, {Head: []string{"unit"}, Left: true},
		{Head: []string{"kind"}, Left: true}, {Head: []string{"from"}, Left: true},
	}}
	for _, c := range costs {
		name := c.Name
		if len(c.Runs) > 0 && len(c.Runs) < runs {
			name += " (" + runList(c.Runs) + ")"
		}
		lines := strings.Split(strings.TrimSuffix(grid.Wrap(c.Note, noteWidth, "", ""), "\n"), "\n")
		t.Row(name, grid.Number(c.Value), c.Unit, c.Kind, lines[0])
		for _, l := range lines[1:] {
			t.Row("", "", "", "", l)
		}
	}
	return t.Write(w)
}

func runList(runs []int) string {
	parts := make([]string, len(runs))
	for i, r := range runs {
		parts[i] = fmt.Sprint(r)
	}
	return "run " + strings.Join(parts, ",")
}
