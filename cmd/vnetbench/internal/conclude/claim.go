package conclude

import (
	"fmt"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vmtest"
)

// direction is how a figure of the later run stands to that of the earlier one.
type direction int

const (
	same direction = iota
	up
	down
)

// Margins of the directions. A statement says "rises" or "falls" from a change
// of 10 % on; it is turned round by a run in which the change has the other sign,
// and "stays" is turned round by a change of 20 %.
const (
	sameMargin = 0.10
	flipMargin = 0.20
)

func directionOf(before, after, margin float64) direction {
	switch {
	case after > before*(1+margin):
		return up
	case after < before*(1-margin):
		return down
	}
	return same
}

// claim is one kind of statement about two runs.
type claim struct {
	id       string
	counters []string
	// figure is what rises or falls; ok is false if the guest cannot know it.
	figure func(t *vmtest.Totals) (v float64, ok bool)
	// say puts the comparison into words.
	say func(a, b *vmtest.Totals, d direction) string
}

func known(f func(*vmtest.Totals) float64) func(*vmtest.Totals) (float64, bool) {
	return func(t *vmtest.Totals) (float64, bool) { return f(t), true }
}

var claims = []claim{
	{"size", []string{"gso_mean_bytes", "big_share"},
		known(func(t *vmtest.Totals) float64 { return t.GSOMeanBytes }), saySize},
	{"packets", []string{"packets_per_mb", "acks_per_mb"},
		known(func(t *vmtest.Totals) float64 { return t.PacketsPerMB }), sayPackets},
	{"kicks", []string{"kicks_per_mb", "kicks", "packets"},
		known(func(t *vmtest.Totals) float64 { return t.KicksPerMB }), sayKicks},
	{"calls", []string{"tx_calls_per_mb", "rx_calls_per_mb"}, known(callsPerMB), sayCalls},
	{"exits", []string{"exit_ns_per_mb", "irq_ns_per_mb"}, known(wakeNsPerMB), sayExits},
	{"cpu", []string{"guest_cpu_ns_per_mb", "host_cpu_ns_per_mb"}, cpuNsPerMB, sayCPU},
	{"goodput", []string{"goodput_bps"},
		known(func(t *vmtest.Totals) float64 { return t.GoodputBps }), sayGoodput},
}

func callsPerMB(t *vmtest.Totals) float64  { return t.TxCallsPerMB + t.RxCallsPerMB }
func wakeNsPerMB(t *vmtest.Totals) float64 { return t.ExitNsPerMB + t.IRQNsPerMB }

func cpuNsPerMB(t *vmtest.Totals) (float64, bool) {
	if t.GuestNsPerMB == nil || t.HostNsPerMB == nil {
		return 0, false
	}
	return *t.GuestNsPerMB + *t.HostNsPerMB, true
}

func saySize(a, b *vmtest.Totals, d direction) string {
	return fmt.Sprintf("Packets %s: mean %s bytes (gso_mean_bytes%s); bytes in packets of >=8 MSS %s %% (big_share).",
		[]string{"keep their size", "get bigger", "get smaller"}[d],
		fromTo(a.GSOMeanBytes, b.GSOMeanBytes), times(a.GSOMeanBytes, b.GSOMeanBytes),
		fromTo(100*a.BigShare, 100*b.BigShare))
}

func sayPackets(a, b *vmtest.Totals, d direction) string {
	return fmt.Sprintf("The device gets %s packets: %s per MB (packets_per_mb%s), and the guest %s ACKs (acks_per_mb).",
		[]string{"as many", "more", "fewer"}[d],
		fromTo(a.PacketsPerMB, b.PacketsPerMB), times(a.PacketsPerMB, b.PacketsPerMB),
		fromTo(a.AcksPerMB, b.AcksPerMB))
}

func sayKicks(a, b *vmtest.Totals, d direction) string {
	return fmt.Sprintf("The driver kicks %s: %s per MB (kicks_per_mb%s); kicks per 100 packets %s (kicks, packets).",
		[]string{"as often", "more often", "less often"}[d],
		fromTo(a.KicksPerMB, b.KicksPerMB), times(a.KicksPerMB, b.KicksPerMB),
		fromTo(100*share(a.Kicks, a.Packets), 100*share(b.Kicks, b.Packets)))
}

func sayCalls(a, b *vmtest.Totals, d direction) string {
	return fmt.Sprintf("The device interrupts %s: transmit %s (tx_calls_per_mb), receive %s per MB (rx_calls_per_mb).",
		[]string{"as often", "more often", "less often"}[d],
		fromTo(a.TxCallsPerMB, b.TxCallsPerMB), fromTo(a.RxCallsPerMB, b.RxCallsPerMB))
}

func sayExits(a, b *vmtest.Totals, d direction) string {
	return fmt.Sprintf("Exits and interrupts take %s time: %s us (exit_ns_per_mb) and %s us per MB (irq_ns_per_mb).",
		[]string{"the same", "more", "less"}[d],
		fromTo(a.ExitNsPerMB/1e3, b.ExitNsPerMB/1e3), fromTo(a.IRQNsPerMB/1e3, b.IRQNsPerMB/1e3))
}

// sayCPU is called only if both runs know their CPU time.
func sayCPU(a, b *vmtest.Totals, d direction) string {
	return fmt.Sprintf("A MB costs %s CPU time: guest %s us (guest_cpu_ns_per_mb), host %s us (host_cpu_ns_per_mb).",
		[]string{"the same", "more", "less"}[d],
		fromTo(*a.GuestNsPerMB/1e3, *b.GuestNsPerMB/1e3), fromTo(*a.HostNsPerMB/1e3, *b.HostNsPerMB/1e3))
}

func sayGoodput(a, b *vmtest.Totals, d direction) string {
	return fmt.Sprintf("Goodput %s%s: %s Gbit/s (goodput_bps%s).",
		[]string{"stays", "rises", "falls"}[d], despite(a, b, d),
		fromTo(a.GoodputBps/1e9, b.GoodputBps/1e9), times(a.GoodputBps, b.GoodputBps))
}

// despite says if goodput goes against what the packets' sizes suggest.
func despite(a, b *vmtest.Totals, goodput direction) string {
	size := directionOf(a.GSOMeanBytes, b.GSOMeanBytes, sameMargin)
	switch {
	case goodput == up && size == down:
		return " although packets get smaller"
	case goodput == down && size == up:
		return " although packets get bigger"
	}
	return ""
}

// fromTo writes the values of the earlier and the later run.
func fromTo(a, b float64) string { return grid.Number(a) + " -> " + grid.Number(b) }

// times is the ratio, where there is one.
func times(a, b float64) string {
	if a == 0 || b == 0 {
		return ""
	}
	return ", x" + grid.Number(b/a)
}

func share(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
