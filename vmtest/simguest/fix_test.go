package simguest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
)

// byAxis runs a plan and returns its runs by the values on axes, joined by a
// space.
func byAxis(t *testing.T, plan string, axes []string, set ...vmtest.Setting) map[string]*vmtest.Run {
	t.Helper()
	p, err := vmtest.PlanByName(plan)
	if err == nil {
		err = p.Set(set)
	}
	if err != nil {
		t.Fatal(err)
	}
	runs, err := p.Runs()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*vmtest.Run{}
	for _, r := range runs {
		got, err := simguest.New(simguest.Config{}).Run(t.Context(), r.Scenario, vmtest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var key strings.Builder
		for _, a := range axes {
			v, ok := r.Axes[a]
			if !ok {
				v = map[string]string{"kernel": got.Kernel, "release": got.Release, "queue_pairs": strconv.Itoa(got.QueuePairs)}[a]
			}
			key.WriteString(" " + v)
		}
		out[key.String()[1:]] = got
	}
	return out
}

// atMost fails if a figure is above its limit.
func atMost(t *testing.T, what string, got, limit float64) {
	t.Helper()
	if got > limit {
		t.Errorf("%s: %.4g, and at most %.4g is wanted", what, got, limit)
	}
}

// static is what holding completions and ACKs always gave real kernels with
// completion interrupts: packets, transmit and receive calls per MB.
var static = [3]float64{48, 25, 25}

// The adaptive policy takes the cost of small packets over two queue pairs away
// from every guest that nobody can change, after its first 2 ms. The seeds are
// ones that it was not tuned with, but for 1.
func TestAdaptiveFixesTheRegression(t *testing.T) {
	for _, seed := range []string{"1", "17", "4711"} {
		for _, cc := range []string{"cubic", "bbr"} {
			runs := byAxis(t, "fix", []string{"kernel", "release", "policy", "queue_pairs"},
				vmtest.Setting{Key: "seed", Value: seed}, vmtest.Setting{Key: "cc", Value: cc}, vmtest.Setting{Key: "policy", Value: "none,adaptive"})
			for _, kernel := range []string{"6.1", "6.12"} {
				for _, release := range []string{vmtest.ReleaseOrphan, vmtest.ReleaseNAPI} {
					t.Run(fmt.Sprintf("%s-%s-%s-seed%s", kernel, release, cc, seed), func(t *testing.T) {
						at := kernel + " " + release + " "
						one, two, fixed := &runs[at+"none 1"].Totals, &runs[at+"none 2"].Totals, &runs[at+"adaptive 2"].Totals
						if release == vmtest.ReleaseNAPI {
							checkNAPI(t, two, fixed)
						} else {
							checkOrphan(t, one, two, fixed)
						}
						atMost(t, "better goodput without a policy", max(one.GoodputBps, two.GoodputBps), fixed.GoodputBps*1.005)
						atMost(t, "cost per MB", costOf(fixed), costOf(one))
						if fixed.WireFloor != nil {
							atMost(t, "packets on the host's wire", fixed.WirePerMB, 1.2**fixed.WireFloor)
						}
					})
				}
			}
		}
	}
}

func checkNAPI(t *testing.T, two, fixed *vmtest.Totals) {
	t.Helper()
	atMost(t, "packets per MB", fixed.PacketsPerMB, 1.25*static[0])
	atMost(t, "transmit calls per MB", fixed.TxCallsPerMB, 1.25*static[1])
	atMost(t, "receive calls per MB", fixed.RxCallsPerMB, 1.25*static[2])
	atMost(t, "kicks per MB", fixed.KicksPerMB, two.KicksPerMB/10)
	atMost(t, "ten times the mean size without a policy", 10*two.GSOMeanBytes, fixed.GSOMeanBytes)
}

func checkOrphan(t *testing.T, one, two, fixed *vmtest.Totals) {
	t.Helper()
	atMost(t, "packets on the host's wire per MB", fixed.WirePerMB, two.WirePerMB/4)
	atMost(t, "receive calls per MB", fixed.RxCallsPerMB, two.RxCallsPerMB/10)
	atMost(t, "kicks per MB", fixed.KicksPerMB, one.KicksPerMB)
}

// onKVM charges the time of a guest on KVM and has a calibrated host decide the
// goodput. A guest that orphans then needs more for a MB over two pairs than over
// one, unless one worker serves both: the policy finds that out in the first 20 ms.
var onKVM = []vmtest.Setting{{Key: "guest_cpu", Value: "kvm"}, {Key: "vcpus", Value: "2"}, {Key: "think", Value: "0"}, {Key: "host", Value: "calibrated"},
	{Key: "release", Value: vmtest.ReleaseOrphan}, {Key: "policy", Value: "none,adaptive"}, {Key: "warmup", Value: "20ms"}, {Key: "duration", Value: "40ms"}}

func TestAdaptiveFixesOrphansOnKVM(t *testing.T) {
	for _, write := range []string{"512", "1024"} {
		runs := byAxis(t, "fix", []string{"kernel", "policy", "queue_pairs"}, append(onKVM, vmtest.Setting{Key: "write", Value: write})...)
		for _, kernel := range []string{"6.1", "6.12"} {
			t.Run(kernel+"-"+write, func(t *testing.T) {
				one, two, fixed := &runs[kernel+" none 1"].Totals, &runs[kernel+" none 2"].Totals, &runs[kernel+" adaptive 2"].Totals
				if write == "1024" {
					checkOrphan(t, one, two, fixed)
				}
				atMost(t, "better goodput without a policy", max(one.GoodputBps, two.GoodputBps), fixed.GoodputBps)
				atMost(t, "cost per MB", costOf(fixed), costOf(one))
			})
		}
	}
}

// A pair whose worker is shared for a while, and then no longer, is served as
// before: one that was left without kicks stood still.
func TestAdaptiveLeavesNoPairBehind(t *testing.T) {
	for _, host := range []string{"slow", "calibrated", "med"} {
		set := append(onKVM[:3:3], vmtest.Setting{Key: "host", Value: host}, vmtest.Setting{Key: "release", Value: vmtest.ReleaseOrphan},
			vmtest.Setting{Key: "policy", Value: "adaptive"}, vmtest.Setting{Key: "queue_pairs", Value: "2,4"}, vmtest.Setting{Key: "flows", Value: "4"})
		for key, r := range byAxis(t, "fix", []string{"kernel", "queue_pairs"}, set...) {
			for _, f := range r.Flows {
				if f.GoodputBps < r.Totals.GoodputBps/16 {
					t.Errorf("%s on host %s: flow %d has %.3g of %.3g bit/s", key, host, f.Flow, f.GoodputBps, r.Totals.GoodputBps)
				}
			}
		}
	}
}

// costOf is the modelled time per MB: exits, interrupts and CPUs.
func costOf(t *vmtest.Totals) float64 {
	return t.ExitNsPerMB + t.IRQNsPerMB + *t.GuestNsPerMB + *t.HostNsPerMB
}

// missed are the cases that miss a limit, and why. Each misses by little, and the
// test says when one no longer does.
var missed = map[string]string{
	"orphan-request-16k-beside": "the median is 0.05 us above its limit: the guest has one CPU, on which the flow on the other queue, whose kicks and ACKs are fewer, runs at other times; with 2 CPUs, or 3, the medians are equal to the nanosecond",
}

// Nothing else is hurt: latencies are at most 5 % and 1 us above those without a
// policy (p99 10 % and 2 us), flows complete and go as fast within 5 %.
func TestAdaptiveHurtsNobody(t *testing.T) {
	for _, release := range []string{vmtest.ReleaseOrphan, vmtest.ReleaseNAPI} {
		runs := byAxis(t, "fix-workloads", []string{"case", "policy"}, vmtest.Setting{Key: "release", Value: release})
		for key, none := range runs {
			name, ok := strings.CutSuffix(key, " none")
			if !ok {
				continue
			}
			t.Run(release+"-"+name, func(t *testing.T) {
				bad := compareWorkload(none, runs[name+" adaptive"])
				if why := missed[release+"-"+name]; (why != "") != (len(bad) > 0) {
					t.Errorf("misses %q; known: %q", bad, why)
				}
			})
		}
	}
}

// compareWorkload returns the limits that a run with the policy misses.
func compareWorkload(none, with *vmtest.Run) (bad []string) {
	limit := func(what string, got, most float64) {
		if got > most {
			bad = append(bad, fmt.Sprintf("%s: %.4g, at most %.4g", what, got, most))
		}
	}
	for i := range none.Flows {
		a, b := &none.Flows[i], &with.Flows[i]
		if a.Latency != nil {
			limit("median, us", float64(b.Latency.MedianNs)/1e3, 1.05*float64(a.Latency.MedianNs)/1e3+1)
			limit("p99, us", float64(b.Latency.P99Ns)/1e3, 1.1*float64(a.Latency.P99Ns)/1e3+2)
		}
		if a.DoneNs != nil {
			limit("completion, us", float64(*b.DoneNs)/1e3, 1.05*float64(*a.DoneNs)/1e3)
		}
	}
	limit("goodput without a policy, Gbit/s", none.Totals.GoodputBps/1e9, with.Totals.GoodputBps/1e9/0.95)
	return bad
}

// BBR measures the path every ten seconds with four packets in flight. It has to
// see the path then, and not how long ACKs are held: with every ACK held it took
// 354 us for 20.
func TestAdaptiveShowsBBRThePath(t *testing.T) {
	r := run(t, vmtest.Default(), "kernel=6.12", "release=napi", "queue_pairs=2", "spread=on", "host=med2", "guest_cpu=uml", "vcpus=1", "receiver.kind=kernel",
		"think=2us", "receiver.rmem=32M", "cc=bbr", "link.delay=25us", "policy=adaptive", "warmup=10900ms", "duration=100ms")
	for _, f := range r.Flows {
		if f.Model == nil || f.Model.MinRTTus < 50 || f.Model.MinRTTus > 65 {
			t.Errorf("flow %d: BBR's path is %+v, want one of 50 to 65 us", f.Flow, f.Model)
		}
	}
	if r.Totals.GSOMeanBytes < 20000 {
		t.Errorf("packets of %.0f bytes: they are not held", r.Totals.GSOMeanBytes)
	}
}

// otherCells were looked at when everything was settled: other kernels, flows,
// sizes, paths and hosts than those that the policy was made with.
var otherCells = [][]string{
	{"kernel=4.17", "release=napi"}, {"kernel=5.18", "release=napi"}, {"kernel=6.18", "release=napi"},
	{"kernel=5.18", "release=orphan"}, {"kernel=6.18", "release=orphan", "ip=6"}, {"kernel=4.17", "release=orphan", "host=med"},
	{"ip=6"}, {"mtu=9000"}, {"receiver.gro=off"}, {"cc=reno"}, {"qdisc=fq"}, {"flows=4", "queue_pairs=4"},
	{"flows=8", "think=8us"}, {"host=med", "write=2048"}, {"think=3us", "write=1448", "link.delay=100us"},
}

// What the policy does is not bound to the cells that it was made with.
func TestAdaptiveInOtherCells(t *testing.T) {
	for _, cell := range otherCells {
		t.Run(strings.Join(cell, ","), func(t *testing.T) {
			set := append([]string{"kernel=6.12", "release=napi", "queue_pairs=2", "spread=on", "host=med2", "guest_cpu=uml", "vcpus=1", "receiver.kind=kernel", "think=2us",
				"receiver.rmem=32M", "sysctl.tcp_rmem=4096 6291456 33554432", "driver.bql=off", "max_tcp_header=192", "hz=100", "warmup=2ms"}, cell...)
			none, with := run(t, vmtest.Default(), set...).Totals, run(t, vmtest.Default(), append(set, "policy=adaptive")...).Totals
			t.Logf("packets on the wire %.0f -> %.1f per MB, kicks %.0f -> %.1f, calls %.0f -> %.1f, %.2f -> %.2f Gbit/s", none.WirePerMB, with.WirePerMB,
				none.KicksPerMB, with.KicksPerMB, none.TxCallsPerMB+none.RxCallsPerMB, with.TxCallsPerMB+with.RxCallsPerMB, none.GoodputBps/1e9, with.GoodputBps/1e9)
			atMost(t, "packets on the wire per MB", with.WirePerMB, none.WirePerMB/4)
			atMost(t, "kicks per MB", with.KicksPerMB, none.KicksPerMB/3)
			atMost(t, "calls per MB", with.TxCallsPerMB+with.RxCallsPerMB, (none.TxCallsPerMB+none.RxCallsPerMB)/8)
			atMost(t, "goodput without it", none.GoodputBps, with.GoodputBps)
		})
	}
}
