package netdev_test

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// moody is a port whose answers are drawn from a seed.
type moody struct {
	rng   *rand.Rand
	wire  wire
	later []netdev.Token
	look  *netdev.TX // whose Frame it asks for, now and then
	found []frame.Info
}

func (p *moody) Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, tok netdev.Token) (vtime.Time, netdev.SendResult) {
	p.wire.result, p.wire.delay = netdev.Sent, 0
	switch p.rng.IntN(40) {
	case 0:
		return 0, netdev.Full
	case 1:
		p.wire.result = netdev.Later
		p.later = append(p.later, tok)
	case 2:
		p.wire.delay = vtime.Time(p.rng.IntN(3000))
	case 3:
		info, _ := p.look.Frame()
		found := *info
		found.End = 0 // depends on how much of the frame is in one piece
		p.found = append(p.found, found)
	}
	return p.wire.Send(now, h, iov, tok)
}

func (p *moody) Flush(now vtime.Time) { p.wire.Flush(now) }

// oddFrame is a frame of a guest with its net header: TCP or not, with offloads
// or not, right or wrong.
func oddFrame(rng *rand.Rand) []byte {
	h := make([]byte, virtio.NetHdrLen)
	spec := fromGuest(rng.IntN(3), rng.IntN(1400))
	f := build(spec)
	switch rng.IntN(10) {
	case 0:
		f = f[:rng.IntN(len(f))]
	case 1: // UDP, or another protocol
		f[23] = byte(rng.IntN(20))
	case 2:
		f[12], f[13] = byte(rng.IntN(10)), byte(rng.IntN(10))
	case 3:
		hdr, g := gso(fromGuest(0, 8000), 1448)
		hdr.Encode(h)
		f = g
	case 4:
		h[0] = byte(rng.IntN(4))
		h[6] = byte(rng.IntN(256))
	case 5:
		h[1] = byte(rng.IntN(6))
	case 6:
		f = append(f, make([]byte, 70000)...)
	case 7:
		spec.VLAN = 5
		f = build(spec)
	}
	return append(h, f...)
}

// TestTogetherAndAlone sends the same frames through two devices, one of whose
// guests puts each into one descriptor, so that they are taken together, and
// the other into two, so that each is taken alone. What the ports get, what they
// are answered and what is counted is the same.
func TestTogetherAndAlone(t *testing.T) {
	for seed := range uint64(60) {
		a, b := runOdd(t, seed, false), runOdd(t, seed, true)
		if d := cmp.Diff(a, b); d != "" {
			t.Fatalf("seed %d: together (-) and alone (+) differ:\n%s", seed, d)
		}
	}
}

// oddRun is what there is to see of a device.
type oddRun struct {
	Stats  netdev.Stats
	Work   netdev.Work
	Frames []uint32 // their checksums
	Found  []frame.Info
	Reaped []int
}

func runOdd(t *testing.T, seed uint64, apart bool) oddRun {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	s := setup{cfg: netdev.Config{QueuePairs: 1 + int(seed%2)}}
	if seed%4 < 2 {
		s.off = virtio.FeatureMTU
	}
	if seed%5 == 0 {
		s.cfg.Policy = netdev.Policy{HoldPackets: 3, HoldTime: 1000}
	}
	w := newWorld(t, s)
	p := &moody{rng: rand.New(rand.NewPCG(seed, 2)), look: w.dev.Pair(0).TX}
	w.dev.Pair(0).SetPort(p)
	var r oddRun
	for range 30 {
		w.top = memBase + 8<<20 // the frames of the last round are gone
		for range rng.IntN(50) {
			f := oddFrame(rng)
			cut := len(f) / 2
			if apart && cut > 0 {
				w.tryTX(f[:cut], f[cut:])
			} else {
				w.tryTX(f)
			}
		}
		if rng.IntN(2) == 0 {
			w.kick(0)
		}
		for range 3 {
			work, _ := w.pollTX(0, netdev.Budget{Packets: rng.IntN(70), Bytes: rng.IntN(20_000)})
			r.Work.Add(work)
			w.now += vtime.Time(rng.IntN(500))
			w.dev.Pair(0).TX.Writable(w.now)
		}
		for _, tok := range p.later {
			w.dev.Pair(0).TX.Complete(tok, w.now)
		}
		p.later = p.later[:0]
		for tx := w.dev.Pair(0).TX; tx.Next(w.now) != vtime.Never || tx.Rearm(); { // until the ring is empty
			w.now = max(w.now, min(tx.Next(w.now), w.now+5000))
			work, _ := w.pollTX(0, netdev.Budget{})
			r.Work.Add(work)
			tx.Writable(w.now)
			for _, tok := range p.later {
				tx.Complete(tok, w.now)
			}
			p.later = p.later[:0]
		}
		r.Reaped = append(r.Reaped, w.reap(w.tx[0]))
	}
	r.Stats, r.Found = w.dev.Pair(0).TX.Snapshot(), p.found
	for _, f := range p.wire.frames {
		r.Frames = append(r.Frames, crc32.ChecksumIEEE(f))
	}
	r.Stats.Descs, r.Work.Descs = 0, 0 // the one thing that differs
	return r
}

// tryTX makes a frame available unless the ring is full.
func (w *world) tryTX(pieces ...[]byte) {
	if w.tx[0].Add(w.store(pieces...), nil, 0) == nil {
		w.tx[0].Publish()
	}
}
