package umlguest

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// consoleMax is how many lines of a console are kept.
const consoleMax = 64

// console takes what a guest prints. Lines that begin with @ are its program's
// report; the last of the others are kept for error messages. Its methods may be
// called from any goroutine.
type console struct {
	to io.Writer // may be nil

	mu     sync.Mutex
	part   []byte
	lines  []string
	report []string
}

// Write takes a piece of output.
func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.to != nil {
		_, _ = c.to.Write(b)
	}
	c.part = append(c.part, b...)
	for {
		i := bytes.IndexByte(c.part, '\n')
		if i < 0 {
			return len(b), nil
		}
		c.line(strings.TrimRight(string(c.part[:i]), "\r"))
		c.part = c.part[i+1:]
	}
}

func (c *console) line(s string) {
	if strings.HasPrefix(s, "@") {
		c.report = append(c.report, s[1:])
		return
	}
	if s == "" {
		return
	}
	if len(c.lines) == consoleMax {
		c.lines = append(c.lines[:0], c.lines[1:]...)
	}
	c.lines = append(c.lines, s)
}

// last joins the last n lines.
func (c *console) last(n int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.lines
	if len(c.part) > 0 {
		lines = append(lines[:len(lines):len(lines)], string(c.part))
	}
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}

// said returns the report's lines that begin with a word, without it.
func (c *console) said(word string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, l := range c.report {
		if rest, ok := strings.CutPrefix(l, word+" "); ok || l == word {
			out = append(out, rest)
		}
	}
	return out
}
