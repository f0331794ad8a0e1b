package simguest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
)

// ringPlan are the runs of the default plan whose kernel has packed rings, and the
// same without napi.
func ringPlan(t *testing.T) (all []vmtest.Scenario) {
	t.Helper()
	p, _ := vmtest.PlanByName("mq-small-packets")
	if err := p.Set([]vmtest.Setting{{Key: "kernel", Value: "6.12"}, {Key: "release", Value: "napi,orphan"}}); err != nil {
		t.Fatal(err)
	}
	runs, err := p.Runs()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		all = append(all, r.Scenario)
	}
	return all
}

// A packed ring, and one that is used in order, carries the same packets at the
// same times as a split one, with as many kicks and calls: with indirect
// descriptors a packet is one slot of either, and suppression by position is the
// same rule. So it is with a real kernel in user mode. A driver without napi is
// the exception, see TestPackedCallsOfOrphan.
func TestRingsCountAlike(t *testing.T) {
	for _, s := range ringPlan(t) {
		split := run(t, s, "duration=5ms")
		if split.Totals.Kicks == 0 {
			t.Fatal("the split ring has no kicks")
		}
		for _, set := range [][]string{{"in_order=on"}, {"ring=packed"}, {"ring=packed", "in_order=on"}} {
			if s.Release == vmtest.ReleaseOrphan && set[0] == "ring=packed" {
				continue
			}
			r := run(t, s, append(set, "duration=5ms")...)
			if *r.TraceHash != *split.TraceHash || r.Totals.Kicks != split.Totals.Kicks ||
				r.Totals.TxCalls != split.Totals.TxCalls || r.Totals.RxCalls != split.Totals.RxCalls {
				t.Errorf("%d pairs, %v: %d kicks, %d and %d calls; split %d, %d and %d; hashes %s, %s", s.QueuePairs, set,
					r.Totals.Kicks, r.Totals.TxCalls, r.Totals.RxCalls, split.Totals.Kicks, split.Totals.TxCalls, split.Totals.RxCalls,
					*r.TraceHash, *split.TraceHash)
			}
		}
	}
}

// A driver without napi lets its first transmit interrupt disable calls. In a
// packed ring that is not written, since a call has come, and the flags still say
// what they said at the start: call always. So a call comes for each packet until
// the queue stops for the first time. Linux 6.12 in user mode does the same: 745
// calls for 745 packets per MB with two pairs, none with a split ring.
func TestPackedCallsOfOrphan(t *testing.T) {
	for _, s := range ringPlan(t) {
		if s.Release != vmtest.ReleaseOrphan || s.QueuePairs != 2 {
			continue
		}
		split, packed := run(t, s, "duration=5ms"), run(t, s, "duration=5ms", "ring=packed")
		if split.Totals.TxCalls != 0 || packed.Totals.TxCalls < packed.Totals.Packets*9/10 {
			t.Errorf("calls of the transmit queues: split %d, packed %d for %d packets", split.Totals.TxCalls,
				packed.Totals.TxCalls, packed.Totals.Packets)
		}
	}
}

// Without indirect descriptors a packet is several slots. The three quarters that
// the driver lets pass before it wants a call are of packets in a split ring, and
// of slots in a packed one, so the calls differ; a ring that is not packed would
// not show that.
func TestRingsDifferBySlots(t *testing.T) {
	s := ringPlan(t)[0]
	split, packed := run(t, s, "indirect=off", "duration=20ms"), run(t, s, "indirect=off", "duration=20ms", "ring=packed")
	if *split.TraceHash == *packed.TraceHash {
		t.Error("packed ring: same packets at the same times as a split one")
	}
	if a, b := split.Totals.Packets, packed.Totals.Packets; b < a*9/10 || b > a*11/10 {
		t.Errorf("%d packets by a split ring, %d by a packed one", a, b)
	}
}

func TestPackedNeedsKernel(t *testing.T) {
	s := report002(t)
	s.Kernel, s.Ring.Kind = "4.17", vmtest.RingPacked
	if _, err := simguest.New(simguest.Config{}).Run(context.Background(), s, vmtest.Options{}); err == nil || !strings.Contains(err.Error(), "5.0") {
		t.Errorf("kernel 4.17 with packed rings: %v", err)
	}
}
