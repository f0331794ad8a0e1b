package qemuguest

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
)

// consoleLines is how many lines of a guest's console are kept for errors.
const consoleLines = 30

// console takes what the guest's kernel and QEMU say, passes it on line by
// line, and keeps the last lines. It is safe for concurrent use.
type console struct {
	mu    sync.Mutex
	to    io.Writer // nil: nobody
	lines []string
	part  []byte // of a line without an end
	int3  bool   // the kernel has died of a breakpoint
}

// Write implements io.Writer. What the reader behind it says is ignored: a
// guest does not stop because nobody listens.
func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.part = append(c.part, b...)
	for {
		i := bytes.IndexByte(c.part, '\n')
		if i < 0 && len(c.part) < 4096 {
			return len(b), nil
		}
		if i < 0 {
			i = len(c.part) - 1
		}
		c.keep(clean(c.part[:i]))
		c.part = c.part[i+1:]
	}
}

func (c *console) keep(line string) {
	if line == "" {
		return
	}
	if c.to != nil {
		_, _ = io.WriteString(c.to, "guest: "+line+"\n")
	}
	c.int3 = c.int3 || strings.Contains(line, "int3: 0000 [#")
	c.lines = append(c.lines, line)
	if len(c.lines) > consoleLines {
		c.lines = c.lines[1:]
	}
}

// terminal are the control sequences that firmware sends to a terminal.
var terminal = regexp.MustCompile(`\x1b(\[[0-9;?=]*[a-zA-Z]|c)`)

// clean is a line without control characters.
func clean(b []byte) string {
	b = terminal.ReplaceAll(b, nil)
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' {
			return -1
		}
		return r
	}, string(b)))
}

// Close implements io.Closer for those who want one.
func (c *console) Close() error { return nil }

// breakpoint reports whether the kernel said that it died of a breakpoint (exc_int3
// in arch/x86/kernel/traps.c, v6.1 and v6.12).
func (c *console) breakpoint() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.int3
}

// forget begins anew, for another boot.
func (c *console) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines, c.part, c.int3 = nil, nil, false
}

// last returns the last n lines, joined for an error message.
func (c *console) last(n int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.lines
	if rest := clean(c.part); rest != "" {
		lines = append(lines[:len(lines):len(lines)], rest)
	}
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}
