// Package report writes a Result for people: one table, what happened in words,
// and on request the cost model behind it; or as JSON. It computes nothing that
// is not in the Result, and knows no terminal and no file.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Width is how long a line of prose gets, in columns. The table may be wider,
// up to 140.
const Width = 130

// JSON writes the result indented, with a line feed at the end.
func JSON(w io.Writer, r *vmtest.Result) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Text writes the result for people.
func Text(w io.Writer, r *vmtest.Result) error {
	var b strings.Builder
	b.WriteString(title(r))
	if len(r.Runs) > 0 {
		b.WriteByte('\n')
		if err := tableOf(&b, r.Runs, true); err != nil {
			return err
		}
		b.WriteString(sizes(r.Runs))
		b.WriteString(paths(r.Runs))
		b.WriteString(notes(r))
		b.WriteString(story(r))
	}
	b.WriteString(warnings(r))
	_, err := io.WriteString(w, b.String())
	return err
}

// Table writes the table of the runs without the lines of their queues.
func Table(w io.Writer, r *vmtest.Result) error {
	return tableOf(w, r.Runs, false)
}

var guestWords = map[string]string{
	"sim":  "a simulated guest, in virtual time",
	"uml":  "a Linux kernel in user mode, in virtual time",
	"qemu": "a Linux kernel in QEMU, in real time",
}

// title says what was run, on what.
func title(r *vmtest.Result) string {
	s := r.Scenario
	head := fmt.Sprintf("%s on %s", s.Name, guestWords[r.Guest])
	if a := accelerator(r.Environment); a != "" {
		head += " (" + a + ")"
	}
	if r.Interrupted {
		head += ", INTERRUPTED: what was measured until then"
	}
	traffic := fmt.Sprintf("%d flows, writes of %s, %s, measured for %v after %v of warm-up; seed %d.",
		s.Flows, writes(r), s.CC, s.Duration, s.WarmUp, r.Seed)
	if s.Flows == 1 {
		traffic = strings.Replace(traffic, "flows", "flow", 1)
	}
	return grid.Wrap(head+".", Width, "", "") + grid.Wrap(traffic, Width, "", "")
}

func accelerator(e vmtest.Environment) string {
	if e.QEMU == "" {
		return ""
	}
	if e.Accel == "" {
		return "QEMU " + e.QEMU
	}
	return "QEMU " + e.QEMU + ", " + e.Accel
}

// writes is the size of the writes, or their sizes where the runs differ.
func writes(r *vmtest.Result) string {
	var sizes []string
	seen := map[int64]bool{}
	for _, run := range r.Runs {
		if !seen[run.Write] {
			seen[run.Write] = true
			sizes = append(sizes, fmt.Sprint(run.Write))
		}
	}
	if len(sizes) == 0 {
		sizes = []string{fmt.Sprint(int64(r.Scenario.Write))}
	}
	return strings.Join(sizes, " or ") + " bytes"
}

// notes explain the table's abbreviations.
func notes(r *vmtest.Result) string {
	var b strings.Builder
	b.WriteByte('\n')
	for i, set := range remedySets(r.Runs) {
		fmt.Fprintf(&b, "R%d: with %s.\n", i+1, strings.Join(set, " and "))
	}
	b.WriteString(grid.Wrap("A MB is 10^6 bytes of TCP payload handed to the device. Kicks leave the guest, calls interrupt it. "+
		"Times are modelled: counts times the cost table (run --explain shows it). "+
		"A queue's line is its share of the line above.", Width, "", ""))
	return b.String()
}

// warnings are those of the command, then those of runs, each once with the runs
// that it is about.
func warnings(r *vmtest.Result) string {
	var b strings.Builder
	for _, w := range r.Warnings {
		b.WriteString(grid.Wrap("note: "+w, Width, "", "  "))
	}
	about := map[string][]string{}
	var order []string
	for _, run := range r.Runs {
		for _, w := range run.Warnings {
			if about[w] == nil {
				order = append(order, w)
			}
			about[w] = append(about[w], run.Label)
		}
	}
	for _, w := range order {
		runs := strings.Join(about[w], ", ") + ": "
		if len(about[w]) == len(r.Runs) {
			runs = ""
		}
		b.WriteString(grid.Wrap("note: "+runs+w, Width, "", "  "))
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n" + b.String()
}
