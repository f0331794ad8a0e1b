package trace

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// column is the head of one column of a table.
type column struct {
	head string
	left bool // text; numbers are aligned right
}

// writeTable writes rows below heads, two blanks between columns.
func writeTable(w io.Writer, indent string, columns []column, rows [][]string) error {
	width := make([]int, len(columns))
	for c := range columns {
		width[c] = utf8.RuneCountInString(columns[c].head)
		for _, row := range rows {
			width[c] = max(width[c], utf8.RuneCountInString(row[c]))
		}
	}
	var b strings.Builder
	b.WriteString(tableLine(indent, columns, width, func(c int) string { return columns[c].head }))
	for _, row := range rows {
		b.WriteString(tableLine(indent, columns, width, func(c int) string { return row[c] }))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func tableLine(indent string, columns []column, width []int, cell func(int) string) string {
	var b strings.Builder
	b.WriteString(indent)
	for c, col := range columns {
		if c > 0 {
			b.WriteString("  ")
		}
		s := cell(c)
		pad := strings.Repeat(" ", width[c]-utf8.RuneCountInString(s))
		if col.left {
			b.WriteString(s + pad)
			continue
		}
		b.WriteString(pad + s)
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// WriteCheck writes the table of several comparisons, one line each: the shares
// of packets in percent and the first difference. A last line adds them up.
func WriteCheck(w io.Writer, reports []*Report) error {
	columns := []column{{"trace", true}, {"packets", false}, {"equal length %", false}, {"equal time %", false}, {"within 2.1 us %", false}, {"first difference", true}}
	var rows [][]string
	var sum Report
	for _, r := range reports {
		rows = append(rows, checkRow(r, r.Trace, r.FirstDiff.short()))
		sum.Packets += r.Packets
		sum.EqualLen += r.EqualLen
		sum.EqualTime += r.EqualTime
		sum.Within += r.Within
	}
	rows = append(rows, checkRow(&sum, "all", ""))
	return writeTable(w, "", columns, rows)
}

func checkRow(r *Report, name, first string) []string {
	if r.Variant != "" {
		name += " (" + r.Variant + ")"
	}
	return []string{name, fmt.Sprint(r.Packets), percent(r.EqualLen, r.Packets), percent(r.EqualTime, r.Packets), percent(r.Within, r.Packets), first}
}

// short is the difference in a few words; "none" of nil.
func (d *Diff) short() string {
	if d == nil {
		return "none"
	}
	where := fmt.Sprintf("%s #%d flow %d seq %d: ", d.Kind, d.Index, d.Flow, d.Seq)
	switch d.Kind {
	case KindLength:
		return where + fmt.Sprintf("%d, model %d", *d.TruthLen, *d.ModelLen) + because(d.Rule)
	case KindMissing:
		return where + fmt.Sprintf("%d, model never", *d.TruthLen)
	case KindExtra:
		return where + fmt.Sprintf("model %d only", *d.ModelLen)
	}
	return where + "model " + signedMicros(*d.ModelTNs-d.TNs)
}

func signedMicros(ns int64) string {
	if ns > 0 {
		return "+" + Micros(ns)
	}
	return Micros(ns)
}
