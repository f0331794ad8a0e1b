package simguest_test

import (
	"fmt"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
)

// realKernel is a cell of a matrix that real kernels were measured in: Debian's
// 6.1.192 and 6.12.117 as UML guests in virtual time, two senders, MSS 1448,
// behind the same host models as ours. Figures per MB of payload.
type realKernel struct {
	host, kernel, release     string
	write, pairs              int
	mean, packets, kicks, txc float64
}

var realKernels = []realKernel{
	{"med2", "6.1", "orphan", 1024, 1, 1927, 519, 5, 0},
	{"med2", "6.1", "napi", 1024, 1, 2160, 463, 20, 172},
	{"med2", "6.1", "orphan", 1024, 2, 1318, 759, 418, 0},
	{"med2", "6.1", "napi", 1024, 2, 1330, 751, 345, 726},
	{"med2", "6.12", "orphan", 1024, 1, 1829, 547, 2, 0},
	{"med2", "6.12", "napi", 1024, 1, 2129, 470, 5, 135},
	{"med2", "6.12", "orphan", 1024, 2, 1323, 756, 415, 0},
	{"med2", "6.12", "napi", 1024, 2, 1334, 749, 340, 726},
	{"fast", "6.12", "orphan", 1024, 1, 1024, 976, 317, 0},
	{"fast", "6.12", "napi", 1024, 1, 1024, 978, 372, 819},
	{"fast", "6.12", "orphan", 1024, 2, 1044, 957, 746, 1},
	{"fast", "6.12", "napi", 1024, 2, 1071, 934, 761, 938},
	{"med", "6.12", "orphan", 16384, 1, 17883, 56, 4, 0},
	{"med", "6.12", "orphan", 16384, 2, 10612, 94, 51, 0},
	{"slow", "6.12", "orphan", 1024, 1, 4017, 249, 4, 1},
	{"slow", "6.12", "orphan", 1024, 2, 2261, 443, 9, 1},
	{"slow", "6.12", "napi", 1024, 1, 5695, 176, 6, 98},
	{"slow", "6.12", "napi", 1024, 2, 2954, 339, 30, 249},
}

// experiment is the scenario of a cell: guest CPU time is free but for clock
// reads, one CPU, each flow has its queue, and the kernel is built and set as it was
// for the experiments.
func (c realKernel) experiment() []string {
	think := "2us"
	if c.write > 1024 {
		think = "6us"
	}
	return []string{
		"host=" + c.host, "kernel=" + c.kernel, "release=" + c.release, fmt.Sprintf("write=%d", c.write),
		"think=" + think, fmt.Sprintf("queue_pairs=%d", c.pairs), "guest_cpu=uml", "vcpus=1",
		"flow.0.queue=0", fmt.Sprintf("flow.1.queue=%d", c.pairs-1), "receiver.rmem=32M",
		"sysctl.tcp_rmem=4096 6291456 33554432", "driver.bql=off", "max_tcp_header=192", "hz=100",
		"duration=10ms", "warmup=2ms",
	}
}

// The model looks like the real kernels in every cell: mean size and packets
// within a third, and kicks and calls of the same order. (The two are runs of
// different lengths; packet for packet is for the traces.)
func TestLikeRealKernels(t *testing.T) {
	for _, c := range realKernels {
		t.Run(fmt.Sprintf("%s-%s-%s-%d-%dq", c.host, c.kernel, c.release, c.write, c.pairs), func(t *testing.T) {
			r := run(t, vmtest.Default(), c.experiment()...).Totals
			within(t, "mean GSO size", r.GSOMeanBytes, c.mean, 1.33, 0)
			within(t, "packets per MB", r.PacketsPerMB, c.packets, 1.33, 0)
			within(t, "kicks per MB", r.KicksPerMB, c.kicks, 2, 30)
			within(t, "tx calls per MB", r.TxCallsPerMB, c.txc, 2.5, 10)
		})
	}
}

// within fails unless got is at most factor away from want, or slack.
func within(t *testing.T, what string, got, want, factor, slack float64) {
	t.Helper()
	if diff := got - want; diff <= slack && -diff <= slack {
		return
	}
	if got > want*factor || got < want/factor {
		t.Errorf("%s: the model has %.1f, the real kernel %.1f", what, got, want)
	}
}
