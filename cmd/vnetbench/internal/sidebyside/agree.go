package sidebyside

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/vnetbench/vnetbench/vmtest"
)

// spread is the values of a figure in the runs of one label on one kind of guest.
type spread struct{ mean, min, max float64 }

// group is the results of one kind of guest: a figure by label, over all of them.
type group struct {
	guest   string
	results []*vmtest.Result
}

// groups gathers the results by their guest, in the order of the results.
func groups(results []*vmtest.Result) (out []group) {
	for _, r := range results {
		i := slices.IndexFunc(out, func(g group) bool { return g.guest == r.Guest })
		if i < 0 {
			i, out = len(out), append(out, group{guest: r.Guest})
		}
		out[i].results = append(out[i].results, r)
	}
	return out
}

// of is a figure of the runs with that label; ok is false if there are none, or it
// is not counted there.
func (g *group) of(label string, c counter) (s spread, ok bool) {
	n := 0.0
	for _, r := range g.results {
		for i := range r.Runs {
			run := &r.Runs[i]
			if run.Label != label || c.device && run.MeasuredAt == vmtest.MeasuredAtGuest {
				continue
			}
			v := c.of(&run.Totals)
			if n == 0 {
				s.min, s.max = v, v
			}
			n++
			s.mean, s.min, s.max = s.mean+v, min(s.min, v), max(s.max, v)
		}
	}
	s.mean /= max(n, 1)
	return s, n > 0
}

// agreement is how a figure of two kinds of guests goes together.
type agreement struct {
	rank   float64 // Spearman's, NaN where a side is constant
	ratio  float64 // geometric mean of second by first, NaN where a value is 0
	same   int     // changes from one label to another with the same sign
	within int     // that are within the spread of a side: nothing can be said
	apart  []string
}

// agree compares a figure over the labels that both have.
func agree(labels []string, a, b []spread) (g agreement) {
	g.rank = spearman(a, b)
	logs, n := 0.0, 0
	for i := range a {
		if a[i].mean > 0 && b[i].mean > 0 {
			logs, n = logs+math.Log(b[i].mean/a[i].mean), n+1
		}
	}
	g.ratio = math.Exp(logs / float64(n))
	for i := range a {
		for k := i + 1; k < len(a); k++ {
			x, y := change(a[i], a[k]), change(b[i], b[k])
			switch {
			case x == 0 || y == 0:
				g.within++
			case x == y:
				g.same++
			default:
				g.apart = append(g.apart, fmt.Sprintf("%s -> %s: %.4g -> %.4g and %.4g -> %.4g", labels[i], labels[k], a[i].mean, a[k].mean, b[i].mean, b[k].mean))
			}
		}
	}
	return g
}

// leastChange is the share by which a figure has to change to count.
const leastChange = 0.10

// change is the sign of a change that is larger than a tenth and than the spread
// of either value.
func change(from, to spread) int {
	d := to.mean - from.mean
	if math.Abs(d) <= max(leastChange*max(from.mean, to.mean), from.max-from.min, to.max-to.min) {
		return 0
	}
	return cmp.Compare(d, 0)
}

// spearman is the correlation of the ranks; equal values share theirs.
func spearman(a, b []spread) float64 {
	x, y := ranks(a), ranks(b)
	mean := float64(len(a)-1) / 2
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mean, y[i]-mean
		xy, xx, yy = xy+dx*dy, xx+dx*dx, yy+dy*dy
	}
	return xy / math.Sqrt(xx*yy)
}

func ranks(s []spread) []float64 {
	out := make([]float64, len(s))
	for i := range s {
		for k := range s {
			switch {
			case s[k].mean < s[i].mean:
				out[i]++
			case s[k].mean == s[i].mean && k != i:
				out[i] += 0.5
			}
		}
	}
	return out
}

// leastRuns is how many runs two guests need in common to be compared.
const leastRuns = 3

// mostApart is how many changes with another sign are named for each figure.
const mostApart = 4

// Agreement writes how far two kinds of guests agree about the runs that both
// made: the order of the runs, the ratio, and the sign of every change from one run
// to another that is larger than a tenth and than the spread of a guest's results.
// It writes nothing unless there are two kinds with three runs in common.
func Agreement(w io.Writer, results []*vmtest.Result) error {
	gs := groups(results)
	if len(gs) != 2 {
		return nil
	}
	labels := common(gs[0], gs[1])
	if len(labels) < leastRuns {
		return nil
	}
	fmt.Fprintf(w, "\n%s (%d results) and %s (%d) over the %d runs that both made; ratios are %s by %s:\n\n",
		gs[0].guest, len(gs[0].results), gs[1].guest, len(gs[1].results), len(labels), gs[1].guest, gs[0].guest)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "figure\trank correlation\tratio\tchanges: same sign\tother sign\twithin a tenth or the spread\t")
	var apart strings.Builder
	for _, c := range counters {
		var a, b []spread
		for _, l := range labels {
			x, _ := gs[0].of(l, c)
			y, _ := gs[1].of(l, c)
			a, b = append(a, x), append(b, y)
		}
		g := agree(labels, a, b)
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t\n", c.name, known(g.rank), known(g.ratio), g.same, len(g.apart), g.within)
		note(&apart, c.name, g.apart)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, apart.String())
	return err
}

func known(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

func note(b *strings.Builder, name string, apart []string) {
	for i, text := range apart {
		if i == mostApart {
			fmt.Fprintf(b, "  %s: and %d more\n", name, len(apart)-i)
			return
		}
		fmt.Fprintf(b, "  %s, other sign: %s\n", name, text)
	}
}

// common are the labels of runs that both have.
func common(a, b group) (out []string) {
	for _, r := range a.results {
		for i := range r.Runs {
			label := r.Runs[i].Label
			if _, ok := b.of(label, counters[0]); ok && !slices.Contains(out, label) {
				out = append(out, label)
			}
		}
	}
	return out
}
