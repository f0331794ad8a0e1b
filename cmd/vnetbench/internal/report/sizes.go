package report

import (
	"fmt"
	"strings"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vmtest"
)

// regular is the share of a flow's packets that few patterns must cover for
// their sequence to be worth a line.
const regular = 0.9

// mostPatterns is how many patterns a line has.
const mostPatterns = 3

// sizes writes the packets of flow 0 as they left, for the runs whose packets
// fall into a pattern.
func sizes(runs []vmtest.Run) string {
	var b strings.Builder
	for i := range runs {
		line, ok := pattern(runs[i].Sizes)
		if !ok {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\nSizes as they leave, in bytes (flow 0):\n")
		}
		fmt.Fprintf(&b, "  %s: %s\n", shortName(&runs[i], remedySets(runs)), line)
	}
	return b.String()
}

// paths writes what BBR thinks of the path of flow 0, for the runs that have it.
func paths(runs []vmtest.Run) string {
	var b strings.Builder
	for i := range runs {
		if len(runs[i].Flows) == 0 || runs[i].Flows[0].Model == nil {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\nThe path as BBR sees it at the end (flow 0):\n")
		}
		f := &runs[i].Flows[0]
		m := f.Model
		fmt.Fprintf(&b, "  %s: cwnd %d (most of the time), bandwidth %s Mbit/s, min RTT %s us, BDP %d segments, budget 3 x %d segments, %s\n",
			shortName(&runs[i], remedySets(runs)), f.Cwnd, grid.Number(m.BandwidthBps/1e6), grid.Number(m.MinRTTus), m.BDPSegs, m.GoalSegs, m.Mode)
	}
	return b.String()
}

// pattern writes the patterns that cover most packets, in their order, and
// whether they cover nearly all.
func pattern(list []vmtest.SizeRun) (string, bool) {
	var total, covered int
	var words []string
	for _, r := range list {
		total += len(r.Lens) * r.Times
	}
	for _, r := range list {
		n := len(r.Lens) * r.Times
		if r.Times < 2 || n*10 < total || len(words) == mostPatterns {
			continue
		}
		covered += n
		words = append(words, patternText(r))
	}
	return strings.Join(words, ", "), total > 0 && float64(covered) >= regular*float64(total)
}

func patternText(r vmtest.SizeRun) string {
	parts := make([]string, len(r.Lens))
	for i, n := range r.Lens {
		parts[i] = fmt.Sprint(n)
	}
	if len(parts) == 1 {
		return fmt.Sprintf("%s, %d times", parts[0], r.Times)
	}
	return fmt.Sprintf("%s, %d times over", strings.Join(parts, " "), r.Times)
}
