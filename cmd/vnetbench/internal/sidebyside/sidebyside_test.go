package sidebyside_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/sidebyside"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/trace"
)

func side(t *testing.T, guest string, gbps float64, lines ...string) sidebyside.Side {
	t.Helper()
	s := vmtest.Default()
	var head bytes.Buffer
	w, err := vmtest.NewTraceWriter(&head, s)
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	tr, err := trace.Read(guest, strings.NewReader(head.String()+strings.Join(lines, "\n")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return sidebyside.Side{Guest: guest, Trace: tr, Run: &vmtest.Run{Totals: vmtest.Totals{GoodputBps: gbps * 1e9}}}
}

func pairs(t *testing.T) []sidebyside.Pair {
	truth := side(t, "uml", 3, "0\ttx\t0\t1\t1\t1448\t.", "10\ttx\t0\t1449\t1\t1000\tP.")
	model := side(t, "sim", 2, "0\ttx\t0\t1\t1\t1448\t.", "20\ttx\t0\t1449\t1\t900\tP.")
	return []sidebyside.Pair{sidebyside.New("6.12", truth, model)}
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := sidebyside.Text(&b, pairs(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"6.12 uml        2           50.00", "1000, model 900", "uml       3", "sim       2", "truth: "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := sidebyside.Text(&b, append(pairs(t), pairs(t)...)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "truth: ") {
		t.Errorf("several pairs are printed in full:\n%s", b.String())
	}
}

// Runs of the same label are in consecutive lines; one that only one result has is
// there too.
func TestResults(t *testing.T) {
	run := func(label string, gbps float64) vmtest.Run {
		return vmtest.Run{Label: label, Totals: vmtest.Totals{GoodputBps: gbps * 1e9}}
	}
	a := &vmtest.Result{Guest: "sim", Runs: []vmtest.Run{run("one", 1), run("two", 2)}}
	b := &vmtest.Result{Guest: "uml", Runs: []vmtest.Run{run("two", 3), run("three", 4)}}
	var out bytes.Buffer
	if err := sidebyside.Results(&out, []string{"a.json", "b.json"}, []*vmtest.Result{a, b}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasPrefix(line, " ") && f[0] != "run" {
			got = append(got, strings.Join(f[:4], " "))
		}
	}
	want := []string{"one a.json (sim) 1", "two a.json (sim) 2", "two b.json (uml) 3", "three b.json (uml) 4"}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("rows %q, want %q in:\n%s", got, want, out.String())
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := sidebyside.JSON(&b, pairs(t)); err != nil {
		t.Fatal(err)
	}
	var got []struct {
		Label   string
		Packets struct {
			EqualLen int `json:"equal_len"`
		}
		Truth vmtest.Run
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || len(got) != 1 {
		t.Fatalf("%v: %s", err, b.String())
	}
	if got[0].Label != "6.12" || got[0].Packets.EqualLen != 1 || got[0].Truth.Totals.GoodputBps != 3e9 {
		t.Errorf("%+v", got[0])
	}
}
