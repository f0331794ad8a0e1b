package trace_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/vmtest/trace"
)

// kernels compares the two kernels on one scenario: the older one stands in for
// a model that lacks what the newer has.
func kernels(t testing.TB, scenario string) *trace.Report {
	t.Helper()
	return trace.Compare(load(t, scenario+".612"), load(t, scenario+".61"))
}

func write(t testing.TB, f func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWriteText(t *testing.T) {
	golden(t, "diff_o01.txt", write(t, kernels(t, "o01_lock_big").WriteText))
	golden(t, "diff_o12.txt", write(t, kernels(t, "o12_virtio_w1024_n1_q1").WriteText))
	same := load(t, "o03_iw_10ms.61")
	golden(t, "diff_same.txt", write(t, trace.Compare(same, same).WriteText))
}

// TestWriteTextRules has a model that says why its packets have their lengths.
func TestWriteTextRules(t *testing.T) {
	truth := load(t, "o03_iw_10ms.61")
	model := alter(truth, func(p []trace.Packet) []trace.Packet {
		for i := range p {
			if !p[i].Ack && p[i].Len > 0 {
				p[i].Rule, p[i].Stop = tcp.RuleAutosize, tcp.StopPacing
			}
		}
		p[20].TNs += 50000
		p[30].Len -= 1448
		return p
	})
	golden(t, "diff_rules.txt", write(t, trace.Compare(truth, model).WriteText))
}

func TestShow(t *testing.T) {
	for _, name := range []string{"o01_lock_big.61", "o01_lock_big.612", "o11_virtio_w1024_n0_q2.612"} {
		tr := load(t, name)
		golden(t, "show_"+name+".txt", write(t, func(w io.Writer) error { return trace.Show(w, tr, trace.ShowOptions{}) }))
	}
}

func TestShowOneFlow(t *testing.T) {
	tr := load(t, "o11_virtio_w1024_n0_q2.612")
	got := string(write(t, func(w io.Writer) error {
		return trace.Show(w, tr, trace.ShowOptions{Flows: []int{1}, Top: 1, Words: 5})
	}))
	for _, want := range []string{"of 1 flows", "flow 1, lengths", "and so on: the first"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "flow 0,") {
		t.Errorf("flow 0 was not asked for:\n%s", got)
	}
}

func TestWriteCheck(t *testing.T) {
	same := load(t, "o03_iw_10ms.61")
	fitted := trace.Compare(same, same)
	fitted.Variant = "phase 3 of 7"
	reports := []*trace.Report{fitted, kernels(t, "o01_lock_big"), kernels(t, "o04_pace12p5M_1ms")}
	golden(t, "check.txt", write(t, func(w io.Writer) error { return trace.WriteCheck(w, reports) }))
	golden(t, "check.json", write(t, func(w io.Writer) error { return trace.WriteCheckJSON(w, reports) }))
}

func TestWriteJSON(t *testing.T) {
	got := write(t, kernels(t, "o03_iw_10ms").WriteJSON)
	golden(t, "diff.json", got)
	var v struct {
		Packets   int         `json:"packets"`
		FirstDiff *trace.Diff `json:"first_diff"`
	}
	if err := json.Unmarshal(got, &v); err != nil || v.Packets != 34 || v.FirstDiff == nil {
		t.Errorf("%v: %+v", err, v)
	}
}

func TestWriteSVG(t *testing.T) {
	golden(t, "diff_o03.svg", write(t, kernels(t, "o03_iw_10ms").WriteSVG))
	same, none := load(t, "o01_lock_big.61"), parse(t, "none", "")
	for _, r := range []*trace.Report{trace.Compare(same, same), trace.Compare(same, none), trace.Compare(none, same), trace.Compare(none, none)} {
		if err := wellFormed(write(t, r.WriteSVG)); err != nil {
			t.Errorf("%s against %s: %v", r.Trace, r.Model, err)
		}
	}
}

// TestSVGSize: the picture does not grow with the packets beyond what can be
// told apart.
func TestSVGSize(t *testing.T) {
	tr := load(t, "o10_virtio_w1024_n0_q1.612")
	long := alter(tr, func(p []trace.Packet) []trace.Packet {
		all := p
		for range 30 {
			all = append(all, p...)
		}
		return all
	})
	one, many := len(write(t, trace.Compare(tr, tr).WriteSVG)), len(write(t, trace.Compare(long, long).WriteSVG))
	if many > one+1000 {
		t.Errorf("%d bytes with 31 times the packets, %d before", many, one)
	}
}

func TestSVGEscapes(t *testing.T) {
	tr := parse(t, "<&>", "5 tx 0 1 1 10 .")
	b := write(t, trace.Compare(tr, tr).WriteSVG)
	if err := wellFormed(b); err != nil {
		t.Error(err)
	}
}

func wellFormed(b []byte) error {
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		if _, err := d.Token(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
