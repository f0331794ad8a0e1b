package netdev_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// batch is the number of packets between two polls in benchmarks.
const batch = 32

// txLoop is a guest that sends batches of one prepared packet to a wire that
// discards it.
type txLoop struct {
	w    *world
	bufs []ring.Buf
}

func newTXLoop(t testing.TB, bufs func(w *world) []ring.Buf) *txLoop {
	w := newWorld(t, setup{wire: &wire{discard: true}})
	return &txLoop{w: w, bufs: bufs(w)}
}

// run sends n packets through driver, ring, device and sink.
func (l *txLoop) run(n int) { l.runOn(0, n) }

// runOn sends them on pair i; the loop's ring is that pair's.
func (l *txLoop) runOn(i, n int) {
	q, tx, w := l.w.tx[0], l.w.dev.Pair(i).TX, l.w
	for range n {
		if err := q.Add(l.bufs, nil, 7); err != nil {
			w.t.Fatal(err)
		}
	}
	q.Publish()
	if q.NeedKick() {
		tx.Kick(w.now, 1)
	}
	_, call, err := tx.Poll(w.now, netdev.Budget{})
	if err != nil {
		w.t.Fatal(err)
	}
	if call.Needed {
		tx.CallResult(w.now, nil)
	}
	tx.Rearm()
	for {
		if _, _, ok := q.Reap(); !ok {
			break
		}
	}
	w.now += 1000
}

// small is a 64-byte frame and its header in one buffer.
func small(w *world) []ring.Buf {
	s := fromGuest(0, 0)
	s.Timestamps = false
	s.Payload = make([]byte, 10)
	return w.store(append(w.encode(virtio.NetHdr{}), build(s)...))
}

// large is a 64 KB GSO packet as Linux lays it out: net header and frame
// headers in one buffer, payload in two.
func large(w *world) []ring.Buf {
	h, f := gso(fromGuest(0, 44*1448), 1448)
	hdr := len(f) - 44*1448
	return w.store(append(w.encode(h), f[:hdr]...), f[hdr:hdr+32768], f[hdr+32768:])
}

func BenchmarkNetdevTX(b *testing.B) {
	for _, c := range []struct {
		name string
		bufs func(*world) []ring.Buf
	}{{"64B", small}, {"GSO64K", large}} {
		b.Run(c.name, func(b *testing.B) {
			l := newTXLoop(b, c.bufs)
			l.run(batch)
			n := 0
			for b.Loop() {
				l.run(batch)
				n += batch
			}
			if got := l.w.dev.Pair(0).TX.Snapshot().Packets; got != uint64(n+batch) {
				b.Fatalf("device sent %d packets, want %d", got, n+batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/packet")
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "packets/s")
		})
	}
}

func BenchmarkNetdevRX(b *testing.B) {
	gsoHdr, gsoFrame := gso(toGuest(0, 44*1448), 1448)
	for _, c := range []struct {
		name  string
		hdr   virtio.NetHdr
		frame []byte
		how   string
	}{
		{"ACK", virtio.NetHdr{}, build(ackOf(toGuest(0, 0))), "deliver"},
		{"GSO64K-copied", gsoHdr, gsoFrame, "deliver"},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newWorld(b, setup{})
			l := newRXLoop(w)
			l.refill(len(l.bufs))
			n := 0
			for b.Loop() {
				w.giveQuick(c.how, &c.hdr, c.frame)
				l.turn()
				n++
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "packets/s")
		})
	}
}
