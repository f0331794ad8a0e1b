package conclude

import (
	"fmt"
	"strings"

	"github.com/vnetbench/vnetbench/vmtest"
)

// Regression says which kernels, releases and hosts of a matrix lose by more queue
// pairs, and which do not: they hand over more packets for a MB, smaller ones, and
// kick more often. It is empty if fewer than two pairs of runs differ in their queue
// pairs alone, or if nothing was counted.
func Regression(runs []vmtest.Run) string {
	var yes, no []string
	for _, p := range along(runs, "queue_pairs") {
		a, b := runs[p.Before], runs[p.After]
		if a.Totals.Bytes == 0 || b.Totals.Bytes == 0 {
			continue
		}
		name := called(b)
		if regressed(&a.Totals, &b.Totals) {
			yes = append(yes, name)
		} else {
			no = append(no, name)
		}
	}
	const what = "More queue pairs make more and smaller packets, and more kicks"
	switch {
	case len(yes)+len(no) < 2:
		return ""
	case len(no) == 0:
		return fmt.Sprintf("%s, in all %d comparisons.", what, len(yes))
	case len(yes) == 0:
		return fmt.Sprintf("%s, in none of %d comparisons.", what, len(no))
	}
	return fmt.Sprintf("%s, in %d of %d comparisons: %s. Not so: %s.", what, len(yes), len(yes)+len(no), strings.Join(yes, "; "), strings.Join(no, "; "))
}

// regressed compares by the margin of all statements.
func regressed(a, b *vmtest.Totals) bool {
	return directionOf(a.PacketsPerMB, b.PacketsPerMB, sameMargin) == up &&
		directionOf(a.GSOMeanBytes, b.GSOMeanBytes, sameMargin) != up &&
		directionOf(a.KicksPerMB, b.KicksPerMB, sameMargin) == up
}

// called names a run without its queue pairs.
func called(r vmtest.Run) string {
	parts := []string{strings.TrimSpace(r.Kernel+" "+r.Release) + remedied(r)}
	for _, k := range sortedKeys(r.Axes) {
		if k != "queue_pairs" && k != "release" {
			parts = append(parts, k+"="+r.Axes[k])
		}
	}
	return strings.Join(parts, " ")
}
