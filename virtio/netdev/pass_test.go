package netdev_test

import (
	"sync"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// hashed builds frames as the guest of rssWorld receives them, of one flow for
// each pair of a table.
func hashed(table []uint16, pairs int) (frames [][]byte) {
	var h frame.Toeplitz
	h.SetKey(rssKey)
	frames = make([][]byte, pairs)
	for flow := range 1000 {
		f := build(toGuest(flow, 100))
		var in frame.Info
		frame.Parse(f, &in)
		sum, _ := h.Hash(f, &in, frame.HashTCPv4)
		if i := table[int(sum)%len(table)]; frames[i] == nil {
			frames[i] = f
		}
	}
	return frames
}

// TestPassOn: a frame that comes in at the wrong pair is received by the one that
// the guest's table says, whichever way the port delivers it.
func TestPassOn(t *testing.T) {
	table := []uint16{0, 1, 2, 3}
	w := rssWorld(t)
	w.command(rssConfig(frame.HashAll, table, 0, 4, rssKey))
	for i, f := range hashed(table, 4) {
		for _, how := range []string{"deliver", "commit"} {
			w.offer(0, 2, 2048)
			w.offer(i, 2, 2048)
			if r := w.give(how, virtio.NetHdr{}, f); r != netdev.DropNone {
				t.Fatalf("pair %d by %s: %v", i, how, r)
			}
			want := i
			if i == 0 {
				want = -1
			}
			if got := w.dev.NextPassed(); got != want || w.dev.NextPassed() != -1 {
				t.Errorf("pair %d has frames, want %d, once", got, want)
			}
			if i > 0 && w.dev.Pair(i).RX.Next(w.now) != w.now {
				t.Errorf("pair %d does not want to be polled", i)
			}
			w.pollRX(i)
			b, n, ok := w.reapRX(w.rx[i])
			if !ok || string(b[virtio.HashNetHdrLen:n]) != string(f) {
				t.Errorf("pair %d by %s: received %d bytes %v", i, how, n, ok)
			}
		}
	}
	if s := w.dev.Pair(0).RX.Snapshot(); s.Passed != 6 || s.Packets != 2 {
		t.Errorf("pair 0 passed %d frames on and received %d, want 6 and 2", s.Passed, s.Packets)
	}
}

// TestPassOnBounded: a pair that nobody polls gets 64 frames, and the others are
// dropped and counted; a pair that stops drops what it was given.
func TestPassOnBounded(t *testing.T) {
	table := []uint16{1, 1}
	w := rssWorld(t)
	w.command(rssConfig(frame.HashAll, table, 0, 4, rssKey))
	f := hashed(table, 4)[1]
	for range 100 {
		w.dev.Pair(0).RX.Deliver(w.now, &virtio.NetHdr{}, f)
	}
	if s := w.dev.Pair(0).RX.Snapshot(); s.Passed != 64 || s.Drops[netdev.DropNoBuffers] != 36 {
		t.Errorf("%d passed on, drops %s", s.Passed, marshal(t, s.Drops))
	}
	w.dev.Pair(1).DetachRX(w.now)
	if s := w.dev.Pair(1).RX.Snapshot(); s.Drops[netdev.DropStopped] != 64 {
		t.Errorf("drops %s", marshal(t, s.Drops))
	}
	if r := w.dev.Pair(0).RX.Deliver(w.now, &virtio.NetHdr{}, f); r != netdev.DropStopped {
		t.Errorf("to a pair that is stopped: %v", r)
	}
}

// TestPassOnConcurrently: every pair gets frames of all flows on a goroutine of
// its own, and each frame is received once, by the right pair.
func TestPassOnConcurrently(t *testing.T) {
	const rounds = 400
	table := []uint16{0, 1, 2, 3}
	w := rssWorld(t)
	w.command(rssConfig(frame.HashAll, table, 0, 4, rssKey))
	frames := hashed(table, 4)
	for i := range 4 {
		w.offer(i, 255, 256)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			rx := w.dev.Pair(i).RX
			for n := range rounds {
				rx.Deliver(vtime.Time(n), &virtio.NetHdr{}, frames[n%4])
				rx.Poll(vtime.Time(n), netdev.Budget{})
				for w.dev.NextPassed() >= 0 {
				}
			}
		})
	}
	wg.Wait()
	var total netdev.Stats
	for i := range 4 {
		w.dev.Pair(i).RX.Poll(w.now, netdev.Budget{})
		s := w.dev.Pair(i).RX.Snapshot()
		total.Merge(&s)
	}
	got := total.Packets + total.Drops[netdev.DropNoBuffers] + uint64(w.waiting())
	if got != 4*rounds || total.Passed == 0 {
		t.Errorf("%d of %d frames are accounted for: %d received, drops %s", got, 4*rounds, total.Packets, marshal(t, total.Drops))
	}
}

// waiting is the number of frames that wait for buffers.
func (w *world) waiting() (n int) {
	for i := range w.dev.Pairs() {
		n += w.dev.Pair(i).RX.Waiting()
	}
	return n
}
