package progress

import (
	"os"
	"strings"
	"testing"
	"time"
)

// clock is a time that the test moves.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func world() (*Line, *strings.Builder, *clock) {
	var out strings.Builder
	c := &clock{time.Unix(100, 0)}
	return newLine(&out, func() int { return 12 }, c.now), &out, c
}

func TestNothingInTheFirstSecond(t *testing.T) {
	l, out, c := world()
	c.t = c.t.Add(Patience - time.Millisecond)
	l.Show("soon")
	l.Clear()
	if out.String() != "" {
		t.Errorf("wrote %q", out.String())
	}
}

func TestShowOverwritesClipsAndClears(t *testing.T) {
	l, out, c := world()
	c.t = c.t.Add(Patience)
	l.Show("run %d of a long plan", 1)
	l.Show("too soon after the last")
	c.t = c.t.Add(interval)
	l.Show("short")
	l.Clear()
	l.Clear()
	want := "\rrun 1 of a " + "\rshort      " + "\r     \r"
	if out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}

func TestNoLineInAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l := New(w)
	if l != nil {
		t.Fatal("a pipe was taken for a terminal")
	}
	l.Show("x")
	l.Clear()
	w.Close()
	if n, _ := r.Read(make([]byte, 1)); n != 0 {
		t.Error("something was written to the pipe")
	}
}
