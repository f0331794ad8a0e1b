package report

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vmtest"
)

// queueLines is how many queue pairs of a run get a line of their own.
const queueLines = 8

// tableOf writes a line for each run, and with queues one for each queue pair.
func tableOf(w io.Writer, runs []vmtest.Run, queues bool) error {
	t := grid.Table{Columns: columns(runs)}
	sets := remedySets(runs)
	for i := range runs {
		addRun(&t, &runs[i], sets, anyRun(runs, joins), anyRun(runs, asks))
		if queues && runs[i].QueuePairs > 1 {
			addQueues(&t, &runs[i])
		}
		addGuests(&t, &runs[i])
	}
	return t.Write(w)
}

// joins reports whether the device of a run joins packets, asks whether one of
// its flows has latencies.
func joins(r *vmtest.Run) bool { return r.Totals.WireFloor != nil }

func asks(r *vmtest.Run) bool {
	return slices.ContainsFunc(r.Flows, func(f vmtest.Flow) bool { return f.Latency != nil })
}

func anyRun(runs []vmtest.Run, is func(*vmtest.Run) bool) bool {
	for i := range runs {
		if is(&runs[i]) {
			return true
		}
	}
	return false
}

func columns(runs []vmtest.Run) []grid.Column {
	heads := [][]string{
		{"goodput", "Gbit/s"}, {"GSO mean", "bytes"}, {">=8 MSS", "% bytes"}, {"packets", "/MB"}, {"kicks", "/MB"},
		{"tx calls", "/MB"}, {"rx calls", "/MB"}, {"exits", "us/MB"}, {"irqs", "us/MB"}, {"guest CPU", "us/MB"}, {"host CPU", "us/MB"},
	}
	if anyRun(runs, joins) {
		heads = append(heads, []string{"wire", "/MB"})
	}
	if anyRun(runs, asks) {
		heads = append(heads, []string{"median", "us"}, []string{"p99", "us"})
	}
	out := []grid.Column{{Head: []string{"run"}, Left: true}}
	for _, h := range heads {
		out = append(out, grid.Column{Head: h})
	}
	return out
}

func addRun(t *grid.Table, r *vmtest.Run, sets [][]string, wire, latency bool) {
	v := &r.Totals
	cells := []string{shortName(r, sets), grid.Number(v.GoodputBps / 1e9), fmt.Sprintf("%.0f", v.GSOMeanBytes), grid.Number(100 * v.BigShare),
		grid.Number(v.PacketsPerMB), counted(r, v.KicksPerMB), counted(r, v.TxCallsPerMB), counted(r, v.RxCallsPerMB),
		counted(r, v.ExitNsPerMB/1e3), counted(r, v.IRQNsPerMB/1e3), grid.Micros(v.GuestNsPerMB), grid.Micros(v.HostNsPerMB)}
	if wire {
		cells = append(cells, grid.Number(v.WirePerMB))
	}
	if latency {
		cells = append(cells, latencies(r)...)
	}
	t.Row(cells...)
}

// latencies are the median and the 99th percentile of a run's first flow that has
// them.
func latencies(r *vmtest.Run) []string {
	for _, f := range r.Flows {
		if l := f.Latency; l != nil && l.Count > 0 {
			return []string{grid.Number(float64(l.MedianNs) / 1e3), grid.Number(float64(l.P99Ns) / 1e3)}
		}
	}
	return []string{"-", "-"}
}

// counted is a figure that only a device can count.
func counted(r *vmtest.Run, v float64) string {
	if r.MeasuredAt == vmtest.MeasuredAtGuest {
		return "-"
	}
	return grid.Number(v)
}

// shortName is the run in the table's first column: kernel, release, a mark for
// the remedies, the queue pairs, and other axes.
func shortName(r *vmtest.Run, sets [][]string) string {
	parts := []string{strings.TrimSpace(r.Kernel + " " + r.Release)}
	for i, set := range sets {
		if slices.Equal(set, r.Remedies) {
			parts = append(parts, fmt.Sprintf("R%d", i+1))
		}
	}
	unit := "pairs"
	if r.QueuePairs == 1 {
		unit = "pair"
	}
	parts = append(parts, fmt.Sprintf("%d %s", r.QueuePairs, unit))
	keys := make([]string, 0, len(r.Axes))
	for k := range r.Axes {
		if k != "queue_pairs" {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	for _, k := range keys {
		parts = append(parts, k+"="+r.Axes[k])
	}
	return strings.Join(parts, " ")
}

// remedySets lists the distinct sets of remedies, in the order of the runs.
func remedySets(runs []vmtest.Run) [][]string {
	var sets [][]string
	for _, r := range runs {
		known := slices.ContainsFunc(sets, func(s []string) bool { return slices.Equal(s, r.Remedies) })
		if len(r.Remedies) > 0 && !known {
			sets = append(sets, r.Remedies)
		}
	}
	return sets
}

// pair is what the two data rings of a queue pair add to their run.
type pair struct {
	packets, bytes, kicks, txCalls, rxCalls int64
	exitNs, irqNs                           float64
}

func (p *pair) add(q vmtest.Queue) {
	p.irqNs += q.IRQNs
	if q.Dir == "rx" {
		p.rxCalls += q.Calls
		return
	}
	p.packets += q.Packets
	p.bytes += q.Bytes
	p.kicks += q.Kicks
	p.txCalls += q.Calls
	p.exitNs += q.ExitNs
}

// addQueues adds a line for each queue pair; those beyond queueLines share one.
func addQueues(t *grid.Table, r *vmtest.Run) {
	lines := make([]pair, min(r.QueuePairs, queueLines))
	var rest pair
	for _, q := range r.Queues {
		switch {
		case q.Dir == "ctrl", strings.HasPrefix(q.Guest, "receiver"):
		case q.Queue < len(lines):
			lines[q.Queue].add(q)
		default:
			rest.add(q)
		}
	}
	for i := range lines {
		lines[i].row(t, fmt.Sprintf("  queue %d", i), r.Totals.Bytes)
	}
	if r.QueuePairs > queueLines {
		rest.row(t, fmt.Sprintf("  queues %d-%d", queueLines, r.QueuePairs-1), r.Totals.Bytes)
	}
}

// guestLines is how many guests of a run get a line of their own.
const guestLines = 16

// addGuests adds a line for each guest of a run that has several; those beyond
// guestLines share one.
func addGuests(t *grid.Table, r *vmtest.Run) {
	var names []string
	sums := map[string]*pair{}
	for _, q := range r.Queues {
		if sums[q.Guest] == nil {
			names = append(names, q.Guest)
			sums[q.Guest] = &pair{}
		}
		if q.Dir != "ctrl" {
			sums[q.Guest].add(q)
		}
	}
	if len(names) < 2 {
		return
	}
	for _, name := range names[:min(len(names), guestLines)] {
		sums[name].row(t, "  "+name, r.Totals.Bytes)
	}
	if len(names) > guestLines {
		var rest pair
		for _, name := range names[guestLines:] {
			rest.merge(sums[name])
		}
		rest.row(t, fmt.Sprintf("  %s to %s", names[guestLines], names[len(names)-1]), r.Totals.Bytes)
	}
}

func (p *pair) merge(o *pair) {
	p.packets += o.packets
	p.bytes += o.bytes
	p.kicks += o.kicks
	p.txCalls += o.txCalls
	p.rxCalls += o.rxCalls
	p.exitNs += o.exitNs
	p.irqNs += o.irqNs
}

func (p *pair) row(t *grid.Table, name string, runBytes int64) {
	perMB := func(n float64) string { return grid.Number(vmtest.PerMB(n, runBytes)) }
	mean := "-"
	if p.bytes > 0 {
		mean = fmt.Sprintf("%.0f", float64(p.bytes)/float64(p.packets))
	}
	t.Row(name, "", mean, "", perMB(float64(p.packets)), perMB(float64(p.kicks)),
		perMB(float64(p.txCalls)), perMB(float64(p.rxCalls)), perMB(p.exitNs/1e3), perMB(p.irqNs/1e3))
}
