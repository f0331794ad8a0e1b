package ring_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// Flags of a descriptor (virtio 1.3 §2.7.5).
const (
	fNext     = 1
	fWrite    = 2
	fIndirect = 4
)

// desc is a descriptor as a hostile guest writes it.
type desc struct {
	addr        uint64
	len         uint32
	flags, next uint16
}

var le = binary.LittleEndian

// setDesc writes descriptor i of the table at guest address table.
func (w *world) setDesc(table uint64, i int, d desc) {
	b := w.b[int(table-memBase)+16*i:]
	le.PutUint64(b, d.addr)
	le.PutUint32(b[8:], d.len)
	le.PutUint16(b[12:], d.flags)
	le.PutUint16(b[14:], d.next)
}

// offer makes the chains with these heads available, past the driver.
func (w *world) offer(heads ...uint16) {
	b := w.b[availAt-memBase:]
	idx := le.Uint16(b[2:])
	for _, h := range heads {
		le.PutUint16(b[4+2*int(idx%w.cfg.Size):], h)
		idx++
	}
	le.PutUint16(b[2:], idx)
}

// wantFault takes a chain, which must be refused for this reason, and gives it
// back; the ring must go on.
func (w *world) wantFault(want ring.Fault) {
	w.t.Helper()
	ok, err := w.dev.Next(&w.c)
	if ok || err != error(want) {
		w.t.Errorf("Next: %v, %v; want %v", ok, err, want)
		return
	}
	if !w.c.HasHead {
		w.t.Errorf("%v: no head to give back", want)
		return
	}
	w.dev.Push(w.c.Head, 0)
	w.dev.Publish()
	if n := w.dev.InFlight(); n != 0 {
		w.t.Errorf("%v: %d chains in flight", want, n)
	}
	if id, n := w.usedElem(w.dev.UsedIdx() - 1); id != uint32(w.c.Head) || n != 0 {
		w.t.Errorf("%v: used element %d, %d", want, id, n)
	}
}

// usedElem returns element i of the used ring as the guest sees it.
func (w *world) usedElem(i uint16) (id, n uint32) {
	b := w.b[int(usedAt-memBase)+4+8*int(i%w.cfg.Size):]
	return le.Uint32(b), le.Uint32(b[4:])
}

// wantGood takes one well-formed chain, which shows that the ring still works.
func (w *world) wantGood() {
	w.t.Helper()
	w.setDesc(descAt, 0, desc{dataAt, 10, 0, 0})
	w.offer(0)
	if w.take(); w.c.OutLen != 10 {
		w.t.Errorf("good chain: %+v", w.c)
	}
	w.dev.Push(w.c.Head, 0)
	w.dev.Publish()
}

// end is the first guest address behind the memory.
const end = memBase + memSize

// refused are chains that break a rule: table is the descriptor table, inner an
// indirect table at tablesAt.
var refused = []struct {
	name         string
	table, inner []desc
	want         ring.Fault
}{
	{"next beyond the table", []desc{{dataAt, 1, fNext, 8}}, nil, ring.ErrNext},
	{"next far beyond the table", []desc{{dataAt, 1, fNext, 65535}}, nil, ring.ErrNext},
	{"length 0", []desc{{dataAt, 0, 0, 0}}, nil, ring.ErrZeroLen},
	{"length 0 in a chain", []desc{{dataAt, 1, fNext, 1}, {dataAt, 0, fWrite, 0}}, nil, ring.ErrZeroLen},
	{"address 0", []desc{{0, 1, 0, 0}}, nil, ring.ErrBadAddress},
	{"behind the memory", []desc{{end, 1, 0, 0}}, nil, ring.ErrBadAddress},
	{"across the end", []desc{{end - 1, 2, 0, 0}}, nil, ring.ErrBadAddress},
	{"across the end, writable", []desc{{end - 1, 2, fWrite, 0}}, nil, ring.ErrBadAddress},
	{"largest address", []desc{{math.MaxUint64, 1, 0, 0}}, nil, ring.ErrAddrOverflow},
	{"address overflow", []desc{{math.MaxUint64 - 9, 100, 0, 0}}, nil, ring.ErrAddrOverflow},
	{"readable after writable", []desc{{dataAt, 1, fNext | fWrite, 1}, {dataAt, 1, 0, 0}}, nil, ring.ErrOrder},
	{"indirect of length 0", []desc{{tablesAt, 0, fIndirect, 0}}, nil, ring.ErrIndirectLen},
	{"indirect of 24 bytes", []desc{{tablesAt, 24, fIndirect, 0}}, nil, ring.ErrIndirectLen},
	{"indirect of 1 MiB and more", []desc{{tablesAt, 1<<20 + 16, fIndirect, 0}}, nil, ring.ErrIndirectLen},
	{"indirect unmapped", []desc{{0, 16, fIndirect, 0}}, nil, ring.ErrIndirectTable},
	{"indirect at the largest address", []desc{{math.MaxUint64 - 15, 32, fIndirect, 0}}, nil, ring.ErrAddrOverflow},
	{"indirect with next", []desc{{tablesAt, 16, fIndirect | fNext, 1}}, []desc{{dataAt, 1, 0, 0}}, ring.ErrIndirectNext},
	{"nested", []desc{{tablesAt, 16, fIndirect, 0}}, []desc{{tablesAt, 16, fIndirect, 0}}, ring.ErrIndirectNested},
	{"nested at the end", []desc{{tablesAt, 32, fIndirect, 0}},
		[]desc{{dataAt, 1, fNext, 1}, {tablesAt, 16, fIndirect, 0}}, ring.ErrIndirectNested},
	{"loop in the table", []desc{{tablesAt, 32, fIndirect, 0}},
		[]desc{{dataAt, 1, fNext, 1}, {dataAt, 1, fNext, 0}}, ring.ErrLoop},
	{"readable after writable in the table", []desc{{tablesAt, 32, fIndirect, 0}},
		[]desc{{dataAt, 1, fNext | fWrite, 1}, {dataAt, 1, 0, 0}}, ring.ErrOrder},
	{"readable table after writable", []desc{{dataAt, 1, fNext | fWrite, 1}, {tablesAt, 16, fIndirect, 0}},
		[]desc{{dataAt, 1, 0, 0}}, ring.ErrOrder},
	{"length 0 in the table", []desc{{tablesAt, 16, fIndirect, 0}}, []desc{{dataAt, 0, 0, 0}}, ring.ErrZeroLen},
	{"bad address in the table", []desc{{tablesAt, 16, fIndirect, 0}}, []desc{{end, 1, 0, 0}}, ring.ErrBadAddress},
}

// put writes the chain of descriptors and the indirect table.
func (w *world) put(table, inner []desc) {
	for i, d := range table {
		w.setDesc(descAt, i, d)
	}
	for i, d := range inner {
		w.setDesc(tablesAt, i, d)
	}
}

func TestRefusedChains(t *testing.T) {
	for _, tc := range refused {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 8, indirect)
			w.put(tc.table, tc.inner)
			w.offer(0)
			w.wantFault(tc.want)
			w.wantGood()
		})
	}
}

func TestFault084ChainLoop(t *testing.T) {
	for name, n := range map[string]uint32{"length 0": 0, "length 1": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 8, 0)
			w.setDesc(descAt, 0, desc{dataAt, n, fNext, 0})
			w.offer(0)
			want := ring.ErrLoop
			if n == 0 {
				want = ring.ErrZeroLen
			}
			w.wantFault(want)
			w.wantGood()
		})
	}
}

func TestFault085BadAddress(t *testing.T) {
	w := newWorld(t, 8, 0)
	w.setDesc(descAt, 0, desc{math.MaxUint64, 0, 0, 0})
	w.offer(0)
	w.wantFault(ring.ErrZeroLen)
	w.setDesc(descAt, 0, desc{dataAt, 0, 0, 0})
	w.offer(0)
	w.wantFault(ring.ErrZeroLen)
	w.wantGood()
}

// The table begins in memory and ends beyond it, or in the next region.
func TestFault086IndirectAcrossRegions(t *testing.T) {
	w := newWorld(t, 8, indirect)
	w.setDesc(end-16, 0, desc{dataAt, 1, fNext, 1})
	w.setDesc(descAt, 0, desc{end - 16, 32, fIndirect, 0})
	w.offer(0)
	w.wantFault(ring.ErrIndirectTable)

	next := shm.Region{GPA: end, UVA: 1 << 40, Mem: make([]byte, 4096)}
	if err := w.dev.SetMemory(memory(t, next, shm.Region{GPA: memBase, Mem: w.b})); err != nil {
		t.Fatal(err)
	}
	w.offer(0)
	w.wantFault(ring.ErrIndirectTable)

	w.setDesc(end-16, 0, desc{dataAt, 3, 0, 0}) // one that ends with its region
	w.setDesc(descAt, 1, desc{end - 16, 16, fIndirect, 0})
	w.offer(1)
	if w.take(); w.c.OutLen != 3 {
		t.Errorf("chain %+v", w.c)
	}
}

func TestFault088IndirectNextBeyondTable(t *testing.T) {
	w := newWorld(t, 8, indirect)
	for _, next := range []uint16{2, 8, 65535} {
		w.put([]desc{{tablesAt, 32, fIndirect, 0}}, []desc{{dataAt, 1, fNext, next}})
		w.offer(0)
		w.wantFault(ring.ErrNext)
	}
	w.wantGood()
}

func TestFault089DirectThenIndirect(t *testing.T) {
	w := newWorld(t, 8, indirect)
	copy(w.data(0, 6), "abcdef")
	w.put([]desc{{dataAt, 1, fNext, 1}, {dataAt + 1, 2, fNext, 2}, {tablesAt + 1<<12 + 1, 32, fIndirect | fWrite, 0}}, nil)
	inner := w.b[tablesAt+1<<12+1-memBase:] // at an odd address
	le.PutUint64(inner[0:], dataAt+3)
	le.PutUint64(inner[8:], 3|fNext<<32|1<<48)
	le.PutUint64(inner[16:], dataAt+100)
	le.PutUint64(inner[24:], 9|fWrite<<32)
	w.offer(0)
	w.take()
	want := [][]byte{[]byte("a"), []byte("bc"), []byte("def")}
	if diff := cmp.Diff(want, w.c.Out); diff != "" || w.c.InLen != 9 || w.c.Descs != 4 {
		t.Errorf("%s%+v", diff, w.c)
	}
}

func TestFault089IndirectNotNegotiated(t *testing.T) {
	w := newWorld(t, 8, 0)
	w.put([]desc{{tablesAt, 16, fIndirect, 0}}, []desc{{dataAt, 1, 0, 0}})
	w.offer(0)
	w.wantFault(ring.ErrIndirectOff)
	w.wantGood()
}

// The available index jumps ahead by more than the ring holds: nothing is taken
// any more, at no cost.
func TestFault091AvailJump(t *testing.T) {
	for _, jump := range []uint16{257, 300, 32768, 65535} {
		w := newWorld(t, 256, 0)
		b := w.b[availAt-memBase+2:]
		le.PutUint16(b, le.Uint16(b)+jump)
		for range 2 {
			ok, err := w.dev.Next(&w.c)
			if ok || err != error(ring.ErrAvailJump) || w.c.HasHead || !w.dev.Broken() {
				t.Errorf("jump by %d: %v, %v", jump, ok, err)
			}
		}
		if w.dev.Pending() != 0 || w.dev.EnableKicks() {
			t.Error("a broken ring has chains pending")
		}
	}
}

// Chains that are out and not given back count too: however the guest moves its
// index, no more chains than the queue size are ever in flight.
func TestFault091JumpWhileInFlight(t *testing.T) {
	w := newWorld(t, 8, 0)
	w.setDesc(descAt, 0, desc{dataAt, 1, 0, 0})
	w.offer(0, 0, 0, 0, 0, 0)
	for range 6 {
		w.take()
	}
	w.offer(0, 0, 0)
	if ok, err := w.dev.Next(&w.c); ok || err != error(ring.ErrAvailJump) || w.dev.InFlight() != 6 {
		t.Errorf("Next: %v, %v, %d in flight", ok, err, w.dev.InFlight())
	}
	w.dev.Push(0, 0) // what is out can still be given back
	if w.dev.Publish() != 1 {
		t.Error("nothing published")
	}
}

// Chains staged and not yet shown are not the driver's to use again.
func TestFault091JumpWhileStaged(t *testing.T) {
	w := newWorld(t, 4, 0)
	w.setDesc(descAt, 0, desc{dataAt, 1, 0, 0})
	w.offer(0, 0, 0, 0)
	for range 4 {
		w.dev.Push(w.take(), 0)
	}
	w.offer(0)
	if ok, err := w.dev.Next(&w.c); ok || err != error(ring.ErrAvailJump) {
		t.Errorf("Next: %v, %v", ok, err)
	}
}

func TestFault092AddressOverflow(t *testing.T) {
	w := newWorld(t, 8, 0)
	w.setDesc(descAt, 0, desc{math.MaxUint64 - 9, 100, fWrite, 0})
	w.offer(0)
	w.wantFault(ring.ErrAddrOverflow)
	w.wantGood()
}

func TestFault100NextBeyondSmallRing(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.setDesc(descAt, 0, desc{dataAt, 1, fNext, 1})
	w.offer(0)
	w.wantFault(ring.ErrNext)
	w.setDesc(descAt, 0, desc{dataAt, 1, fNext, 0})
	w.offer(0)
	w.wantFault(ring.ErrLoop)
}

// More commands than a small ring has entries: the index is masked.
func TestFault101IndexBeyondRing(t *testing.T) {
	w := newWorld(t, 64, 0)
	for range 200 {
		w.add(1)
		w.serve(1)
		w.reap(1)
	}
}

// Five readable descriptors, as a fragmented packet has, are all there.
func TestFault103And130ManyDescriptors(t *testing.T) {
	for _, f := range []virtio.Features{0, indirect} {
		w := newWorld(t, 8, f)
		if err := w.drv.Add(bufs(1, 2, 3, 4, 5), nil, 0); err != nil {
			t.Fatal(err)
		}
		w.drv.Publish()
		if w.take(); w.c.OutLen != 15 || len(w.c.Out) != 5 {
			t.Errorf("chain %+v", w.c)
		}
	}
}

// A head that is no descriptor is given back as it came.
func TestFault106HeadBeyondRing(t *testing.T) {
	for _, head := range []uint16{8, 255, 65535} {
		w := newWorld(t, 8, 0)
		w.offer(head)
		w.wantFault(ring.ErrHead)
		w.wantGood()
	}
}
