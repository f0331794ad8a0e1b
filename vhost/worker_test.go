package vhost_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/hostnet/sink"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// burst sends n frames of the ring's and waits, without sleeping, until all
// buffers are back.
func burst(r *frontend.Ring, f []byte, n int) {
	var h virtio.NetHdr
	for range n {
		r.Transmit(&h, f)
	}
	r.Notify()
	for back := 0; back < n; {
		if _, _, ok := r.Done(); ok {
			back++
			continue
		}
		runtime.Gosched()
	}
}

// sinkWorld is a world whose ports are sinks.
func sinkWorld(t testing.TB) *world {
	return newWorld(t, 1, func(c *vhost.Config) { c.Ports[0] = &sink.Port{} })
}

// TestNothingAllocatesPerPacket sends packets through eventfd, worker, ring,
// device and sink; the count is that of the whole process.
func TestNothingAllocatesPerPacket(t *testing.T) {
	w := sinkWorld(t)
	g := w.connect()
	tx := w.start(g, 1)
	f := frameOf(1000, 1)
	tx.DisableCalls()
	burst(tx, f, 200)
	if n := testing.AllocsPerRun(50, func() { burst(tx, f, 64) }); n != 0 {
		t.Errorf("%v allocations for 64 packets", n)
	}
}

// TestHeldCompletionsHaveADeadline has the policy hold more packets than there
// are; they come back when their time is over, without another kick.
func TestHeldCompletionsHaveADeadline(t *testing.T) {
	w := newWorld(t, 1, func(c *vhost.Config) {
		c.Device.Policy = netdev.Policy{HoldPackets: 64, HoldTime: 20 * time.Millisecond}
	})
	g := w.connect()
	tx := w.start(g, 1)
	start := time.Now()
	for range 8 {
		tx.Transmit(&virtio.NetHdr{}, frameOf(100, 1))
	}
	tx.Notify()
	if n := tx.Drain(8, 5*time.Second); n != 8 {
		t.Fatalf("%d of 8 buffers came back", n)
	}
	if d := time.Since(start); d < 20*time.Millisecond {
		t.Errorf("they came back after %v", d)
	}
	if s := w.srv.Stats().Pairs[0].TX; s.CallsSuppressed[netdev.CallHold] == 0 {
		t.Errorf("calls suppressed: %v", s.CallsSuppressed)
	}
}

// TestKicksAreCountedExactly compares what the driver sent with what the device
// counted, with and without event indices, in many small bursts.
func TestKicksAreCountedExactly(t *testing.T) {
	for _, features := range []virtio.Features{everything, everything &^ virtio.FeatureEventIdx} {
		w := newWorld(t, 1)
		g := w.dial()
		w.ok(g.Negotiate(features, vhost.ProtocolOffer))
		w.ok(g.ShareMemory())
		tx := w.start(g, 1)
		for i := range 2000 {
			for range 1 + i%7 {
				tx.Transmit(&virtio.NetHdr{}, frameOf(100, 1))
				tx.Notify()
			}
			if want := tx.Outstanding(); tx.Drain(want, 5*time.Second) != want {
				t.Fatalf("burst %d: %d buffers are missing", i, tx.Outstanding())
			}
		}
		s := w.srv.Stats().Pairs[0].TX
		if s.Kicks != tx.Kicks || s.Kicks != s.Wakes+s.KicksCoalesced {
			t.Errorf("%d kicks sent, %d counted: %d wakes, %d coalesced", tx.Kicks, s.Kicks, s.Wakes, s.KicksCoalesced)
		}
		if s.Kicks == 0 || s.Kicks > s.Packets {
			t.Errorf("%d kicks for %d packets", s.Kicks, s.Packets)
		}
	}
}

// BenchmarkBackendTX is a driver and the back-end on a thread each: packets of
// 1000 bytes, 128 at a time.
func BenchmarkBackendTX(b *testing.B) {
	w := sinkWorld(b)
	g := w.connect()
	tx := w.start(g, 1)
	f := frameOf(1000, 1)
	tx.DisableCalls()
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= 128 {
		burst(tx, f, min(left, 128))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packets/s")
}
