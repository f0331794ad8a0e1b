package netdev_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// TestTXAllocs: a packet through driver, ring, device and sink allocates
// nothing, with each of the ways to complete it and with steering.
func TestTXAllocs(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  netdev.Config
		off  virtio.Features
		wire wire
		bufs func(*world) []ring.Buf
	}{
		{"small", netdev.Config{}, 0, wire{}, small},
		{"gso", netdev.Config{}, 0, wire{}, large},
		{"gso without indirect", netdev.Config{}, virtio.FeatureIndirectDesc, wire{}, large},
		{"steered", netdev.Config{QueuePairs: 4}, 0, wire{}, large},
		{"held", netdev.Config{Policy: netdev.Policy{HoldPackets: 3, HoldTime: 10}}, 0, wire{}, small},
		{"merge", netdev.Config{Policy: netdev.Policy{Merge: true}}, 0, wire{}, small},
		{"poll", netdev.Config{Policy: netdev.Policy{PollTime: 100}}, 0, wire{}, small},
		{"adaptive", netdev.Config{Policy: netdev.Policy{Adaptive: true}}, 0, wire{}, small},
		{"full", netdev.Config{}, 0, wire{room: 1000}, small},
	} {
		w := newWorld(t, setup{cfg: c.cfg, off: c.off, wire: &c.wire})
		w.wire.discard = true
		l := &txLoop{w: w, bufs: c.bufs(w)}
		tx := w.dev.Pair(0).TX
		step := func() {
			l.run(2)
			if tx.Blocked() {
				w.wire.room += 1000
				tx.Writable(w.now)
			}
		}
		step()
		if n := testing.AllocsPerRun(2000, step); n != 0 {
			t.Errorf("%s: %v allocations per two packets, want 0", c.name, n)
		}
		if s := tx.Snapshot(); s.Packets < 4000 || s.Drops.Total() != 0 {
			t.Errorf("%s: only %d packets, drops %s", c.name, s.Packets, marshal(t, s.Drops))
		}
	}
}

// rxLoop is a guest that offers its buffers in turn, again and again.
type rxLoop struct {
	w    *world
	bufs []ring.Buf
	next int
}

func newRXLoop(w *world) *rxLoop {
	l := &rxLoop{w: w}
	for range 100 {
		l.bufs = append(l.bufs, w.store(make([]byte, 1600))...)
	}
	return l
}

// refill offers n buffers.
func (l *rxLoop) refill(n int) {
	q := l.w.rx[0]
	for range n {
		i := l.next % len(l.bufs)
		l.next++
		if err := q.Add(nil, l.bufs[i:i+1], 0); err != nil {
			l.w.t.Fatal(err)
		}
	}
	q.Publish()
	if q.NeedKick() {
		l.w.dev.Pair(0).RX.Kick(l.w.now, 1)
	}
}

// turn polls the device and offers what it used again.
func (l *rxLoop) turn() {
	rx := l.w.dev.Pair(0).RX
	_, call, err := rx.Poll(l.w.now, netdev.Budget{})
	if err != nil {
		l.w.t.Fatal(err)
	}
	if call.Needed {
		rx.CallResult(l.w.now, nil)
	}
	n := 0
	for {
		if _, _, ok := l.w.rx[0].Reap(); !ok {
			break
		}
		n++
	}
	l.refill(n)
}

// TestRXAllocs: a frame for the guest allocates nothing, whichever way it goes.
func TestRXAllocs(t *testing.T) {
	gsoHdr, gsoFrame := gso(toGuest(0, 40*1448), 1448)
	ack := build(ackOf(toGuest(0, 0)))
	tso := virtio.FeatureGuestTSO4 | virtio.FeatureGuestTSO6 | virtio.FeatureGuestECN
	for _, c := range []struct {
		name  string
		off   virtio.Features
		hdr   virtio.NetHdr
		frame []byte
		how   string
	}{
		{"ack", 0, virtio.NetHdr{}, ack, "deliver"},
		{"merged", 0, gsoHdr, gsoFrame, "deliver"},
		{"committed", 0, gsoHdr, gsoFrame, "commit"},
		{"committed without merging", virtio.FeatureMrgRxBuf, virtio.NetHdr{}, ack, "commit"},
		{"checksum completed", virtio.FeatureGuestCSum | tso, virtio.NetHdr{Flags: virtio.HdrNeedsCSum, CSumStart: 34, CSumOffset: 16}, ack, "deliver"},
		{"segmented", tso, gsoHdr, gsoFrame, "deliver"},
	} {
		w := newWorld(t, setup{off: c.off})
		l := newRXLoop(w)
		l.refill(len(l.bufs))
		step := func() {
			w.giveQuick(c.how, &c.hdr, c.frame)
			l.turn()
		}
		step()
		if n := testing.AllocsPerRun(500, step); n != 0 {
			t.Errorf("%s: %v allocations a frame, want 0", c.name, n)
		}
		if s := w.dev.Pair(0).RX.Snapshot(); s.Packets < 500 || s.Drops.Total() != 0 {
			t.Errorf("%s: only %d packets, drops %s", c.name, s.Packets, marshal(t, s.Drops))
		}
	}
}

// giveQuick gives a frame to RX queue 0 without the help that allocates.
func (w *world) giveQuick(how string, h *virtio.NetHdr, f []byte) {
	rx := w.dev.Pair(0).RX
	if how == "deliver" {
		rx.Deliver(w.now, h, f)
		return
	}
	iov, ok := rx.Reserve(65550)
	if !ok {
		w.t.Fatal("no reservation")
	}
	rest := f
	for _, p := range iov {
		rest = rest[copy(p, rest):]
	}
	rx.Commit(len(f), h)
}

// TestSpillAllocs: once the spill is there, waiting allocates nothing.
func TestSpillAllocs(t *testing.T) {
	w := newWorld(t, setup{})
	l := newRXLoop(w)
	rx, ack := w.dev.Pair(0).RX, build(ackOf(toGuest(0, 0)))
	step := func() {
		for range 5 {
			w.giveQuick("deliver", &virtio.NetHdr{}, ack)
		}
		rx.Rearm()
		l.refill(5)
		w.pollRX(0)
		if n := w.reap(w.rx[0]); n != 5 {
			t.Fatalf("%d frames arrived, want 5", n)
		}
	}
	step()
	if n := testing.AllocsPerRun(500, step); n != 0 {
		t.Errorf("%v allocations per five frames, want 0", n)
	}
	if s := rx.Snapshot(); s.Spilled != s.Packets || s.Spilled < 2500 {
		t.Errorf("%d of %d frames waited, want all", s.Spilled, s.Packets)
	}
}
