package ring_test

import (
	"math"
	"testing"

	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// offerPacked writes descriptors from the device's next position on and makes them
// available, past the driver.
func (w *world) offerPacked(d ...pdesc) {
	next := uint16(w.dev.Base())
	for i := range d {
		flags := d[i].flags
		if next&0x8000 != 0 {
			flags |= fAvail
		} else {
			flags |= fUsed
		}
		w.setPdesc(descAt, int(next&0x7fff), pdesc{d[i].addr, d[i].len, d[i].id, flags})
		if next++; next&0x7fff == w.cfg.Size {
			next = (next - w.cfg.Size) ^ 0x8000
		}
	}
}

// wantPackedFault takes a chain that must be refused for this reason, gives it
// back by its number, and takes a good one.
func (w *world) wantPackedFault(want ring.Fault, id uint16) {
	w.t.Helper()
	before := w.dev.Base()
	ok, err := w.dev.Next(&w.c)
	if ok || err != error(want) || !w.c.HasHead {
		w.t.Errorf("Next: %v, %v, head %v; want %v", ok, err, w.c.HasHead, want)
		return
	}
	at := int(before >> 16 & 0x7fff)
	w.dev.Push(w.c.Head, 0)
	w.dev.Publish()
	if got := w.pdesc(at); got.id != id || got.len != 0 || got.flags&fWrite != 0 {
		w.t.Errorf("%v: used element %+v, want id %d", want, got, id)
	}
	if got := w.dev.Base(); got == before || uint16(got) != uint16(got>>16) {
		w.t.Errorf("%v: base %#x, was %#x", want, got, before)
	}
	w.offerPacked(pdesc{dataAt, 10, 99, 0})
	if w.take(); w.c.OutLen != 10 {
		w.t.Errorf("good chain after %v: %+v", want, w.c)
	}
	w.dev.Push(w.c.Head, 0)
	w.dev.Publish()
}

// refusedPacked are chains of a packed ring that break a rule: chain in the ring,
// inner in a table at tablesAt.
var refusedPacked = []struct {
	name         string
	chain, inner []pdesc
	want         ring.Fault
}{
	{"length 0", []pdesc{{dataAt, 0, 7, 0}}, nil, ring.ErrZeroLen},
	{"length 0 at an unmapped address", []pdesc{{math.MaxUint64, 0, 7, 0}}, nil, ring.ErrZeroLen},
	{"length 0 first in a chain", []pdesc{{dataAt, 0, 1, fNext}, {dataAt, 5, 2, fNext}, {dataAt, 5, 7, fWrite}}, nil, ring.ErrZeroLen},
	{"address 0", []pdesc{{0, 1, 7, 0}}, nil, ring.ErrBadAddress},
	{"behind the memory", []pdesc{{end, 1, 7, 0}}, nil, ring.ErrBadAddress},
	{"across the end", []pdesc{{end - 1, 2, 7, fWrite}}, nil, ring.ErrBadAddress},
	{"address overflow", []pdesc{{math.MaxUint64 - 9, 100, 7, 0}}, nil, ring.ErrAddrOverflow},
	{"readable after writable", []pdesc{{dataAt, 1, 1, fNext | fWrite}, {dataAt, 1, 7, 0}}, nil, ring.ErrOrder},
	{"4 GiB in all", []pdesc{{dataAt, 16, 1, fNext}, {dataAt, math.MaxUint32 - 15, 7, 0}}, nil, ring.ErrTooLong},
	{"indirect of length 0", []pdesc{{tablesAt, 0, 7, fIndirect}}, nil, ring.ErrIndirectLen},
	{"indirect of 24 bytes", []pdesc{{tablesAt, 24, 7, fIndirect}}, nil, ring.ErrIndirectLen},
	{"indirect of 1 MiB and more", []pdesc{{tablesAt, 1<<20 + 16, 7, fIndirect}}, nil, ring.ErrIndirectLen},
	{"indirect unmapped", []pdesc{{0, 16, 7, fIndirect}}, nil, ring.ErrIndirectTable},
	{"indirect over the region's end", []pdesc{{end - 16, 32, 7, fIndirect}}, nil, ring.ErrIndirectTable},
	{"indirect with next", []pdesc{{tablesAt, 16, 1, fIndirect | fNext}, {dataAt, 1, 7, 0}}, []pdesc{{dataAt, 1, 0, 0}}, ring.ErrIndirectNext},
	{"indirect after a direct one", []pdesc{{dataAt, 1, 1, fNext}, {tablesAt, 16, 7, fIndirect}}, []pdesc{{dataAt, 1, 0, 0}}, ring.ErrIndirectNext},
	{"nested", []pdesc{{tablesAt, 16, 7, fIndirect}}, []pdesc{{tablesAt, 16, 0, fIndirect}}, ring.ErrIndirectNested},
	{"nested at the end", []pdesc{{tablesAt, 32, 7, fIndirect}}, []pdesc{{dataAt, 1, 0, 0}, {tablesAt, 16, 0, fIndirect}}, ring.ErrIndirectNested},
	{"length 0 in the table", []pdesc{{tablesAt, 16, 7, fIndirect}}, []pdesc{{dataAt, 0, 0, 0}}, ring.ErrZeroLen},
	{"bad address in the table", []pdesc{{tablesAt, 16, 7, fIndirect}}, []pdesc{{end, 1, 0, 0}}, ring.ErrBadAddress},
	{"readable after writable in the table", []pdesc{{tablesAt, 32, 7, fIndirect}},
		[]pdesc{{dataAt, 1, 0, fWrite}, {dataAt, 1, 0, 0}}, ring.ErrOrder},
}

// Each is refused by its name, given back whole, and the next chain is found, at
// any position of the ring and with any layout of what came before.
func TestPackedRefusedChains(t *testing.T) {
	for _, tc := range refusedPacked {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 5, packed|indirect)
			for i, d := range tc.inner {
				w.setPdesc(tablesAt, i, d)
			}
			for range 7 { // over the end of the ring, in both wraps
				w.offerPacked(tc.chain...)
				w.wantPackedFault(tc.want, 7)
			}
		})
	}
	w := newWorld(t, 5, packed)
	w.offerPacked(pdesc{tablesAt, 16, 7, fIndirect})
	w.wantPackedFault(ring.ErrIndirectOff, 7)
}

// NEXT all the way round: the chain is longer than what is available, so nobody
// knows where the next one begins.
func TestFault084PackedEndlessChain(t *testing.T) {
	for _, taken := range []int{0, 3} {
		w := newWorld(t, 8, packed)
		w.add(taken)
		for range taken {
			w.take()
		}
		for i := range 8 {
			w.setPdesc(descAt, i, pdesc{dataAt, 1, 0, fAvail | fNext})
		}
		w.wantBroken(t, ring.ErrAvailJump)
	}
}

// wantBroken asks for a chain, and again: the ring is broken for good.
func (w *world) wantBroken(t *testing.T, want ring.Fault) {
	t.Helper()
	ok, err := w.dev.Next(&w.c)
	if ok || err != error(want) || w.c.HasHead || !w.dev.Broken() {
		t.Errorf("Next: %v, %v, head %v, broken %v; want %v", ok, err, w.c.HasHead, w.dev.Broken(), want)
	}
	if ok, err := w.dev.Next(&w.c); ok || err == nil || w.c.HasHead || w.dev.Pending() != 0 || w.dev.EnableKicks() {
		t.Errorf("then: %v, %v, %d pending", ok, err, w.dev.Pending())
	}
	var b ring.Batch
	if n := w.dev.NextBatch(&b, 8, false); n != 0 {
		t.Errorf("%d chains taken from a broken ring", n)
	}
}

// A chain whose second descriptor is not marked available, or as of the other lap.
func TestPackedWrapErrors(t *testing.T) {
	for _, flags := range []uint16{0, fUsed, fAvail | fUsed} {
		w := newWorld(t, 8, packed)
		w.offerPacked(pdesc{dataAt, 1, 0, fNext}, pdesc{dataAt, 1, 0, 0})
		w.setPdesc(descAt, 1, pdesc{dataAt, 1, 0, flags})
		w.wantBroken(t, ring.ErrWrap)
	}
	w := newWorld(t, 3, packed) // over the end, where the flags must turn
	w.add(2)
	w.serve(2)
	w.setPdesc(descAt, 2, pdesc{dataAt, 1, 0, fAvail | fNext})
	w.setPdesc(descAt, 0, pdesc{dataAt, 1, 0, fAvail})
	w.wantBroken(t, ring.ErrWrap)
}

// Descriptors of chains that are out are marked available once more, for the next
// lap: more than the ring has room for.
func TestFault091PackedAvailJump(t *testing.T) {
	w := newWorld(t, 4, packed)
	w.add(4)
	heads := []uint16{w.take(), w.take(), w.take(), w.take()}
	for i := range 4 {
		w.setPdesc(descAt, i, pdesc{dataAt, 1, 0, fUsed})
	}
	if w.dev.Pending() != 0 {
		t.Errorf("%d pending while all are out", w.dev.Pending())
	}
	w.wantBroken(t, ring.ErrAvailJump)
	for _, h := range heads {
		w.dev.Push(h, 0)
	}
	if w.dev.Publish() != 4 {
		t.Error("what is out does not come back")
	}
}

// The number of a chain is the driver's: any, and of several chains the same.
func TestFault106PackedAnyID(t *testing.T) {
	w := newWorld(t, 4, packed)
	for _, id := range []uint16{0, 3, 4, 255, 65535} {
		w.offerPacked(pdesc{dataAt, 1, id, 0}, pdesc{dataAt, 2, id, 0})
		a, b := w.take(), w.take()
		if a == b || a > 3 || b > 3 {
			t.Errorf("id %d: handles %d and %d", id, a, b)
		}
		at := int(w.dev.Base() >> 16 & 0x7fff)
		w.dev.Push(b, 0)
		w.dev.Push(a, 0)
		w.dev.Publish()
		if got := w.pdesc(at); got.id != id {
			t.Errorf("used element %+v, want id %d", got, id)
		}
	}
}

// A buffer of a packed ring's chain crosses the border of two regions.
func TestFault035PackedAcrossRegions(t *testing.T) {
	w := newWorld(t, 8, packed)
	mem := memory(t, shm.Region{GPA: memBase, Mem: w.b}, shm.Region{GPA: end, UVA: 1 << 40, Mem: make([]byte, 16)})
	if err := w.dev.SetMemory(mem); err != nil {
		t.Fatal(err)
	}
	w.offerPacked(pdesc{end - 1, 2, 1, fNext}, pdesc{end - 2, 4, 7, fWrite})
	if w.take(); w.c.OutLen != 2 || len(w.c.Out) != 2 || w.c.InLen != 4 || len(w.c.In) != 2 {
		t.Errorf("chain %+v", w.c)
	}
	w.dev.Push(w.c.Head, 0)
	w.dev.Publish()
	w.offerPacked(pdesc{end + 15, 2, 7, 0})
	w.wantPackedFault(ring.ErrBadAddress, 7)
}

// A hostile guest costs no memory.
func TestPackedFaultsDoNotAllocate(t *testing.T) {
	for _, tc := range refusedPacked {
		w := newWorld(t, 8, packed|indirect)
		for i, d := range tc.inner {
			w.setPdesc(tablesAt, i, d)
		}
		n := testing.AllocsPerRun(50, func() {
			w.offerPacked(tc.chain...)
			if _, err := w.dev.Next(&w.c); err == nil {
				t.Error("no fault")
			}
			w.dev.Push(w.c.Head, 0)
			w.dev.Publish()
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", tc.name, n)
		}
	}
}
