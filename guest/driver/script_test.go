package driver_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// args are the key=value words of a command.
type args map[string]string

func (a args) num(t testing.TB, key string, def int) int {
	v, ok := a[key]
	if !ok {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s=%s: %v", key, v, err)
	}
	return n
}

// do runs one command and logs what came of it.
func (w *world) do(t testing.TB, cmd string, a args) {
	n := a.num(t, "n", 1)
	switch cmd {
	case "xmit":
		sent, kicks, polls := w.xmit(n, int32(a.num(t, "segs", 1)), a["more"] == "on")
		fmt.Fprintf(&w.log, "  sent %d kicks %d polls %d freed %d stopped %v\n", sent, kicks, polls, w.freed, w.tx.Stopped())
	case "take":
		k := w.take(n)
		fmt.Fprintf(&w.log, "  device took %d, last: buffers", k)
		for _, b := range w.got {
			fmt.Fprintf(&w.log, " %d", len(b))
		}
		fmt.Fprintln(&w.log)
	case "idle":
		fmt.Fprintf(&w.log, "  device found more: %v\n", w.dtx.EnableKicks())
	case "busy":
		w.dtx.DisableKicks()
	case "complete":
		done, calls := w.complete(n)
		fmt.Fprintf(&w.log, "  completed %d calls %d\n", done, calls)
	case "irq":
		fmt.Fprintf(&w.log, "  %+v\n", w.tx.Interrupt())
	case "poll":
		fmt.Fprintf(&w.log, "  %+v freed %d stopped %v\n", w.tx.Poll(w.now), w.freed, w.tx.Stopped())
	case "fill":
		fmt.Fprintf(&w.log, "  kick %v posted %d\n", w.rx.Fill(), w.rx.Posted())
	case "deliver":
		calls := 0
		for range n {
			if w.deliver(a.num(t, "bytes", 78)) {
				calls++
			}
		}
		fmt.Fprintf(&w.log, "  calls %d\n", calls)
	case "rxirq":
		fmt.Fprintf(&w.log, "  poll %v\n", w.rx.Interrupt())
	case "rxpoll":
		e := w.rx.Poll(w.now, w)
		w.flushRun()
		fmt.Fprintf(&w.log, "  %+v posted %d\n", e, w.rx.Posted())
	case "stats":
		for _, s := range w.net.Stats() {
			if s.Value != 0 {
				fmt.Fprintf(&w.log, "  %s %d\n", s.Name, s.Value)
			}
		}
	default:
		t.Fatalf("unknown command %q", cmd)
	}
}

// build makes the world that a "new" command describes.
func build(t testing.TB, a args) *world {
	cfg := release(t, a["release"])
	cfg.NAPI = a["napi"] == "on"
	cfg.RingSize = uint16(a.num(t, "ring", 0))
	return newWorld(t, cfg)
}

// TestTranscripts runs the commands of every file in testdata: lines up to
// "----" are commands, the rest is what happened.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) { transcript(t, name) })
	}
}

func transcript(t *testing.T, name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	script, want, _ := strings.Cut(string(text), "----\n")
	var w *world
	var got strings.Builder
	for line := range strings.Lines(script) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0][0] == '#' {
			continue
		}
		a := args{}
		for _, word := range f[1:] {
			k, v, _ := strings.Cut(word, "=")
			a[k] = v
		}
		fmt.Fprintf(&got, "%s", line)
		if f[0] == "new" {
			w = build(t, a)
			continue
		}
		w.log.Reset()
		w.do(t, f[0], a)
		got.WriteString(w.log.String())
	}
	if *update {
		if err := os.WriteFile(name, []byte(script+"----\n"+got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Errorf("(-want +got; -update rewrites)\n%s", d)
	}
}
