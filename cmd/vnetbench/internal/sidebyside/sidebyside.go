// Package sidebyside lays the runs of two guests beside each other, packet for
// packet and counter for counter. It runs nothing and opens no file.
package sidebyside

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/trace"
)

// Side is one guest's run of a scenario.
type Side struct {
	Guest string
	Run   *vmtest.Run
	Trace *trace.Trace
}

// Pair is two runs of what is the same scenario for both. The first is held to be
// right.
type Pair struct {
	Label        string
	Truth, Model Side
	Report       *trace.Report
}

// New compares two sides.
func New(label string, truth, model Side) Pair {
	r := trace.Compare(truth.Trace, model.Trace)
	r.Trace, r.Model = label+" "+truth.Guest, label+" "+model.Guest
	return Pair{label, truth, model, r}
}

// Text writes the comparison of all pairs, their counters, and, if there is only
// one pair, the first differences in full.
func Text(w io.Writer, pairs []Pair) error {
	if err := Brief(w, pairs); err != nil {
		return err
	}
	if err := writeCounters(w, pairs); err != nil {
		return err
	}
	if len(pairs) != 1 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return pairs[0].Report.WriteText(w)
}

// Brief writes the comparison of all pairs, and what the models were told of the
// runs that they were held against.
func Brief(w io.Writer, pairs []Pair) error {
	var reports []*trace.Report
	var phases []string
	for _, p := range pairs {
		reports = append(reports, p.Report)
		if at := p.Truth.Run.ClockPhase; at != nil && p.Model.Guest == "sim" {
			phases = append(phases, fmt.Sprint(*at))
		}
	}
	if err := trace.WriteCheck(w, reports); err != nil || len(phases) == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "\nThe model was told each flow's queue, by how many ns the kernel's time was past a step of its clock at the start (%s), and\n"+
		"where BBR's cycle began: the one of seven that fits best.\n", strings.Join(slices.Compact(phases), ", "))
	return err
}

// counter is a figure of a run's totals that is laid side by side.
type counter struct {
	name   string
	of     func(*vmtest.Totals) float64
	device bool // only a device counts it
}

var counters = []counter{
	{rate, func(t *vmtest.Totals) float64 { return t.GoodputBps / 1e9 }, false},
	{"mean bytes", func(t *vmtest.Totals) float64 { return t.GSOMeanBytes }, false},
	{share, func(t *vmtest.Totals) float64 { return 100 * t.BigShare }, false},
	{"packets/MB", func(t *vmtest.Totals) float64 { return t.PacketsPerMB }, false},
	{"acks/MB", func(t *vmtest.Totals) float64 { return t.AcksPerMB }, false},
	{"kicks/MB", func(t *vmtest.Totals) float64 { return t.KicksPerMB }, true},
	{"tx calls/MB", func(t *vmtest.Totals) float64 { return t.TxCallsPerMB }, true},
	{"rx calls/MB", func(t *vmtest.Totals) float64 { return t.RxCallsPerMB }, true},
}

func writeCounters(w io.Writer, pairs []Pair) error {
	t := newTable(w)
	for _, p := range pairs {
		t.rows(p.Label, p.Truth, p.Model)
	}
	return t.Flush()
}

// Results writes the counters of results beside each other: runs of the same label
// in consecutive lines, in the order of the results, each under its result's name.
func Results(w io.Writer, names []string, results []*vmtest.Result) error {
	t := newTable(w)
	done := map[string]bool{}
	for _, r := range results {
		for i := range r.Runs {
			if label := r.Runs[i].Label; !done[label] {
				done[label] = true
				t.rows(label, labelled(label, names, results)...)
			}
		}
	}
	return t.Flush()
}

// labelled are the runs of a label.
func labelled(label string, names []string, results []*vmtest.Result) (out []Side) {
	for i, r := range results {
		for j := range r.Runs {
			if r.Runs[j].Label == label {
				out = append(out, Side{Guest: names[i] + " (" + r.Guest + ")", Run: &r.Runs[j]})
			}
		}
	}
	return out
}

// table is the table of counters.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)}
	fmt.Fprint(t, "\nrun\tguest\t")
	for _, c := range counters {
		fmt.Fprintf(t, "%s\t", c.name)
	}
	fmt.Fprintln(t)
	return t
}

// rows writes the runs of a label.
func (t table) rows(label string, sides ...Side) {
	for _, s := range sides {
		fmt.Fprintf(t, "%s\t%s\t", label, s.Guest)
		for _, c := range counters {
			if c.device && s.Run.MeasuredAt == vmtest.MeasuredAtGuest {
				fmt.Fprint(t, "-\t")
				continue
			}
			fmt.Fprintf(t, "%.4g\t", c.of(&s.Run.Totals))
		}
		fmt.Fprintln(t)
	}
}

// pairJSON is a pair in JSON.
type pairJSON struct {
	Label      string          `json:"label"`
	TruthGuest string          `json:"truth_guest"`
	ModelGuest string          `json:"model_guest"`
	Packets    json.RawMessage `json:"packets"`
	Truth      *vmtest.Run     `json:"truth"`
	Model      *vmtest.Run     `json:"model"`
}

// JSON writes all pairs, with the runs in full.
func JSON(w io.Writer, pairs []Pair) error {
	out := []pairJSON{}
	for _, p := range pairs {
		var b bytes.Buffer
		if err := p.Report.WriteJSON(&b); err != nil {
			return err
		}
		out = append(out, pairJSON{p.Label, p.Truth.Guest, p.Model.Guest, b.Bytes(), p.Truth.Run, p.Model.Run})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
