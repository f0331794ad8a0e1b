package umlguest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
	"github.com/vnetbench/vnetbench/vmtest/trace"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

// leftover is a case of report 000 with namespaces.
func leftover(t *testing.T, kernel, label string) vmtest.Scenario {
	t.Helper()
	p, err := vmtest.PlanByName("tso-leftover")
	if err == nil {
		err = p.Set([]vmtest.Setting{{Key: "topology", Value: "veth"}, {Key: "kernel", Value: kernel}})
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Fit(umlguest.New(umlguest.Config{}))
	runs, err := p.Runs()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(runs, func(r vmtest.PlannedRun) bool { return strings.HasPrefix(r.Label, label) })
	return runs[i].Scenario
}

// Report 000 with its own numbers: packets of 42 segments of 4096 bytes and rests of
// two in turn until v6.10, afterwards no rest. The model sends the same packets.
func TestVethLeftover(t *testing.T) {
	for _, c := range []struct {
		kernel, label string
		want          []int
	}{
		{"6.1", "big", []int{8192, 172032}},
		{"6.12", "big", []int{172032}},
		{"6.1", "mss1428", []int{14280, 49980}},
		{"6.12", "mss1428", []int{49980}},
	} {
		t.Run(c.kernel+"-"+c.label, func(t *testing.T) {
			s := leftover(t, kernel(t, c.kernel), c.label)
			r, text := run(t, s)
			if len(r.Sizes) == 0 || !slices.Equal(r.Sizes[0].Lens, c.want) || r.Sizes[0].Times < 90 {
				t.Errorf("sizes %+v, want %v again and again", r.Sizes, c.want)
			}
			if len(r.Warnings) != 1 || r.Totals.AcksPerMB < 0.9*r.Totals.PacketsPerMB {
				t.Errorf("%.2f packets and %.2f ACKs a MB, warnings %q; want about one ACK for a packet", r.Totals.PacketsPerMB, r.Totals.AcksPerMB, r.Warnings)
			}
			same(t, s, r, text)
		})
	}
}

// same holds a run's trace against that of the model.
func same(t *testing.T, s vmtest.Scenario, r *vmtest.Run, text string) {
	t.Helper()
	var model bytes.Buffer
	if _, err := simguest.New(simguest.Config{}).Run(context.Background(), umlguest.Model(s, nil, r.ClockPhase), vmtest.Options{Trace: &model}); err != nil {
		t.Fatal(err)
	}
	read := func(name, text string) *trace.Trace {
		tr, err := trace.Read(name, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	report := trace.Compare(read("uml", text), read("sim", model.String()))
	if report.EqualLen != report.Packets || report.Packets == 0 {
		var b bytes.Buffer
		_ = report.WriteText(&b)
		t.Errorf("%d of %d packets are equal\n%s", report.EqualLen, report.Packets, b.String())
	}
}

// A run with namespaces is made twice alike, for both IP versions and with every
// discipline, and has nothing of a device in its result.
func TestVethSameTrace(t *testing.T) {
	for _, settings := range [][]string{
		{"router.rev=netem:delay=1ms", "router.fwd=netem:rate=100M,limit=20", "ip=6", "cc=bbr", "duration=40ms"},
		{"qdisc=tbf:rate=200M,burst=71680,limit=20971520", "write=64k", "flows=2"},
		{"qdisc=fq", "bytes=300000", "duration=0s", "warmup=0s"},
	} {
		s := scenario(t, append(settings, "topology=veth", "vcpus=1", "kernel="+kernel(t, "6.12"))...)
		first, trace := run(t, s)
		burden(t)
		_, again := run(t, s)
		if trace != again || first.Totals.Packets == 0 || first.Totals.Acks == 0 {
			t.Errorf("%v: traces of %d and %d bytes of one scenario, %d packets", settings, len(trace), len(again), first.Totals.Packets)
		}
		if s.Total > 0 && *first.Flows[0].SentBytes != 300000 {
			t.Errorf("%v: %d bytes sent", settings, *first.Flows[0].SentBytes)
		}
		text, err := json.Marshal(first)
		if err != nil || !strings.Contains(string(text), `"kicks_per_mb":null`) || first.MeasuredAt != vmtest.MeasuredAtGuest {
			t.Errorf("measured at %q, %v, want kicks to be null: %.300s", first.MeasuredAt, err, text)
		}
	}
}

// More packets than there is room for are said to be missing.
func TestVethFull(t *testing.T) {
	s := scenario(t, "topology=veth", "vcpus=1", "flows=1", "tso=off", "gso=off", "write=64k", "duration=300ms", "kernel="+kernel(t, "6.12"),
		"router.rev=netem:delay=1ms")
	r, _ := run(t, s)
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "no room for") }) {
		t.Errorf("%d packets, warnings %q; want one of packets that are missing", r.Totals.Packets, r.Warnings)
	}
}
