package simguest_test

import (
	"fmt"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
)

// smallWrites runs four flows of 256-byte writes.
func smallWrites(t *testing.T, set ...string) *vmtest.Run {
	t.Helper()
	base := []string{"flows=4", "write=256", "duration=10ms", "warmup=2ms", "host=calibrated"}
	return run(t, vmtest.Default(), append(base, set...)...)
}

func figures(r *vmtest.Run) string {
	return fmt.Sprintf("GSO mean %.0f bytes, %.3g kicks, %.3g+%.3g calls per MB, interrupts %.0f ns per MB, %.3g Gbit/s",
		r.Totals.GSOMeanBytes, r.Totals.KicksPerMB, r.Totals.TxCallsPerMB, r.Totals.RxCallsPerMB, r.Totals.IRQNsPerMB, r.Totals.GoodputBps/1e9)
}

// Small writes of several flows were up to half as fast over several queues as
// over one, where the driver lets packets go at transmit: they become smaller, and
// kicks more.
func TestFault169SmallWritesOverQueues(t *testing.T) {
	one := smallWrites(t, "kernel=3.8", "release=orphan", "queue_pairs=1")
	four := smallWrites(t, "kernel=3.8", "release=orphan", "queue_pairs=4")
	t.Logf("1 queue: %s", figures(one))
	t.Logf("4 queues: %s", figures(four))
	if four.Totals.GSOMeanBytes > one.Totals.GSOMeanBytes/2 {
		t.Errorf("packets of %.0f bytes over one queue, %.0f over four", one.Totals.GSOMeanBytes, four.Totals.GSOMeanBytes)
	}
	if four.Totals.KicksPerMB < 100 || four.Totals.KicksPerMB < 10*one.Totals.KicksPerMB {
		t.Errorf("%.3g kicks per MB over one queue, %.3g over four", one.Totals.KicksPerMB, four.Totals.KicksPerMB)
	}
	if four.Totals.GoodputBps > 0.8*one.Totals.GoodputBps {
		t.Errorf("%.3g bit/s over one queue, %.3g over four", one.Totals.GoodputBps, four.Totals.GoodputBps)
	}
}

// The cure for that, letting packets go when their completion interrupt comes,
// costs interrupts; asking for them after three quarters of what is outstanding
// saves some.
func TestFault170CompletionInterruptsCost(t *testing.T) {
	orphan := smallWrites(t, "kernel=6.12", "release=orphan", "queue_pairs=4")
	napi := smallWrites(t, "kernel=6.12", "release=napi", "queue_pairs=4")
	t.Logf("orphan: %s", figures(orphan))
	t.Logf("napi: %s", figures(napi))
	if orphan.Totals.TxCallsPerMB > napi.Totals.TxCallsPerMB/10 || napi.Totals.IRQNsPerMB < 1.5*orphan.Totals.IRQNsPerMB {
		t.Errorf("transmit calls per MB: orphan %.3g, napi %.3g", orphan.Totals.TxCallsPerMB, napi.Totals.TxCallsPerMB)
	}
	one := smallWrites(t, "kernel=6.12", "release=napi", "queue_pairs=1")
	each := smallWrites(t, "kernel=6.12", "release=napi", "queue_pairs=1", "event_idx=off")
	t.Logf("three quarters: %s", figures(one))
	t.Logf("without EVENT_IDX: %s", figures(each))
	if one.Totals.TxCallsPerMB > each.Totals.TxCallsPerMB/2 {
		t.Errorf("transmit calls per MB: %.3g with three quarters, %.3g at each", one.Totals.TxCallsPerMB, each.Totals.TxCallsPerMB)
	}
}

// A device with fewer queues than the guest has CPUs starved some of them: four
// flows on four CPUs share two queues evenly.
func TestFault152FewerQueuesThanCPUs(t *testing.T) {
	r := smallWrites(t, "kernel=6.12", "queue_pairs=2")
	least, most := int64(1<<62), int64(0)
	for _, q := range r.Queues {
		if q.Dir != "tx" {
			continue
		}
		least, most = min(least, q.Bytes), max(most, q.Bytes)
	}
	if least == 0 || most > 2*least {
		t.Errorf("the queues carried %d and %d bytes", least, most)
	}
	for _, f := range r.Flows {
		if f.GoodputBps < r.Totals.GoodputBps/16 {
			t.Errorf("flow %d got %.3g of %.3g bit/s", f.Flow, f.GoodputBps, r.Totals.GoodputBps)
		}
	}
}

// A guest that used one of its queues only was slow, and nobody saw why: the
// report has each queue's load.
func TestFault175ImbalanceIsReported(t *testing.T) {
	r := smallWrites(t, "kernel=6.12", "queue_pairs=2", "flow.0.queue=1", "flow.1.queue=1", "flow.2.queue=1", "flow.3.queue=1")
	load := map[int]int64{}
	for _, q := range r.Queues {
		if q.Dir == "tx" {
			load[q.Queue] = q.Packets
		}
	}
	if len(load) != 2 || load[0] != 0 || load[1] != r.Totals.Packets {
		t.Errorf("packets by queue: %v, want all %d on queue 1", load, r.Totals.Packets)
	}
}
