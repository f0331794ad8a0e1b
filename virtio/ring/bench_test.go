package ring_test

import (
	"fmt"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// benchmark moves packets through the ring, batch at a time, with all that a
// driver and a device do on the way: add, publish, ask for a kick; take, push,
// publish, ask for a call; reap.
func benchmark(b *testing.B, f virtio.Features, descs, batch int) {
	w := newWorld(b, 256, f)
	lens := make([]uint32, descs)
	for i := range lens {
		lens[i] = 1500
	}
	out := bufs(lens...)
	w.drv.DisableCalls()
	b.ReportAllocs()
	b.ResetTimer()
	packets := 0
	for b.Loop() {
		packets += w.round(out, batch)
	}
	b.StopTimer()
	b.ReportMetric(float64(packets)/b.Elapsed().Seconds(), "packets/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
}

// round moves one batch and returns its size.
func (w *world) round(out []ring.Buf, batch int) int {
	for i := range batch {
		if w.drv.Add(out, nil, uint32(i)) != nil {
			w.t.Fatal("ring full")
		}
	}
	w.drv.Publish()
	w.drv.NeedKick()
	for {
		ok, err := w.dev.Next(&w.c)
		if !ok {
			if err != nil {
				w.t.Fatal(err)
			}
			break
		}
		w.dev.Push(w.c.Head, 0)
	}
	w.dev.Publish()
	w.dev.NeedCall()
	n := 0
	for {
		if _, _, ok := w.drv.Reap(); !ok {
			return n
		}
		n++
	}
}

func BenchmarkRing(b *testing.B) {
	for _, f := range []virtio.Features{0, eventIdx, inOrder, packed, packed | eventIdx, packed | inOrder} {
		for _, batch := range []int{1, 32} {
			b.Run(fmt.Sprintf("%v/batch=%d", f, batch), func(b *testing.B) { benchmark(b, f, 1, batch) })
		}
	}
}

func BenchmarkRingDescs(b *testing.B) {
	for _, f := range []virtio.Features{eventIdx, eventIdx | indirect, packed, packed | indirect} {
		b.Run(fmt.Sprintf("%v/descs=3", f), func(b *testing.B) { benchmark(b, f, 3, 32) })
	}
}

// BenchmarkRingRearm is a device that sleeps after each packet: it enables kicks
// and looks again, and the driver asks for delayed calls.
func BenchmarkRingRearm(b *testing.B) {
	w := newWorld(b, 256, eventIdx)
	out := bufs(1500)
	packets := 0
	for b.Loop() {
		w.dev.DisableKicks()
		w.drv.DisableCalls()
		packets += w.round(out, 1)
		w.drv.EnableCallsDelayed()
		w.dev.EnableKicks()
	}
	b.ReportMetric(float64(packets)/b.Elapsed().Seconds(), "packets/s")
}
