package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/conclude"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/report"
	"github.com/vnetbench/vnetbench/vmtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file of testdata.
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
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-update writes it anew):\n%s", name, d)
	}
}

// ring is one ring's account, with the figures that the report prints.
func ring(queue int, dir string, packets, bytes, kicks, calls int64) vmtest.Queue {
	return vmtest.Queue{Queue: queue, Dir: dir, Packets: packets, Bytes: bytes, Kicks: kicks, Calls: calls,
		ExitNs: 960 * float64(kicks), IRQNs: 1500 * float64(calls)}
}

// sum fills a run's totals from its rings.
func sum(r vmtest.Run, goodputBps, bigShare float64) vmtest.Run {
	t := vmtest.Totals{GoodputBps: goodputBps, BigShare: bigShare}
	var irq float64
	for _, q := range r.Queues {
		irq += q.IRQNs
		if q.Dir == "rx" {
			t.RxCalls, t.Acks = t.RxCalls+q.Calls, t.Acks+q.Packets
			continue
		}
		t.Packets, t.Bytes, t.Kicks, t.TxCalls = t.Packets+q.Packets, t.Bytes+q.Bytes, t.Kicks+q.Kicks, t.TxCalls+q.Calls
	}
	per := func(n int64) float64 { return vmtest.PerMB(float64(n), t.Bytes) }
	guest, host := 400e3+1e3*per(t.Kicks), 250e3+500*per(t.Packets)
	t.GSOMeanBytes = float64(t.Bytes) / float64(t.Packets)
	t.PacketsPerMB, t.AcksPerMB, t.KicksPerMB = per(t.Packets), per(t.Acks), per(t.Kicks)
	t.TxCallsPerMB, t.RxCallsPerMB = per(t.TxCalls), per(t.RxCalls)
	t.ExitNsPerMB, t.IRQNsPerMB = 960*t.KicksPerMB, vmtest.PerMB(irq, t.Bytes)
	t.GuestNsPerMB, t.HostNsPerMB = &guest, &host
	r.Totals = t
	return r
}

// fixed is a result with round numbers: three runs of a plan, as a simulated
// guest would give them.
func fixed() *vmtest.Result {
	base := vmtest.Default()
	base.Name, base.Kernel = "mq-small-packets", "3.8"
	run := func(remedies []string, pairs int, rings ...vmtest.Queue) vmtest.Run {
		return vmtest.Run{Label: "x", Kernel: "3.8", Release: "orphan", Remedies: remedies, Policy: "none", QueuePairs: pairs,
			Write: 1024, MSS: 1448, Axes: map[string]string{"queue_pairs": "?"}, Queues: rings}
	}
	both := []string{"win-divisor-1", "no-full-size-test"}
	r := &vmtest.Result{
		Schema: vmtest.Schema, Scenario: base, Guest: "sim", Seed: 1,
		Runs: []vmtest.Run{
			sum(run(nil, 1, ring(0, "tx", 500, 10_000_000, 40, 2), ring(0, "rx", 400, 0, 3, 300), ring(1, "ctrl", 1, 0, 1, 1)), 7.1e9, 0.82),
			sum(run(nil, 2, ring(0, "tx", 4000, 5_200_000, 2000, 4), ring(0, "rx", 2100, 0, 0, 1500),
				ring(1, "tx", 3600, 4_800_000, 1900, 5), ring(1, "rx", 2000, 0, 0, 1400)), 7.9e9, 0.01),
			sum(run(both, 2, ring(0, "tx", 260, 5_100_000, 41, 0), ring(0, "rx", 200, 0, 0, 150),
				ring(1, "tx", 250, 4_900_000, 39, 0), ring(1, "rx", 190, 0, 0, 140)), 7.8e9, 0.8),
		},
		Warnings: []string{"kernel 3.8: the model has no pause frames"},
	}
	r.Runs[1].Warnings = []string{"the receive window was full for 3% of the time"}
	r.Conclusions = conclude.Draw(r.Runs)
	for i := range r.Conclusions {
		r.Conclusions[i].Tested = []string{"guest.tsq", "host.wake"}
	}
	r.Conclusions[6].Holds = false
	r.Conclusions[6].Flips = []vmtest.Flip{{Cost: "host.wake", Factor: 2}, {Cost: "guest.tsq", Factor: 0.5}}
	return r
}

func TestTextReport(t *testing.T) {
	var b bytes.Buffer
	if err := report.Text(&b, fixed()); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", b.Bytes())
	for i, line := range strings.Split(b.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > 140 {
			t.Errorf("line %d has %d columns", i+1, n)
		}
	}
}

func TestInterruptedReportSaysSo(t *testing.T) {
	r := fixed()
	r.Interrupted, r.Runs, r.Conclusions = true, r.Runs[:1], nil
	var b bytes.Buffer
	if err := report.Text(&b, r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "INTERRUPTED") {
		t.Errorf("not in\n%s", b.String())
	}
}

func TestAWarningOfSeveralRunsIsPrintedOnce(t *testing.T) {
	r := fixed()
	r.Runs[0].Label, r.Runs[1].Label, r.Runs[2].Label = "a", "b", "c"
	r.Runs[0].Warnings = []string{"emulated", "short"}
	r.Runs[1].Warnings = []string{"emulated"}
	r.Runs[2].Warnings = []string{"emulated", "short"}
	var b bytes.Buffer
	if err := report.Text(&b, r); err != nil {
		t.Fatal(err)
	}
	if want := "\nnote: emulated\nnote: a, c: short\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("%q is not the end of\n%s", want, b.String())
	}
}

func TestManyQueuesShareALine(t *testing.T) {
	r := fixed()
	var rings []vmtest.Queue
	for i := range 12 {
		rings = append(rings, ring(i, "tx", 100, 1_000_000, 10, 0))
	}
	r.Runs = []vmtest.Run{sum(vmtest.Run{Kernel: "6.12", QueuePairs: 12, Queues: rings}, 1e9, 0)}
	r.Conclusions = nil
	var b bytes.Buffer
	if err := report.Text(&b, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"queue 7 ", "queues 8-11 "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "queue 8 ") {
		t.Errorf("queue 8 has a line of its own:\n%s", b.String())
	}
}

func TestUnknownCPUTimeIsADash(t *testing.T) {
	r := fixed()
	for i := range r.Runs {
		r.Runs[i].Totals.GuestNsPerMB, r.Runs[i].Totals.HostNsPerMB = nil, nil
	}
	var b bytes.Buffer
	if err := report.Text(&b, r); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if strings.HasPrefix(line, "3.8 orphan 1 pair") && !strings.HasSuffix(line, "-         -") {
			t.Errorf("line %q does not end in two dashes", line)
		}
	}
}

func TestJSONReadsBack(t *testing.T) {
	var b bytes.Buffer
	want := fixed()
	if err := report.JSON(&b, want); err != nil {
		t.Fatal(err)
	}
	var got vmtest.Result
	d := json.NewDecoder(&b)
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Error(diff)
	}
}

func TestCostsAreExplained(t *testing.T) {
	costs := []vmtest.Cost{
		{Name: "guest.kick", Value: 960, Unit: "ns", Kind: vmtest.CostSourced, Runs: []int{0, 1, 2},
			Note: "a notification through a fast MMIO eventfd, exit to entry, 5000 samples on one machine; the slow path through emulated MMIO takes 3.36 us"},
		{Name: "guest.copy_byte", Value: 0.1, Unit: "ns/byte", Kind: vmtest.CostAssumed, Note: "10 GB/s", Runs: []int{0, 1, 2}},
		{Name: "host.wake", Value: 2000, Unit: "ns", Kind: vmtest.CostSet, Note: "host.wake=2us", Runs: []int{1}},
	}
	var b bytes.Buffer
	if err := report.Costs(&b, costs, 3); err != nil {
		t.Fatal(err)
	}
	golden(t, "costs.txt", b.Bytes())
}
