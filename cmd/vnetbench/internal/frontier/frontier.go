// Package frontier judges what a device policy does to small packets over two
// queue pairs, and weighs settings against each other where it does not do all
// that is wanted. It runs nothing and prints nothing.
package frontier

import (
	"fmt"
	"strings"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Adaptive is the policy that is judged.
const Adaptive = "adaptive"

// Guest are the indexes of one guest's runs that it is judged by: one queue pair
// and two without a policy, and two with the adaptive one.
type Guest struct{ One, Two, With int }

// Guests finds the guests of which all three runs are there, in the order of the
// runs.
func Guests(runs []vmtest.Run) []Guest {
	var out []Guest
	for i := range runs {
		g := Guest{-1, -1, i}
		for j := range runs {
			if other := &runs[j]; other.Policy == "none" && sameGuest(&runs[i], other) {
				switch other.QueuePairs {
				case 1:
					g.One = j
				case 2:
					g.Two = j
				}
			}
		}
		if runs[i].Policy == Adaptive && runs[i].QueuePairs == 2 && g.One >= 0 && g.Two >= 0 {
			out = append(out, g)
		}
	}
	return out
}

// sameGuest reports whether two runs differ in nothing but policy and pairs.
func sameGuest(a, b *vmtest.Run) bool {
	if a.Kernel != b.Kernel || a.Release != b.Release || len(a.Remedies) != len(b.Remedies) || len(a.Axes) != len(b.Axes) {
		return false
	}
	for k, v := range a.Axes {
		if k != "policy" && k != "queue_pairs" && b.Axes[k] != v {
			return false
		}
	}
	return true
}

// What holding completions and ACKs always gave real kernels with completion
// interrupts: packets, transmit and receive calls per MB; a quarter more will do.
const staticPackets, staticTxCalls, staticRxCalls = 1.25 * 48, 1.25 * 25, 1.25 * 25

// leastFloor is the fewest packets that can carry a MB. A floor below counts only
// the part of a run in which packets were joined, and says nothing of the whole.
const leastFloor = 1e6 / 65483

// judge collects what is missed.
type judge struct{ missed []string }

func (j *judge) atMost(what, unit string, got, limit float64) {
	if got > limit {
		j.miss(what, unit, got, "most", limit)
	}
}

func (j *judge) atLeast(what, unit string, got, limit float64) {
	if got < limit {
		j.miss(what, unit, got, "least", limit)
	}
}

func (j *judge) miss(what, unit string, got float64, bound string, limit float64) {
	j.missed = append(j.missed, fmt.Sprintf("%s %s %s, at %s %s", what, grid.Number(got), unit, bound, grid.Number(limit)))
}

// Clause is the name of what is missed, without figure, unit and limit.
func Clause(missed string) string {
	figure, _, _ := strings.Cut(missed, ",")
	words := strings.Fields(figure)
	return strings.Join(words[:len(words)-2], " ")
}

// Judge returns what two queue pairs with a policy miss, against one pair and two
// without: of a guest that orphans fewer packets for the host, and of one with
// completion interrupts fewer and larger ones; fewer kicks and calls; no more time
// for a MB than with one pair, and no less goodput than the better of both.
func Judge(one, two, with *vmtest.Run) []string {
	j := judge{missed: []string{}}
	a, b, c := &one.Totals, &two.Totals, &with.Totals
	if with.Release == vmtest.ReleaseNAPI {
		j.atMost("packets", "/MB", c.PacketsPerMB, staticPackets)
		j.atMost("tx calls", "/MB", c.TxCallsPerMB, staticTxCalls)
		j.atMost("rx calls", "/MB", c.RxCallsPerMB, staticRxCalls)
		j.atMost("kicks", "/MB", c.KicksPerMB, b.KicksPerMB/10)
		j.atLeast("GSO mean", "bytes", c.GSOMeanBytes, 10*b.GSOMeanBytes)
	} else {
		j.atMost("packets on the wire", "/MB", c.WirePerMB, b.WirePerMB/4)
		j.atMost("rx calls", "/MB", c.RxCallsPerMB, b.RxCallsPerMB/10)
		j.atMost("kicks", "/MB", c.KicksPerMB, a.KicksPerMB)
	}
	if ca, cc, ok := costs(a, c); ok {
		j.atMost("cost", "us/MB", cc/1e3, ca/1e3)
	}
	j.atLeast("goodput", "Gbit/s", c.GoodputBps/1e9, 0.995*max(a.GoodputBps, b.GoodputBps)/1e9)
	if c.WireFloor != nil && *c.WireFloor >= leastFloor {
		j.atMost("packets on the wire", "/MB", c.WirePerMB, 1.2**c.WireFloor)
	}
	return j.missed
}

func costs(a, b *vmtest.Totals) (ca, cb float64, ok bool) {
	ca, okA := Cost(a)
	cb, okB := Cost(b)
	return ca, cb, okA && okB
}

// Cost is the modelled time for a MB in nanoseconds: exits, interrupts and CPUs;
// ok is false if it is not known.
func Cost(t *vmtest.Totals) (ns float64, ok bool) {
	if t.GuestNsPerMB == nil || t.HostNsPerMB == nil {
		return 0, false
	}
	return t.ExitNsPerMB + t.IRQNsPerMB + *t.GuestNsPerMB + *t.HostNsPerMB, true
}

// Point makes a point of a setting's two runs: with the two bulk flows alone, and
// with the flow of requests beside them.
func Point(one, two, with, beside *vmtest.Run) vmtest.FrontierPoint {
	p := vmtest.FrontierPoint{Policy: with.Policy, KicksPerMB: with.Totals.KicksPerMB, GoodputBps: with.Totals.GoodputBps, Missed: Judge(one, two, with)}
	if cost, ok := Cost(&with.Totals); ok {
		p.CostNsPerMB, p.HostNsPerMB = cost, *with.Totals.HostNsPerMB
	}
	for _, f := range beside.Flows {
		if l := f.Latency; l != nil && l.Count > 0 {
			p.MedianNs, p.P99Ns = l.MedianNs, l.P99Ns
		}
	}
	return p
}

// Weigh completes the points of one guest: it adds what the latencies miss against
// those of the first point, which has no policy, and marks the best.
func Weigh(points []vmtest.FrontierPoint) {
	for i := range points {
		p, none := &points[i], &points[0]
		j := judge{p.Missed}
		j.atMost("median", "us", float64(p.MedianNs)/1e3, 1.05*float64(none.MedianNs)/1e3+1)
		j.atMost("p99", "us", float64(p.P99Ns)/1e3, 1.1*float64(none.P99Ns)/1e3+2)
		p.Missed, p.Best = j.missed, true
		for k := range points {
			if dominates(&points[k], p) {
				p.Best = false
			}
		}
	}
}

func dominates(a, b *vmtest.FrontierPoint) bool {
	return a.KicksPerMB <= b.KicksPerMB && a.HostNsPerMB <= b.HostNsPerMB && a.MedianNs <= b.MedianNs &&
		(a.KicksPerMB < b.KicksPerMB || a.HostNsPerMB < b.HostNsPerMB || a.MedianNs < b.MedianNs)
}
