package umlguest

import (
	"io"
	"os"
	"strings"
)

// console is what a guest prints, in a file: a pipe would interrupt the guest
// whenever it was emptied, at times that are no function of the scenario. Lines
// that begin with @ are its program's report.
type console struct {
	f    *os.File
	text string // all of it, once it is closed
}

func openConsole(path string) (*console, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	return &console{f: f}, err
}

// consoleMax bounds how much of a console is looked at, in bytes.
const consoleMax = 16 << 20

// read returns what was printed so far.
func (c *console) read() string {
	if c.f == nil {
		return c.text
	}
	b, _ := io.ReadAll(io.NewSectionReader(c.f, 0, consoleMax)) // what cannot be read was not printed
	return string(b)
}

// lines returns the lines of the report, without their mark, or all others but
// empty ones.
func (c *console) lines(report bool) []string {
	var out []string
	for line := range strings.SplitSeq(c.read(), "\n") {
		line = strings.TrimRight(line, "\r")
		text, marked := strings.CutPrefix(line, "@")
		if marked == report && text != "" {
			out = append(out, text)
		}
	}
	return out
}

// last joins the last n lines that are not of the report. A panic's own line,
// which a trace of calls follows, comes before them.
func (c *console) last(n int) string {
	lines := c.lines(false)
	tail := lines[max(0, len(lines)-n):]
	for _, l := range lines[:len(lines)-len(tail)] {
		if strings.Contains(l, "Kernel panic") {
			tail = append([]string{l}, tail...)
			break
		}
	}
	return strings.Join(tail, " | ")
}

// said returns the report's lines that begin with a word, without it.
func (c *console) said(word string) []string {
	var out []string
	for _, l := range c.lines(true) {
		if rest, ok := strings.CutPrefix(l, word+" "); ok || l == word {
			out = append(out, rest)
		}
	}
	return out
}

// close keeps the text, gives it to w, which may be nil, and closes the file.
func (c *console) close(w io.Writer) error {
	c.text = c.read()
	err := c.f.Close()
	c.f = nil
	if w != nil {
		if _, werr := io.WriteString(w, c.text); err == nil {
			err = werr
		}
	}
	return err
}
