package simguest

import (
	"runtime"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Once a world has warmed up, nothing allocates: not a packet through sender,
// qdisc, driver, rings, device and link, nor its ACK on the way back.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, set := range [][2]string{{"queue_pairs", "1"}, {"queue_pairs", "2"}, {"kernel", "3.8"}, {"write", "64k"}, {"tso", "off"}} {
		s := vmtest.Default()
		s.Duration = time.Hour
		if err := s.Set(set[0], set[1]); err != nil {
			t.Fatal(err)
		}
		w, err := newWorld(s, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.loop.RunUntil(vtime.Time(200 * time.Millisecond))
		before := w.dev.Pair(0).TX.Snapshot().Packets
		allocs := testing.AllocsPerRun(5, func() { w.loop.RunUntil(w.loop.Now() + vtime.Time(time.Millisecond)) })
		if packets := w.dev.Pair(0).TX.Snapshot().Packets - before; packets < 100 {
			t.Errorf("%s=%s: only %d packets", set[0], set[1], packets)
		}
		if allocs > 0 {
			t.Errorf("%s=%s: %v allocations per ms of virtual time", set[0], set[1], allocs)
		}
	}
}

// Ten thousand flows fit in 200 MB, with room for the garbage collector.
func TestMemoryOfTenThousandFlows(t *testing.T) {
	s := vmtest.Default()
	for _, set := range [][2]string{{"flows", "10000"}, {"vcpus", "8"}, {"queue_pairs", "8"}, {"cc", "bbr"},
		{"link.rate", "100G"}, {"link.delay", "50us"}, {"write", "64k"}} {
		if err := s.Set(set[0], set[1]); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w, err := newWorld(s, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.loop.RunUntil(vtime.Time(25 * time.Millisecond))
	runtime.GC()
	runtime.ReadMemStats(&after)
	if live := int64(after.HeapAlloc) - int64(before.HeapAlloc); live > 130<<20 {
		t.Errorf("%d MB live after 25 ms, want below 130", live>>20)
	}
	if n := w.snapshot().tx[0].Packets; n == 0 {
		t.Error("nothing was sent")
	}
}
