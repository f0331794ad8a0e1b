package trace_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest/trace"
)

// FuzzRead: any bytes give a trace or an error, and a trace can be compared,
// shown and drawn.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"o03_iw_10ms.61", "o08_defer_eta_1100us_20ms.612"} {
		b, err := os.ReadFile("testdata/open/" + name + ".tsv.gz")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(head + names + "1\ttx\t0\t1\t1\t10\tP.\n2\tack\t0\t1\t11\t0\t.\n"))
	f.Add([]byte(head + names + "9223372036854775807\ttx\t0\t4294967295\t1\t2147483647\tP.\n0\ttx\t0\t4294967295\t1\t1\t\n"))
	f.Add([]byte("# lines\t2 captured, file truncated\n" + names + "5\ttx\t1\t1\t1\t1\t.\n"))
	other := load(f, "o03_iw_10ms.612")
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := trace.Read("x", bytes.NewReader(b))
		if err != nil {
			return
		}
		self := trace.Compare(tr, tr)
		if self.EqualTime != self.Packets || self.OnlyModel != 0 || self.FirstDiff != nil {
			t.Errorf("a trace differs from itself: %+v", self.FirstDiff)
		}
		for _, r := range []*trace.Report{self, trace.Compare(tr, other), trace.Compare(other, tr)} {
			if r.OnlyTruth+r.OtherLen+r.EqualLen != r.Packets {
				t.Errorf("%d + %d + %d packets, want %d", r.OnlyTruth, r.OtherLen, r.EqualLen, r.Packets)
			}
			if err := errors.Join(r.WriteText(io.Discard), r.WriteJSON(io.Discard), r.WriteSVG(io.Discard)); err != nil {
				t.Error(err)
			}
		}
		if err := trace.Show(io.Discard, tr, trace.ShowOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// FuzzFromLine: any text gives a scenario that could be run or an error with
// its cause.
func FuzzFromLine(f *testing.F) {
	for _, path := range openTraces(f) {
		h, err := trace.ReadHeaderFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(h.Scenario))
	}
	f.Add([]byte(`{"kernel":"6.1.192","kernel":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, x, err := trace.FromLine(b)
		if err != nil {
			if !errors.Is(err, trace.ErrScenario) {
				t.Errorf("%v has no cause", err)
			}
			return
		}
		if s.Flows != len(x.Flows) || s.Flows != len(s.PerFlow) || s.Total == 0 && s.Duration == 0 {
			t.Errorf("%+v", s)
		}
	})
}
