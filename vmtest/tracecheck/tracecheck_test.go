package tracecheck_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest/trace"
	"github.com/vnetbench/vnetbench/vmtest/tracecheck"
)

const open = "../trace/testdata/open"

func TestNoTraces(t *testing.T) {
	if _, err := tracecheck.Files(t.TempDir()); !errors.Is(err, tracecheck.ErrNoTraces) {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := tracecheck.Files("nowhere"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// The model does not see a trace's packets: with garbage in their place it
// sends the same.
func TestBodyIsNotInput(t *testing.T) {
	path := filepath.Join(open, "o05_pace12p5M_300us_cwndlock.612.tsv.gz")
	text := unzip(t, path)
	i := bytes.Index(text, []byte("\nt_ns"))
	garbage := filepath.Join(t.TempDir(), filepath.Base(path[:len(path)-3]))
	if err := os.WriteFile(garbage, append(text[:i+1:i+1], "\x00\xff no trace at all\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	want, got := modelOf(t, path), modelOf(t, garbage)
	if len(want) == 0 || len(want) != len(got) {
		t.Fatalf("%d packets with the trace's body, %d with garbage", len(want), len(got))
	}
	for i := range want {
		if want[i] != got[i] {
			t.Fatalf("packet %d: %+v with the trace's body, %+v with garbage", i, want[i], got[i])
		}
	}
}

func unzip(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func modelOf(t *testing.T, path string) []trace.Packet {
	t.Helper()
	h, err := trace.ReadHeaderFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := tracecheck.Models(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	return m[0].Trace.Packets
}

// Two guests with an outside calendar and a modelled host: every packet has its
// length and its nanosecond. Where the usual phase of the clock does not agree, the
// one that does is found if it may be looked for, and named.
func TestVirtioTracesToTheNanosecond(t *testing.T) {
	for name, clock := range map[string]string{
		"o10_virtio_w1024_n0_q1.61": "", "o10_virtio_w1024_n0_q1.612": "clock 85 ns",
		"o11_virtio_w1024_n0_q2.61": "", "o11_virtio_w1024_n0_q2.612": "",
		"o12_virtio_w1024_n1_q1.61": "", "o12_virtio_w1024_n1_q1.612": "clock 183 ns",
	} {
		r, err := tracecheck.Check(context.Background(), filepath.Join(open, name+".tsv.gz"), tracecheck.Options{Clock: clock != ""})
		if err != nil {
			t.Fatal(err)
		}
		if r.EqualTime != r.Packets || r.Variant != clock {
			t.Errorf("%s: %d of %d packets, at their time %d, %q; want all, and %q", name, r.EqualLen, r.Packets, r.EqualTime, r.Variant, clock)
		}
	}
}

// One guest with a router inside: every packet has its length, and but for BBR,
// whose rate follows the clock, its time.
func TestVethTraces(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(open, "o0*.tsv.gz"))
	if err != nil || len(files) != 16 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, f := range files {
		r, err := tracecheck.Check(context.Background(), f, tracecheck.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.EqualLen != r.Packets || r.OnlyModel != 0 {
			t.Errorf("%s: %d of %d packets have their length, %d more were sent", r.Trace, r.EqualLen, r.Packets, r.OnlyModel)
		}
		if r.Within != r.Packets && !strings.Contains(f, "bbr") {
			t.Errorf("%s: %d of %d packets have their time within 2.1 us", r.Trace, r.Within, r.Packets)
		}
	}
}
