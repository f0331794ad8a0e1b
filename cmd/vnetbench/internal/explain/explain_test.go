package explain_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/explain"
	"github.com/vnetbench/vnetbench/vmtest"
)

// result is that of one run with one transmit ring.
func result(change func(*vmtest.Run, *vmtest.Queue)) *vmtest.Result {
	s := vmtest.Default()
	s.Kernel, s.Release, s.QueuePairs = "6.12", vmtest.ReleaseNAPI, 2
	q := vmtest.Queue{Guest: "sender", Dir: "tx", Queue: 1, Packets: 1000, Bytes: 1_448_000, GSOMeanBytes: 1448,
		GSOHist: map[string]int64{"1024": 1000}, Kicks: 500, Calls: 100, SmallExcess: 977, ExitNs: 1e6}
	r := vmtest.Run{Label: "a", Kernel: "6.12", Release: "napi", QueuePairs: 2, Write: 1024, MSS: 1448, Policy: "none", MeasuredAt: vmtest.MeasuredAtDevice}
	change(&r, &q)
	r.Queues = append(r.Queues, q, vmtest.Queue{Guest: "sender", Dir: "rx", Queue: 1, Packets: 500, Calls: 200})
	return &vmtest.Result{Schema: vmtest.Schema, Scenario: s, Guest: "sim", Runs: []vmtest.Run{r}}
}

func TestWordsComeFromTheCounters(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*vmtest.Run, *vmtest.Queue)
		want   []string
	}{
		{"the model's log", func(r *vmtest.Run, q *vmtest.Queue) {
			r.Flows = []vmtest.Flow{{Queue: 1, Cuts: map[string]int64{"nagle": 300, "rest": 100}}, {Queue: 0, Cuts: map[string]int64{"cwnd": 9}}}
		}, []string{"tx queue 1:", "1000 packets carried 1.45 MB: 1448 bytes", "977 of them, 97.7 %", "Nagle's rule for the rest 75.0 %, what an earlier cut left over 25.0 %",
			"kicked 345 times per MB (kicks), once for 2.00 packets", "its ring empty after every 2.00", "69.1 times per MB (calls), and 138 times for the 345"}},
		{"a real guest", func(r *vmtest.Run, q *vmtest.Queue) {}, []string{"the end of what was written", "inferred from counters"}},
		{"behind", func(r *vmtest.Run, q *vmtest.Queue) { q.Kicks = 10 }, []string{"The device was behind: it took 100 packets"}},
		{"full packets", func(r *vmtest.Run, q *vmtest.Queue) { q.GSOMeanBytes = 64000 }, []string{"the largest size that device and driver allow"}},
		{"no device", func(r *vmtest.Run, q *vmtest.Queue) { r.MeasuredAt = vmtest.MeasuredAtGuest }, []string{"no device here"}},
	} {
		var b strings.Builder
		if err := explain.Run(&b, result(c.change), 0); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(strings.Fields(b.String()), " ")
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", c.name, w, b.String())
			}
		}
	}
}

// model is a guest of one kernel in which a policy doubles the packets' size.
type model struct{ vmtest.Guest }

func (model) Kernels() []string { return []string{"6.12"} }

func (model) Check(s vmtest.Scenario) error {
	if s.More {
		return errors.New("no MSG_MORE here")
	}
	return nil
}

func (model) Run(_ context.Context, s vmtest.Scenario, _ vmtest.Options) (*vmtest.Run, error) {
	r := &vmtest.Run{Totals: vmtest.Totals{GSOMeanBytes: 1448, PacketsPerMB: 690}}
	if s.Policy != "none" {
		r.Totals.GSOMeanBytes, r.Totals.PacketsPerMB = 2896, 345
	}
	return r, nil
}

func TestWhatIf(t *testing.T) {
	s := vmtest.Default()
	s.Kernel = "6.12"
	changes := explain.Changes(&s)
	base, err := explain.Try(context.Background(), s, changes, func() vmtest.Guest { return model{} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := explain.Table(&b, base, changes); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"none                                             1448", "policy=adaptive                                  2896",
		"cannot have more=on", "No figure moves by a tenth with remedies=win-divisor-1"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	s.Kernel = "/boot/vmlinux"
	if _, err := explain.Try(context.Background(), s, nil, func() vmtest.Guest { return model{} }, nil); !errors.Is(err, explain.ErrNoModel) {
		t.Errorf("error %v", err)
	}
}
