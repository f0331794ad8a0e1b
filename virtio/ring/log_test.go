package ring_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// logged lists the pages whose bits are set.
func logged(bitmap []byte) (pages []int) {
	for i := range 8 * len(bitmap) {
		if bitmap[i/8]>>(i%8)&1 != 0 {
			pages = append(pages, i)
		}
	}
	return pages
}

// changed lists the pages of the world's memory that differ from before.
func (w *world) changed(before []byte) (pages []int) {
	for at := 0; at < len(w.b); at += ring.LogPage {
		if !bytes.Equal(w.b[at:at+ring.LogPage], before[at:at+ring.LogPage]) {
			pages = append(pages, (memBase+at)/ring.LogPage)
		}
	}
	return pages
}

// newLogged makes a world whose device logs what it writes.
func newLogged(t *testing.T, size uint16, f virtio.Features) (w *world, bitmap []byte) {
	w = newWorld(t, size, f)
	bitmap = make([]byte, (memBase+memSize)/ring.LogPage/8)
	if err := w.dev.SetLog(ring.Log{Bitmap: bitmap, Ring: true, RingAddr: usedAt}); err != nil {
		t.Fatal(err)
	}
	return w, bitmap
}

// TestFault157LogMatchesWrites has a device write to random buffers, some across
// pages and regions, and compares the pages that changed with the log, bit by bit.
func TestFault157LogMatchesWrites(t *testing.T) {
	for _, f := range combinations(indirect, eventIdx, inOrder, packed) {
		rng := rand.New(rand.NewPCG(uint64(f), 5))
		w, bitmap := newLogged(t, 256, f)
		for round := range 40 {
			clear(bitmap)
			n := 1 + rng.IntN(20)
			for i := range n {
				var in []ring.Buf
				for range 1 + rng.IntN(3) {
					in = append(in, ring.Buf{Addr: dataAt + rng.Uint64N(1<<19), Len: 1 + rng.Uint32N(9000)})
				}
				if err := w.drv.Add(nil, in, uint32(i)); err != nil {
					t.Fatal(err)
				}
			}
			w.drv.Publish()
			before := bytes.Clone(w.b)
			for range n {
				head := w.take()
				left := rng.IntN(int(w.c.InLen) + 1)
				k := left
				for _, b := range w.c.In {
					m := min(k, len(b))
					for j := range b[:m] {
						b[j] = byte(round + 1)
					}
					k -= m
				}
				w.dev.Push(head, uint32(left))
			}
			w.dev.Publish()
			w.dev.EnableKicks()
			got := logged(bitmap)
			for _, page := range w.changed(before) {
				if bitmap[page/8]>>(page%8)&1 == 0 {
					t.Fatalf("%v: page %#x changed and is not logged, logged %#x", f, page, got)
				}
			}
			if extra := len(got) - len(w.changed(before)); extra > 3 {
				// The same bytes may be written once more: a page of the ring or two.
				t.Errorf("%v: %d pages logged, %d changed", f, len(got), len(w.changed(before)))
			}
			w.reap(n)
		}
		if n := w.dev.LogMissed(); n != 0 {
			t.Errorf("%v: %d pages missed", f, n)
		}
	}
}

// What is only read dirties the ring and nothing else.
func TestFault158LogOfTransmit(t *testing.T) {
	for _, f := range []virtio.Features{eventIdx, packed | eventIdx, packed | inOrder} {
		w, bitmap := newLogged(t, 64, f)
		w.add(60)
		w.serve(60)
		w.dev.EnableKicks()
		want := []int{usedAt / ring.LogPage}
		if w.dev.Packed() {
			want = []int{descAt / ring.LogPage, usedAt / ring.LogPage}
		}
		if diff := cmp.Diff(want, logged(bitmap)); diff != "" {
			t.Errorf("%v: pages -want +got\n%s", f, diff)
		}
		clear(bitmap)
		if err := w.dev.SetLog(ring.Log{Bitmap: bitmap}); err != nil {
			t.Fatal(err)
		}
		w.reap(60)
		w.add(5)
		w.serve(5)
		if got := logged(bitmap); got != nil {
			t.Errorf("%v: pages %v without the ring", f, got)
		}
	}
}

// The used ring is logged where the front-end says it lies, not where it is; over
// its end, both ends are.
func TestLogRingAddress(t *testing.T) {
	w := newWorldAt(t, 1024, 0, 1000)
	w.cfg.Log = ring.Log{Bitmap: make([]byte, 64), Ring: true, RingAddr: 0x3ffc}
	w.restart()
	w.add(30)
	w.serve(30) // elements 1000 to 1023 and 0 to 5
	if diff := cmp.Diff([]int{3, 4, 5}, logged(w.cfg.Log.Bitmap)); diff != "" {
		t.Errorf("pages -want +got\n%s", diff)
	}
}

// A log that is too short, or is for less memory than the guest has, takes no harm,
// and what it lacks is counted.
func TestFault156LogTooShort(t *testing.T) {
	for _, f := range []virtio.Features{0, packed} {
		w := newWorld(t, 8, f)
		guard := bytes.Repeat([]byte{0xaa}, 16)
		bitmap := guard[:4:4]
		clear(bitmap)
		w.cfg.Log = ring.Log{Bitmap: bitmap, Ring: true, RingAddr: 1<<64 - 8}
		w.restart()
		if err := w.drv.Add(nil, []ring.Buf{{Addr: dataAt, Len: 3 * ring.LogPage}}, 0); err != nil {
			t.Fatal(err)
		}
		w.drv.Publish()
		w.dev.Push(w.take(), 3*ring.LogPage)
		w.dev.Publish()
		if w.dev.LogMissed() < 3 || !bytes.Equal(guard[4:], bytes.Repeat([]byte{0xaa}, 12)) {
			t.Errorf("%v: %d missed, guard % x", f, w.dev.LogMissed(), guard)
		}
	}
}

// Logging begins and ends while the ring runs; a buffer across two regions is two
// ranges of pages that are next to each other.
func TestLogSwitchedWhileRunning(t *testing.T) {
	w := newWorld(t, 8, 0)
	mem := memory(t, shm.Region{GPA: memBase, Mem: w.b}, shm.Region{GPA: end, UVA: 1 << 40, Mem: make([]byte, 8192)})
	if err := w.dev.SetMemory(mem); err != nil {
		t.Fatal(err)
	}
	bitmap := make([]byte, (end+8192)/ring.LogPage/8+8)
	write := func() {
		if err := w.drv.Add(nil, []ring.Buf{{Addr: end - 1, Len: 4098}}, 0); err != nil {
			t.Fatal(err)
		}
		w.drv.Publish()
		w.dev.Push(w.take(), 4098)
		w.dev.Publish()
		w.reap(1)
	}
	write()
	if err := w.dev.SetLog(ring.Log{Bitmap: bitmap}); err != nil {
		t.Fatal(err)
	}
	write()
	if diff := cmp.Diff([]int{end/ring.LogPage - 1, end / ring.LogPage, end/ring.LogPage + 1}, logged(bitmap)); diff != "" {
		t.Errorf("pages -want +got\n%s", diff)
	}
	clear(bitmap)
	if err := w.dev.SetLog(ring.Log{}); err != nil {
		t.Fatal(err)
	}
	write()
	if got := logged(bitmap); got != nil {
		t.Errorf("pages %v after the end of logging", got)
	}
}

// Logging and recording cost no memory once their slices have grown.
func TestLogAndRecordDoNotAllocate(t *testing.T) {
	for _, f := range combinations(inOrder, packed) {
		w := newRecorded(t, 64, f)
		w.cfg.Log = ring.Log{Bitmap: make([]byte, (memBase+memSize)/ring.LogPage/8), Ring: true, RingAddr: usedAt}
		w.restart()
		in := bufs(1500, 100)
		n := testing.AllocsPerRun(200, func() {
			for range 8 {
				if w.drv.Add(nil, in, 1) != nil {
					t.Fatal("full")
				}
			}
			w.drv.Publish()
			for range 8 {
				w.dev.Push(w.take(), 1000)
			}
			w.dev.Publish()
			w.reap(8)
		})
		if n != 0 {
			t.Errorf("%v: %v allocations", f, n)
		}
	}
}
