// Package grid lays text out in columns for a terminal. It knows no colours, no
// terminal and no width: a caller that wants a narrow table gives it few columns.
package grid

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Column is the head of one column.
type Column struct {
	Head []string // one or more lines, the last nearest the rows
	Left bool     // align left; numbers are aligned right
}

// Table gathers rows and writes them aligned. The zero value with Columns set is
// ready. It is not safe for concurrent use.
type Table struct {
	Columns []Column
	rows    [][]string
}

// Row adds a row. Cells that are missing are empty, and cells beyond the
// columns are dropped.
func (t *Table) Row(cells ...string) {
	t.rows = append(t.rows, append([]string(nil), cells...))
}

// Write writes the heads and the rows, two blanks between columns and none at
// the end of a line.
func (t *Table) Write(w io.Writer) error {
	width := t.widths()
	var b strings.Builder
	for i := range t.headLines() {
		t.line(&b, width, func(c int) string { return t.head(c, i) })
	}
	for _, row := range t.rows {
		t.line(&b, width, func(c int) string { return cell(row, c) })
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) headLines() int {
	n := 0
	for _, c := range t.Columns {
		n = max(n, len(c.Head))
	}
	return n
}

// head returns line i of column c's head; short heads stand at the bottom.
func (t *Table) head(c, i int) string {
	h := t.Columns[c].Head
	i -= t.headLines() - len(h)
	if i < 0 {
		return ""
	}
	return h[i]
}

func (t *Table) widths() []int {
	width := make([]int, len(t.Columns))
	for c, col := range t.Columns {
		for _, h := range col.Head {
			width[c] = max(width[c], utf8.RuneCountInString(h))
		}
		for _, row := range t.rows {
			width[c] = max(width[c], utf8.RuneCountInString(cell(row, c)))
		}
	}
	return width
}

func cell(row []string, c int) string {
	if c >= len(row) {
		return ""
	}
	return row[c]
}

func (t *Table) line(b *strings.Builder, width []int, text func(c int) string) {
	var line strings.Builder
	for c, col := range t.Columns {
		if c > 0 {
			line.WriteString("  ")
		}
		s := text(c)
		pad := strings.Repeat(" ", width[c]-utf8.RuneCountInString(s))
		if col.Left {
			line.WriteString(s + pad)
			continue
		}
		line.WriteString(pad + s)
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
}
