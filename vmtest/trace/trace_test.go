package trace_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vmtest/trace"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// openTraces are the paths of the traces of real kernels.
func openTraces(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/open/*.tsv.gz")
	if err != nil || len(paths) != 22 {
		t.Fatalf("%d traces in testdata/open, want 22: %v", len(paths), err)
	}
	return paths
}

func load(t testing.TB, name string) *trace.Trace {
	t.Helper()
	tr, err := trace.ReadFile("testdata/open/" + name + ".tsv.gz")
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// alter returns a copy of a trace with its packets changed by f.
func alter(tr *trace.Trace, f func([]trace.Packet) []trace.Packet) *trace.Trace {
	return &trace.Trace{Header: tr.Header, Packets: f(slices.Clone(tr.Packets))}
}

// parse reads a trace from body lines with blanks for tabs.
func parse(t testing.TB, name, body string) *trace.Trace {
	t.Helper()
	var text strings.Builder
	text.WriteString("# scenario\t{\"mss\": 1000}\nt_ns\tdir\tflow\tseq\tack\tlen\tflags\n")
	for line := range strings.Lines(body) {
		if f := strings.Fields(line); len(f) > 0 {
			text.WriteString(strings.Join(f, "\t") + "\n")
		}
	}
	tr, err := trace.Read(name, strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// golden compares with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s: (-want +got; -update rewrites)\n%s", path, cmp.Diff(string(want), string(got)))
	}
}
