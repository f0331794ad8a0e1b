package sidebyside

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vmtest"
)

// effect is a change of one thing: from one run to another, of which the plan
// says that they differ in nothing else.
type effect struct {
	from, to int    // indexes of labels
	what     string // such as queue_pairs 1 -> 2
	at       string // what both have in common
}

// caseAxis is the axis of a plan's cases, of which only the first is one that the
// others are compared with.
const caseAxis = "case"

// coordinates are what a plan varies, by name.
func coordinates(r *vmtest.Run) map[string]string {
	out := maps.Clone(r.Axes)
	if out == nil {
		out = map[string]string{}
	}
	out["kernel"], out["release"] = r.Kernel, r.Release
	return out
}

// effects are the changes among the runs, in their order.
func effects(runs []*vmtest.Run) (out []effect) {
	if len(runs) == 0 {
		return nil
	}
	first := runs[0].Axes[caseAxis]
	for i, a := range runs {
		for k := i + 1; k < len(runs); k++ {
			from, to := coordinates(a), coordinates(runs[k])
			key, ok := difference(from, to)
			if !ok || key == caseAxis && from[key] != first {
				continue
			}
			out = append(out, effect{i, k, strings.TrimSpace(key + " " + from[key] + " -> " + to[key]), rest(from, key)})
		}
	}
	return out
}

// difference is the name of the one coordinate in which two runs differ; none at
// all if a plan says nothing about them.
func difference(a, b map[string]string) (key string, ok bool) {
	n := 0
	for k := range a {
		if a[k] != b[k] {
			key, n = k, n+1
		}
	}
	return key, n == 1 && len(a) == len(b)
}

// rest is the coordinates but one, as text.
func rest(c map[string]string, but string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(c)) {
		if k == but || c[k] == "" {
			continue
		}
		switch k {
		case "kernel", "release", caseAxis:
			out = append(out, c[k])
		default:
			out = append(out, k+"="+c[k])
		}
	}
	return strings.Join(out, " ")
}

// verdict is what two guests say of an effect on one figure.
type verdict uint8

const (
	within verdict = iota // the second guest's change is less than a tenth or its spread
	agrees
	unseen   // the first guest's is, or no more than its own spread
	opposite // they have different signs
	verdicts
)

var verdictMarks = [verdicts]string{"~", "", "?", "!"}

// judge compares the change that a figure makes on two guests. The second is held
// to be right: what is within its spread is no effect.
func judge(a, b []spread, e effect) verdict {
	model, real := change(a[e.from], a[e.to]), change(b[e.from], b[e.to])
	switch {
	case real == 0:
		return within
	case model == real:
		return agrees
	case model == 0:
		return unseen
	}
	return opposite
}

// figure is one counter over the labels that both guests have.
type figure struct {
	counter
	a, b []spread
}

// disagrees says that a figure does.
func (e effect) disagrees(figures []figure) bool {
	return slices.ContainsFunc(figures, func(f figure) bool { return judge(f.a, f.b, e) > agrees })
}

// writeEffects writes a line for each effect: by what each guest's figures are
// multiplied, and whether that agrees.
func writeEffects(w io.Writer, es []effect, figures []figure, guests [2]string) error {
	fmt.Fprintf(w, "\nBy what a figure is multiplied, in %s and in %s. No mark: the same sign. !: the other sign. ?: in %s it is less\n"+
		"than a tenth, or than its own spread. ~: no more than a tenth, or than the spread of %s, so that nothing can be said.\n\n", guests[0], guests[1], guests[0], guests[1])
	t := figureTable(w, "of\tat\t", figures)
	for _, e := range es {
		fmt.Fprintf(t, "%s\t%s\t", e.what, e.at)
		for _, f := range figures {
			fmt.Fprintf(t, "%s\t%s\t%s\t", times(f.a[e.from], f.a[e.to]), times(f.b[e.from], f.b[e.to]), verdictMarks[judge(f.a, f.b, e)])
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// times is the quotient of two values.
func times(from, to spread) string {
	q := to.mid / from.mid // none, or without end, from 0
	return grid.Number(q)
}

// writeVerdicts counts the effects by verdict and says how the figures go together.
func writeVerdicts(w io.Writer, es []effect, figures []figure) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "figure\trank correlation\tratio\teffects\tsame sign\tother sign\tnot seen\twithin the spread\t")
	for _, f := range figures {
		var n [verdicts]int
		for _, e := range es {
			n[judge(f.a, f.b, e)]++
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t\n", f.name, known(spearman(f.a, f.b)), known(ratio(f.a, f.b)),
			len(es), n[agrees], n[opposite], n[unseen], n[within])
	}
	return t.Flush()
}
