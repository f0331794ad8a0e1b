// Package progress shows how far a long command is: one line on a terminal,
// written over again and again, and wiped at the end. Anywhere else it writes
// nothing. It starts no goroutine and no timer: it is shown when its caller
// reports.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Patience is how long a command runs before its line appears.
const Patience = time.Second

// interval is the least time between two writes of the line.
const interval = 100 * time.Millisecond

// Line is a progress line. It is not safe for concurrent use. A nil Line shows
// nothing.
type Line struct {
	w       io.Writer
	width   func() int // columns of the terminal
	now     func() time.Time
	started time.Time
	last    time.Time
	shown   int // runes on the terminal now
}

// New returns a line on f, or nil if f is not a terminal.
func New(f *os.File) *Line {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return nil
	}
	width := func() int {
		w, _, err := term.GetSize(fd)
		if err != nil || w <= 0 {
			return 80
		}
		return w
	}
	return newLine(f, width, time.Now)
}

func newLine(w io.Writer, width func() int, now func() time.Time) *Line {
	return &Line{w: w, width: width, now: now, started: now()}
}

// Show replaces the line, unless the command has only just begun or the line
// was written a moment ago. Text beyond the terminal's width is cut.
func (l *Line) Show(format string, args ...any) {
	if l == nil {
		return
	}
	now := l.now()
	if now.Sub(l.started) < Patience || now.Sub(l.last) < interval {
		return
	}
	l.last = now
	text := clip(fmt.Sprintf(format, args...), l.width()-1)
	n := utf8.RuneCountInString(text)
	fmt.Fprintf(l.w, "\r%s%s", text, strings.Repeat(" ", max(0, l.shown-n)))
	l.shown = n
}

// Clear wipes the line, so that other output can follow. Show may bring it back.
func (l *Line) Clear() {
	if l == nil || l.shown == 0 {
		return
	}
	fmt.Fprintf(l.w, "\r%s\r", strings.Repeat(" ", l.shown))
	l.shown = 0
}

func clip(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:max(0, width)])
}
