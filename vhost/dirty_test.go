package vhost_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// ringKinds are the layouts of rings that the device offers.
func ringKinds() map[string]virtio.Features {
	kinds := map[string]virtio.Features{"split": everything}
	for name, more := range map[string]virtio.Features{
		"packed": virtio.FeatureRingPacked, "split in order": virtio.FeatureInOrder,
		"packed in order": virtio.FeatureRingPacked | virtio.FeatureInOrder,
	} {
		if netdev.DefaultFeatures.Has(more) {
			kinds[name] = everything | more
		}
	}
	return kinds
}

// loggedGuest is a guest with one pair and a log.
type loggedGuest struct {
	*frontend.Guest
	rx, tx *frontend.Ring
	log    *frontend.DirtyLog
}

func newLoggedGuest(w *world, f virtio.Features) *loggedGuest {
	w.t.Helper()
	g := w.dial()
	w.ok(g.Negotiate(f&^virtio.FeatureMTU, vhost.ProtocolOffer)) // frames of any length
	w.ok(g.ShareMemory())
	rx, err := g.AddRing(0, 256, 5000) // buffers begin anywhere in a page, and cross into others
	w.ok(err)
	w.ok(g.Start(rx, 0))
	out := &loggedGuest{Guest: g, rx: rx, tx: w.start(g, 1)}
	out.rx.Post()
	r := g.Memory.Region(0)
	out.log, err = frontend.NewDirtyLog(r.GPA + r.Size)
	w.ok(err)
	w.t.Cleanup(out.log.Close)
	w.ok(g.ShareLog(out.log))
	w.ok(g.SwitchLog(true))
	w.ok(g.Barrier())
	return out
}

// ringPages are the pages of a ring that a device writes.
func ringPages(r *frontend.Ring) map[uint64]bool {
	need := r.Config.BytesNeeded()
	pages := pagesOf(nil, r.Config.Used, need.Used)
	if r.Config.Packed() {
		pages = pagesOf(pages, r.Config.Desc, need.Desc)
	}
	return pages
}

// pagesOf adds the pages of n bytes to a set.
func pagesOf(set map[uint64]bool, gpa, n uint64) map[uint64]bool {
	if set == nil {
		set = make(map[uint64]bool)
	}
	for p := gpa &^ (frontend.PageSize - 1); n > 0 && p < gpa+n; p += frontend.PageSize {
		set[p] = true
	}
	return set
}

// TestFault157DirtyLogIsExact receives frames of random lengths with the log on
// and compares the log, bit by bit, with where the guest finds them.
func TestFault157DirtyLogIsExact(t *testing.T) {
	for name, features := range ringKinds() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			g := newLoggedGuest(w, features)
			rnd := rand.New(rand.NewPCG(1, 2))
			want := make(map[uint64]bool)
			for range 500 {
				w.ports[0].deliver(frameOf(60+rnd.IntN(12000), 1))
				var token, n uint32
				w.eventually("a frame is received", func() (ok bool) {
					token, n, ok = g.rx.Done()
					return ok
				})
				for more := g.rx.Buffer(token)[10]; ; more-- {
					want = pagesOf(want, g.rx.BufferGPA(token), uint64(n))
					if more <= 1 {
						break
					}
					w.eventually("the rest is received", func() (ok bool) {
						token, n, ok = g.rx.Done()
						return ok
					})
				}
				g.rx.Post()
				g.rx.Notify()
			}
			_, err := g.Stop(0)
			w.ok(err)
			ring := ringPages(g.rx)
			var extra, missing []uint64
			got := g.log.Pages()
			for _, p := range got {
				if !want[p] && !ring[p] && !ringPages(g.tx)[p] {
					extra = append(extra, p)
				}
			}
			for p := range want {
				if !slices.Contains(got, p) {
					missing = append(missing, p)
				}
			}
			if len(extra)+len(missing) > 0 {
				t.Errorf("of %d pages %d are missing, %d too many: %#x", len(want), len(missing), len(extra), extra)
			}
			if !slices.ContainsFunc(got, func(p uint64) bool { return ring[p] }) {
				t.Error("the ring is not in the log")
			}
		})
	}
}

// TestFault158TransmitIsNotLogged sends, which writes to nothing but the ring.
func TestFault158TransmitIsNotLogged(t *testing.T) {
	for name, features := range ringKinds() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			g := newLoggedGuest(w, features)
			w.send(g.tx, 1000)
			ring := ringPages(g.tx)
			n := 0
			for _, p := range g.log.Pages() {
				if ring[p] {
					n++
				} else if !ringPages(g.rx)[p] {
					t.Errorf("page %#x is in the log", p)
				}
			}
			if n == 0 {
				t.Error("the ring is not in the log")
			}
		})
	}
}

// TestFault160LogBeforeAnswer stops a ring and looks at the log at once: the last
// bit is there when the answer is.
func TestFault160LogBeforeAnswer(t *testing.T) {
	for range 50 {
		w := newWorld(t, 1)
		g := newLoggedGuest(w, everything)
		g.log.Clear()
		for range 8 {
			w.ports[0].deliver(frameOf(3000, 1))
		}
		_, err := g.Stop(0)
		w.ok(err)
		got := make(map[uint64]bool)
		for _, p := range g.log.Pages() {
			got[p] = true
		}
		for {
			token, n, ok := g.rx.Done()
			if !ok {
				break
			}
			for p := range pagesOf(nil, g.rx.BufferGPA(token), uint64(n)) {
				if !got[p] {
					t.Fatalf("page %#x is written and not in the log", p)
				}
			}
		}
		g.Close()
	}
}

// TestFault156LogTooSmall has a log that ends below the guest's memory: what lies
// beyond is not written to, and nothing else either.
func TestFault156LogTooSmall(t *testing.T) {
	w := newWorld(t, 1)
	g := newLoggedGuest(w, everything)
	small, err := frontend.NewDirtyLog(0)
	w.ok(err)
	t.Cleanup(small.Close)
	w.ok(g.ShareLog(small)) // 4096 bytes: 128 MiB
	for _, v := range []wire.LogArea{{Size: 1<<64 - 1, Offset: 2}, {Size: 1 << 40}, {Size: 4096, Offset: 1}, {}} {
		p, err := g.Ask(wire.SetLogBase, v, g.Memory.FD(0))
		if err == nil && p == wire.U64(0) {
			t.Errorf("log %+v was taken", v)
		}
		if err != nil { // without a wish for an answer it ends the session
			g.Close()
			g = newLoggedGuest(w, everything)
		}
	}
	tiny, err := osio.Memfd("tiny log", 4096)
	w.ok(err)
	t.Cleanup(func() { osio.Close(tiny) })
	if p, err := g.Ask(wire.SetLogBase, wire.LogArea{Size: 64}, tiny); err != nil || p != wire.U64(0) {
		t.Fatalf("a log that ends before the guest's memory: %v, %v", p, err)
	}
	w.ports[0].deliver(frameOf(100, 1))
	if f := w.receive(g.rx); len(f) != virtio.NetHdrLen+100 {
		t.Errorf("received %d bytes", len(f))
	}
}

// TestFault161UnusedRings has rings without addresses: a log is taken and used
// all the same.
func TestFault161UnusedRings(t *testing.T) {
	w := newWorld(t, 4)
	g := newLoggedGuest(w, everything)
	for i := 2; i < 8; i++ { // with no address, of a ring that the guest does not use
		w.ok(g.Tell(wire.SetVringAddr, wire.VringAddr{Index: uint32(i), Flags: 1}))
	}
	w.send(g.tx, 100)
	if len(g.log.Pages()) == 0 {
		t.Error("nothing is in the log")
	}
}

// TestLogSwitchesUnderTraffic switches the log on, off and to another memory
// while frames come, and compares what changed with what was logged in between.
func TestLogSwitchesUnderTraffic(t *testing.T) {
	w := newWorld(t, 1)
	g := newLoggedGuest(w, everything)
	for i := range 20 {
		w.ok(g.SwitchLog(i%2 == 1))
		w.ok(g.Barrier())
		g.log.Clear()
		w.ports[0].deliver(frameOf(2000, byte(i)))
		if f := w.receive(g.rx); f[virtio.NetHdrLen+14] != byte(i) {
			t.Fatalf("frame %d has tag %d", i, f[virtio.NetHdrLen+14])
		}
		g.rx.Post()
		g.rx.Notify()
		if got := len(g.log.Pages()); (got > 0) != (i%2 == 1) {
			t.Errorf("round %d: %d pages in the log", i, got)
		}
		if i == 10 {
			other, err := frontend.NewDirtyLog(1 << 30)
			w.ok(err)
			t.Cleanup(other.Close)
			w.ok(g.ShareLog(other))
			g.log = other
		}
	}
}

// TestLogDescriptor is told by a descriptor that pages were logged.
func TestLogDescriptor(t *testing.T) {
	w := newWorld(t, 1)
	g := newLoggedGuest(w, everything)
	fd := eventfds(t, 1)[0]
	w.ok(g.Demand(wire.SetLogFD, wire.Empty{}, fd))
	w.send(g.tx, 1)
	w.eventually("the log's descriptor is written to", func() bool { return readCount(fd) > 0 })
	w.ok(g.SwitchLog(false))
	w.ok(g.Barrier())
	readCount(fd)
	w.send(g.tx, 10)
	time.Sleep(10 * time.Millisecond)
	if n := readCount(fd); n != 0 {
		t.Errorf("told %d times without a log", n)
	}
	if d := cmp.Diff(0, int(w.lastStats().Refused)); d != "" {
		t.Errorf("refused: %s", d)
	}
}
