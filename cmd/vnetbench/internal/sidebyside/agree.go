package sidebyside

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vmtest"
)

// spread is the values of a figure in the runs of one label on one kind of guest:
// the median of them and the extremes.
type spread struct{ mid, min, max float64 }

// newSpread is the spread of values, which it sorts.
func newSpread(values []float64) spread {
	slices.Sort(values)
	n := len(values)
	return spread{(values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1]}
}

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
	var values []float64
	for _, run := range g.runs(label) {
		if !c.device || run.MeasuredAt != vmtest.MeasuredAtGuest {
			values = append(values, c.of(&run.Totals))
		}
	}
	if len(values) == 0 {
		return s, false
	}
	return newSpread(values), true
}

// runs are those with that label.
func (g *group) runs(label string) (out []*vmtest.Run) {
	for _, r := range g.results {
		for i := range r.Runs {
			if r.Runs[i].Label == label {
				out = append(out, &r.Runs[i])
			}
		}
	}
	return out
}

// emulated says that times of the guest are those of an emulator.
func (g *group) emulated() bool {
	return slices.ContainsFunc(g.results, func(r *vmtest.Result) bool { return r.Environment.Accel == "tcg" })
}

// ratio is the geometric mean of second by first, NaN where no pair of values is
// above 0.
func ratio(a, b []spread) float64 {
	logs, n := 0.0, 0
	for i := range a {
		if a[i].mid > 0 && b[i].mid > 0 {
			logs, n = logs+math.Log(b[i].mid/a[i].mid), n+1
		}
	}
	return math.Exp(logs / float64(n))
}

// leastChange is the share by which a figure has to change to count.
const leastChange = 0.10

// change is the sign of a change that is larger than a tenth and than the spread
// of either value.
func change(from, to spread) int {
	d := to.mid - from.mid
	if math.Abs(d) <= max(leastChange*max(from.mid, to.mid), from.max-from.min, to.max-to.min) {
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
			case s[k].mid < s[i].mid:
				out[i]++
			case s[k].mid == s[i].mid && k != i:
				out[i] += 0.5
			}
		}
	}
	return out
}

// leastRuns is how many runs two guests need in common to be compared.
const leastRuns = 3

// Figures that are not compared: of an emulated guest what is a matter of its
// speed, and the share of bytes in large packets, which says nothing where they are
// all small.
const (
	rate  = "Gbit/s"
	share = ">=8 MSS %"
)

// Agreement writes how far two kinds of guests agree about the runs that both
// made: each run's figures beside each other, the effect of each single thing that
// the runs differ in, whether it has the same sign on both where it is larger than
// the spread of the second guest's results, and over all the order of the runs and
// the ratio. Brief is without the runs, and without the effects about which they
// agree. It writes nothing unless there are two kinds with three runs in common.
func Agreement(w io.Writer, results []*vmtest.Result, brief bool) error {
	gs := groups(results)
	if len(gs) != 2 {
		return nil
	}
	labels := common(gs[0], gs[1])
	if len(labels) < leastRuns {
		return nil
	}
	figures := figuresOf(gs[0], gs[1], labels)
	var runs []*vmtest.Run
	for _, l := range labels {
		runs = append(runs, gs[0].runs(l)[0])
	}
	fmt.Fprintf(w, "\n%s (%d results) and %s (%d) over the %d runs that both made: medians, the spread of %s in brackets, and ratios of %s by %s.\n",
		gs[0].guest, len(gs[0].results), gs[1].guest, len(gs[1].results), len(labels), gs[1].guest, gs[1].guest, gs[0].guest)
	if gs[0].emulated() || gs[1].emulated() {
		fmt.Fprintln(w, "The processor of a guest is emulated: rates and times cannot be compared and are left out.")
	}
	return writeAgreement(w, labels, effects(runs), figures, [2]string{gs[0].guest, gs[1].guest}, brief)
}

func writeAgreement(w io.Writer, labels []string, es []effect, figures []figure, guests [2]string, brief bool) error {
	fmt.Fprintln(w)
	if err := writeVerdicts(w, es, figures); err != nil {
		return err
	}
	if brief {
		es = slices.DeleteFunc(slices.Clone(es), func(e effect) bool { return !e.disagrees(figures) })
	} else if err := writeCells(w, labels, figures); err != nil {
		return err
	}
	if len(es) == 0 {
		return nil
	}
	return writeEffects(w, es, figures, guests)
}

// figuresOf are the counters that can be compared.
func figuresOf(a, b group, labels []string) (out []figure) {
	for _, c := range counters {
		if c.name == share || c.name == rate && (a.emulated() || b.emulated()) {
			continue
		}
		f := figure{counter: c}
		for _, l := range labels {
			x, _ := a.of(l, c)
			y, _ := b.of(l, c)
			f.a, f.b = append(f.a, x), append(f.b, y)
		}
		out = append(out, f)
	}
	return out
}

// figureTable begins a table whose first columns are named by head, and that has
// three columns for each figure.
func figureTable(w io.Writer, head string, figures []figure) *tabwriter.Writer {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, head)
	for _, f := range figures {
		fmt.Fprintf(t, "%s\t\t\t", f.name)
	}
	fmt.Fprintln(t)
	return t
}

// writeCells writes each run's figures on both guests.
func writeCells(w io.Writer, labels []string, figures []figure) error {
	t := figureTable(w, "\nrun\t", figures)
	for i, l := range labels {
		fmt.Fprintf(t, "%s\t", l)
		for _, f := range figures {
			fmt.Fprintf(t, "%s\t%s [%s..%s]\t%s\t", grid.Number(f.a[i].mid), grid.Number(f.b[i].mid), grid.Number(f.b[i].min), grid.Number(f.b[i].max), times(f.a[i], f.b[i]))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func known(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
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
