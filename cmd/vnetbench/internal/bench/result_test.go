package bench

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func measured() []Result {
	both := Result{Case: "tx-64", Unit: "Mpps"}
	both.add([]float64{12, 10}, 100, 120)
	both.add([]float64{30, 20}, 500, 540)
	both.add([]float64{9, 10}, 110, 110)
	both.finish()
	alone := Result{Case: "tx-64k", Unit: "Gbit/s"}
	alone.add([]float64{155}, 100, 100)
	alone.finish()
	return []Result{both, alone}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, measured()); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"                                                                          CPU to CPU",
		"case    unit    ours    min..max  peer    min..max  ratio    min..max  pairs  and back, ns",
		"tx-64   Mpps    12.0  9.00..30.0  10.0  10.0..20.0   1.20  0.90..1.50      3  110 (110..520)",
		"tx-64k  Gbit/s   155    155..155     -           -      -           -      1  100 (100..100)",
	}, "\n")
	if d := cmp.Diff(fields(want), fields(b.String())); d != "" {
		t.Error(d)
	}
}

// fields is the text of each line without its blanks.
func fields(s string) (out [][]string) {
	for line := range strings.Lines(s) {
		out = append(out, strings.Fields(line))
	}
	return out
}

func TestJSON(t *testing.T) {
	b, err := json.Marshal(measured())
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{{
		"case": "tx-64", "about": "", "unit": "Mpps", "peer_name": Peer, "pairs": 3.0, "ratio": 1.2,
		"ours":         map[string]any{"min": 9.0, "median": 12.0, "max": 30.0},
		"peer":         map[string]any{"min": 10.0, "median": 10.0, "max": 20.0},
		"ratio_spread": map[string]any{"min": 0.9, "median": 1.2, "max": 1.5},
		"regime_ns":    []any{110.0, 520.0, 110.0},
	}, {
		"case": "tx-64k", "about": "", "unit": "Gbit/s", "peer_name": Peer, "pairs": 1.0, "ratio": nil,
		"ours": map[string]any{"min": 155.0, "median": 155.0, "max": 155.0}, "peer": nil,
		"ratio_spread": nil, "regime_ns": []any{100.0},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestPingPong goes to and fro, and needs no second CPU to end: threads of one
// CPU take turns.
func TestPingPong(t *testing.T) {
	cpus, err := PickCPUs()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED, NOT TESTED:", err)
	}
	if ns, err := pingPong(cpus); err != nil || ns <= 0 {
		t.Errorf("%v ns, %v", ns, err)
	}
}
