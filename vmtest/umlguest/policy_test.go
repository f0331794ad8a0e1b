package umlguest_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

// The adaptive policy takes the cost of small packets over two queue pairs away
// from real kernels that nothing was changed in: with completion interrupts it is
// below what holding completions and ACKs always gave them (48 packets, 25
// transmit and 25 receive calls per MB), and without them the host sees a quarter
// of the packets at most.
func TestAdaptiveOnRealKernels(t *testing.T) {
	for _, name := range umlguest.Named {
		for _, release := range []string{vmtest.ReleaseOrphan, vmtest.ReleaseNAPI} {
			t.Run(name+"-"+release, func(t *testing.T) {
				set := []string{"kernel=" + kernel(t, name), "release=" + release, "queue_pairs=2", "host=med2", "guest_cpu=free",
					"think=2us", "receiver.rmem=32M", "warmup=2ms", "duration=5ms"}
				plain, _ := run(t, scenario(t, set...))
				fixed, _ := run(t, scenario(t, append(set, "policy=adaptive")...))
				none, with := &plain.Totals, &fixed.Totals
				t.Logf("packets %.0f -> %.1f per MB, on the wire %.1f; kicks %.0f -> %.1f, transmit calls %.0f -> %.1f, receive calls %.0f -> %.1f",
					none.PacketsPerMB, with.PacketsPerMB, with.WirePerMB, none.KicksPerMB, with.KicksPerMB,
					none.TxCallsPerMB, with.TxCallsPerMB, none.RxCallsPerMB, with.RxCallsPerMB)
				bad := with.KicksPerMB > none.KicksPerMB/10 || with.RxCallsPerMB > none.RxCallsPerMB/10 || with.GoodputBps < none.GoodputBps
				if release == vmtest.ReleaseNAPI {
					bad = bad || with.PacketsPerMB > 60 || with.TxCallsPerMB > 31 || with.RxCallsPerMB > 31 || with.GSOMeanBytes < 10*none.GSOMeanBytes
				} else {
					bad = bad || with.WirePerMB > none.WirePerMB/4
				}
				if bad {
					t.Errorf("without a policy %+v\nwith it %+v", none, with)
				}
			})
		}
	}
}

// Requests of a real kernel beside two bulk flows are answered no later with the
// adaptive policy than without one, and as fast as those of the model alone.
func TestRequestsOfRealKernels(t *testing.T) {
	for _, name := range umlguest.Named {
		set := []string{"kernel=" + kernel(t, name), "release=napi", "queue_pairs=2", "host=med2", "guest_cpu=free", "receiver.rmem=32M",
			"think=2us", "warmup=2ms", "duration=6ms"}
		alone, _ := run(t, scenario(t, append(set, "flows=1", "flow.0.kind=request", "flow.0.write=1", "flow.0.think=1ns", "flow.0.nodelay=on")...))
		if l := alone.Flows[0].Latency; l == nil || l.Count < 100 || l.MedianNs < 13000 || l.MedianNs > 14500 {
			t.Errorf("%s: a request alone takes %+v, want about 13.6 us", name, l)
		}
		beside := append(set, "flows=3", "flow.2.kind=request", "flow.2.write=1", "flow.2.request=2", "flow.2.think=1ns", "flow.2.nodelay=on")
		none, _ := run(t, scenario(t, beside...))
		with, _ := run(t, scenario(t, append(beside, "policy=adaptive")...))
		a, b := none.Flows[2].Latency, with.Flows[2].Latency
		t.Logf("%s: write, write, read: median %d -> %d ns, p99 %d -> %d ns", name, a.MedianNs, b.MedianNs, a.P99Ns, b.P99Ns)
		if b.Count < 100 || b.MedianNs > a.MedianNs*105/100+1000 || b.P99Ns > a.P99Ns*110/100+2000 {
			t.Errorf("%s: requests take %+v with the policy, and %+v without", name, b, a)
		}
	}
}
