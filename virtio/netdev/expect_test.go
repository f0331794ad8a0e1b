package netdev_test

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// oddReceived is what there is to see of a receive queue.
type oddReceived struct {
	Stats   netdev.Stats
	Work    netdev.Work
	Results []netdev.DropReason
	Frames  []uint32 // checksums of what the guest got
	Lens    [][]uint32
	Base    uint16 // where the ring would go on
	InRing  []uint16
}

// runReceive has a port deliver odd frames to a guest that posts buffers of odd
// sizes, and stops the queue now and then.
func runReceive(t *testing.T, seed uint64, expect bool) oddReceived {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	s := setup{off: virtio.FeatureIndirectDesc, size: 1024}
	if seed%2 == 0 {
		s.off |= virtio.FeatureMrgRxBuf
	}
	if seed%3 == 0 {
		s.off |= virtio.FeatureMTU
	}
	if seed%5 == 0 {
		s.off |= virtio.FeatureGuestCSum | virtio.FeatureGuestTSO4 | virtio.FeatureGuestTSO6
	}
	w := newWorld(t, s)
	rx := w.dev.Pair(0).RX
	var r oddReceived
	for range 40 {
		for range rng.IntN(12) {
			sizes := []int{300, 2000, 2000, 2000}
			if seed%4 == 0 {
				sizes[0] = 8 // no room for a net header
			}
			w.offer(0, 1, sizes[rng.IntN(4)])
		}
		if rng.IntN(2) == 0 {
			w.dev.Pair(0).Kick(w.now, netdev.DirRX, 1)
		}
		n := rng.IntN(12)
		if expect {
			rx.Expect(rng.IntN(2 * (n + 1)))
		} else {
			rng.IntN(2 * (n + 1))
		}
		for range n {
			f := oddFrame(rng)
			var h virtio.NetHdr
			h.Decode(f)
			if f = f[virtio.NetHdrLen:]; len(f) > 60_000 {
				f = f[:1400]
			}
			if rng.IntN(8) == 0 {
				if iov, ok := rx.Reserve(len(f)); ok {
					for rest := f; len(rest) > 0; iov = iov[1:] {
						rest = rest[copy(iov[0], rest):]
					}
					r.Results = append(r.Results, rx.Commit(len(f), &h))
				}
				continue
			}
			r.Results = append(r.Results, rx.Deliver(w.now, &h, f))
		}
		w.now += vtime.Time(rng.IntN(1000))
		work, _ := w.pollRX(0)
		r.Work.Add(work)
		for _, got := range w.receiveAny(0) {
			r.Frames = append(r.Frames, crc32.ChecksumIEEE(got.frame))
			r.Lens = append(r.Lens, got.lens)
		}
		if rng.IntN(10) == 0 {
			q, _ := w.dev.Pair(0).DetachRX(w.now)
			r.InRing = append(r.InRing, q.NextAvail(), q.InFlight())
			w.receiveAny(0)
			w.rx[0].cfg.Base = uint32(q.NextAvail())
			w.dev.Pair(0).AttachRX(w.now, w.device(w.rx[0]))
		}
	}
	r.Stats = rx.Snapshot()
	return r
}

// receiveAny reaps frames, and buffers that came back empty.
func (w *world) receiveAny(i int) (all []received) {
	w.t.Helper()
	q := w.rx[i]
	for {
		b, n, ok := w.reapRX(q)
		if !ok {
			return all
		}
		r := received{lens: []uint32{n}, frame: append([]byte(nil), b...)}
		all = append(all, r)
	}
}

// TestExpect delivers the same odd frames to two guests; one port says before
// how many it has. The guests see the same, and the same is counted.
func TestExpect(t *testing.T) {
	for seed := range uint64(60) {
		a, b := runReceive(t, seed, true), runReceive(t, seed, false)
		for _, s := range []*netdev.Stats{&a.Stats, &b.Stats} {
			s.KickToUsed = netdev.Hist{} // buffers that are held make a ring not empty
			if seed%4 == 0 {
				// A chain that cannot be used goes back right behind the one before
				// it, so that it may come with another call.
				s.Calls, s.PacketsPerKick, s.PacketsPerCall, s.UsedToCall = 0, netdev.Hist{}, netdev.Hist{}, netdev.Hist{}
			}
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Fatalf("seed %d: with (-) and without (+) Expect differ:\n%s", seed, d)
		}
	}
}

// TestExpectAllocs delivers into buffers taken ahead.
func TestExpectAllocs(t *testing.T) {
	w := newWorld(t, setup{})
	l := newRXLoop(w)
	l.refill(len(l.bufs))
	f := build(toGuest(0, 0))
	var h virtio.NetHdr
	rx := w.dev.Pair(0).RX
	round := func() {
		rx.Expect(8)
		for range 8 {
			rx.Deliver(w.now, &h, f)
			l.turn()
		}
	}
	round()
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations for 8 frames", n)
	}
}
