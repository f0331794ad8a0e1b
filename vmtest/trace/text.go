package trace

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// sizeRows is how many lengths WriteText names.
const sizeRows = 12

// WriteText writes the report for a reader: counts, the first differences with
// the lines around them, how far apart the two are, and their lengths.
func (r *Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	r.writeHead(b)
	r.writeCounts(b)
	r.writeDiffs(b)
	r.writeLag(b)
	r.writeSizes(b)
	return b.Flush()
}

func (r *Report) writeHead(w io.Writer) {
	fmt.Fprintf(w, "truth: %s, %d packets with payload\n", r.Trace, r.Packets)
	fmt.Fprintf(w, "model: %s, %d packets with payload\n", r.Model, len(r.other))
	if r.Variant != "" {
		fmt.Fprintf(w, "which run of the model: %s\n", r.Variant)
	}
}

func (r *Report) writeCounts(w io.Writer) {
	fmt.Fprintln(w)
	row := func(name string, n int) []string { return []string{name, fmt.Sprint(n), percent(n, r.Packets)} }
	rows := [][]string{
		row("equal length", r.EqualLen), row("  equal time", r.EqualTime), row("  within 2.1 us", r.Within),
		row("other length", r.OtherLen), row("only in truth", r.OnlyTruth),
		{"only in model", fmt.Sprint(r.OnlyModel), ""},
	}
	if r.AfterEnd > 0 {
		rows = append(rows, []string{"model, after the end of the truth", fmt.Sprint(r.AfterEnd), ""})
	}
	writeTable(w, "", []column{{"", true}, {"packets", false}, {"%", false}}, rows)
}

func (r *Report) writeDiffs(w io.Writer) {
	if r.FirstDiff == nil {
		fmt.Fprintf(w, "\nno difference\n")
		return
	}
	r.writeDiff(w, "first difference", r.FirstDiff)
	if d := r.FirstLate; d != nil && d != r.FirstDiff {
		r.writeDiff(w, r.FirstDiff.order(d)+"first equal packet more than 2.1 us apart", d)
	}
	if d := r.FirstTime; d != nil && d != r.FirstDiff && d != r.FirstLate {
		fmt.Fprintf(w, "\n%sfirst equal packet at another time: %s\n", r.FirstDiff.order(d), d.short())
	}
}

// order says whether other comes before or after d.
func (d *Diff) order(other *Diff) string {
	if other.TNs < d.TNs {
		return "before it, the "
	}
	return "after it, the "
}

func (r *Report) writeDiff(w io.Writer, title string, d *Diff) {
	fmt.Fprintf(w, "\n%s: %s\n", title, d.short())
	fmt.Fprintf(w, "  %s\n\n", d.Why)
	left, right := d.Context.Truth, d.Context.Model
	left, right = alignMarked(left, right, d, r)
	width := utf8.RuneCountInString("truth")
	for _, l := range left {
		width = max(width, utf8.RuneCountInString(l))
	}
	fmt.Fprintf(w, "  %s | %s\n", pad("truth", width), "model")
	for i := range max(len(left), len(right)) {
		fmt.Fprintf(w, "  %s\n", strings.TrimRight(pad(lineOf(left, i), width)+" | "+lineOf(right, i), " "))
	}
}

// alignMarked puts blank lines in front of the shorter beginning, so that the
// two places stand side by side.
func alignMarked(left, right []string, d *Diff, r *Report) ([]string, []string) {
	before := min(d.truthAt, contextLines) - min(d.modelAt, contextLines)
	switch {
	case len(r.truth.Packets) == 0 || len(r.model.Packets) == 0:
	case before < 0:
		left = append(make([]string, -before), left...)
	default:
		right = append(make([]string, before), right...)
	}
	return left, right
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

func (r *Report) writeLag(w io.Writer) {
	if r.Lag.Packets == 0 {
		return
	}
	l := r.Lag
	fmt.Fprintf(w, "\ntimes of equal packets: half within %s, 99 %% within %s, most %s (packet %d); model earlier %d, later %d\n",
		Micros(int64(l.P50)), Micros(int64(l.P99)), Micros(int64(l.Max)), l.MaxAt, l.Earlier, l.Later)
}

// writeSizes writes the most frequent lengths of both.
func (r *Report) writeSizes(w io.Writer) {
	if len(r.Sizes) == 0 {
		return
	}
	top := slices.Clone(r.Sizes)
	slices.SortStableFunc(top, func(a, b SizePair) int { return max(b.Truth, b.Model) - max(a.Truth, a.Model) })
	shown := top[:min(len(top), sizeRows)]
	var rows [][]string
	for _, s := range shown {
		rows = append(rows, []string{grouped(int64(s.Len)), fmt.Sprint(s.Truth), fmt.Sprint(s.Model), r.inSegments(s.Len)})
	}
	fmt.Fprintf(w, "\nlengths, the most frequent first:\n")
	writeTable(w, "", []column{{"bytes", false}, {"truth", false}, {"model", false}, {"segments", false}}, rows)
	if n := len(top) - len(shown); n > 0 {
		fmt.Fprintf(w, "and %d other lengths\n", n)
	}
}

// inSegments writes a length in segments, with what is left over.
func (r *Report) inSegments(n int) string { return inSegments(n, r.mss()) }

func inSegments(n, mss int) string {
	switch {
	case mss <= 0:
		return "-"
	case n%mss == 0:
		return fmt.Sprint(n / mss)
	case n < mss:
		return "<1"
	}
	return fmt.Sprintf("%d + %d B", n/mss, n%mss)
}
