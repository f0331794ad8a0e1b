package umlguest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
	"github.com/vnetbench/vnetbench/vmtest/trace"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

var update = flag.Bool("update", false, "have real kernels write the golden traces anew")

// golden are the runs for which the model is claimed to send every packet of the
// kernel: a plan, its kernel, how the run's label begins, and settings.
var golden = []struct{ name, plan, kernel, label, set string }{
	{"big.61", "tso-leftover", "6.1", "big", "topology=veth"},
	{"big.612", "tso-leftover", "6.12", "big", "topology=veth"},
	{"mss1428.61", "tso-leftover", "6.1", "mss1428", "topology=veth"},
	{"mss1428.612", "tso-leftover", "6.12", "mss1428", "topology=veth"},
	{"clean-cubic.61", "cc-links", "6.1", "clean", "cc=cubic"},
	{"clean-reno.61", "cc-links", "6.1", "clean", "cc=reno"},
	{"lossy-cubic.61", "cc-links", "6.1", "lossy", "cc=cubic"},
	{"lossy-reno.61", "cc-links", "6.1", "lossy", "cc=reno"},
	{"shallow-cubic.61", "cc-links", "6.1", "shallow", "cc=cubic"},
	{"shallow-reno.61", "cc-links", "6.1", "shallow", "cc=reno"},
	{"clean-cubic.612", "cc-links", "6.12", "clean", "cc=cubic"},
	{"clean-reno.612", "cc-links", "6.12", "clean", "cc=reno"},
	{"lossy-cubic.612", "cc-links", "6.12", "lossy", "cc=cubic"},
	{"lossy-reno.612", "cc-links", "6.12", "lossy", "cc=reno"},
	{"shallow-cubic.612", "cc-links", "6.12", "shallow", "cc=cubic"},
	{"shallow-reno.612", "cc-links", "6.12", "shallow", "cc=reno"},
	{"paced-cubic.61", "cc-links", "6.1", "paced", "cc=cubic"},
	{"paced-cubic.612", "cc-links", "6.12", "paced", "cc=cubic"},
	{"kernel-clean-cubic.61", "cc-links", "6.1", "clean", "cc=cubic receiver.kind=kernel"},
	{"kernel-lossy-reno.61", "cc-links", "6.1", "lossy", "cc=reno receiver.kind=kernel"},
	{"kernel-shallow-cubic.61", "cc-links", "6.1", "shallow", "cc=cubic receiver.kind=kernel"},
	{"kernel-clean-cubic.612", "cc-links", "6.12", "clean", "cc=cubic receiver.kind=kernel"},
	{"kernel-lossy-cubic.612", "cc-links", "6.12", "lossy", "cc=cubic receiver.kind=kernel"},
	{"kernel-shallow-cubic.612", "cc-links", "6.12", "shallow", "cc=cubic receiver.kind=kernel"},
}

// TestGolden runs the model on the scenario in each golden trace's header, and holds
// what it sends against the packets of the kernel. It needs no kernel.
func TestGolden(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			path := filepath.Join("testdata", "golden", g.name+".tsv.gz")
			if *update {
				writeGolden(t, path, g.plan, g.kernel, g.label, g.set)
			}
			truth, err := trace.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s, _, err := trace.ScenarioOf(&truth.Header)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if _, err := simguest.New(simguest.Config{}).Run(context.Background(), s, vmtest.Options{Trace: &out}); err != nil {
				t.Fatal(err)
			}
			model, err := trace.Read("model", &out)
			if err != nil {
				t.Fatal(err)
			}
			if r := trace.Compare(truth, model); r.EqualLen != r.Packets || r.Packets < 50 {
				var b bytes.Buffer
				_ = r.WriteText(&b)
				t.Errorf("%d of %d packets are equal\n%s", r.EqualLen, r.Packets, b.String())
			}
		})
	}
}

// writeGolden has a real kernel send, and writes its packets behind the scenario that
// the model runs.
func writeGolden(t *testing.T, path, plan, name, label, set string) {
	t.Helper()
	p, err := vmtest.PlanByName(plan)
	if err != nil {
		t.Fatal(err)
	}
	settings := []vmtest.Setting{{Key: "kernel", Value: kernel(t, name)}}
	for s := range strings.FieldsSeq(set) {
		key, value, _ := strings.Cut(s, "=")
		settings = append(settings, vmtest.Setting{Key: key, Value: value})
	}
	if err := p.Set(settings); err != nil {
		t.Fatal(err)
	}
	p.Fit(umlguest.New(umlguest.Config{}))
	runs, err := p.Runs()
	if err != nil {
		t.Fatal(err)
	}
	s := runs[slices.IndexFunc(runs, func(r vmtest.PlannedRun) bool { return strings.HasPrefix(r.Label, label+"-") })].Scenario
	s.Trace.At = "host"
	if s.Topology == vmtest.TopologyVeth {
		s.Trace.At = "qdisc"
	}
	r, text := run(t, s)
	var queues []int
	for _, f := range r.Flows {
		queues = append(queues, f.Queue)
	}
	header, err := json.Marshal(umlguest.Model(s, queues, r.ClockPhase))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprintf(z, "# kernel\t%s\n", r.KernelVersion)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "# vnetbench\t") {
			line = fmt.Sprintf("# vnetbench\t%s\n", header)
		}
		fmt.Fprint(z, line)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
