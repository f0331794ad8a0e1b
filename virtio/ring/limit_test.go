package ring_test

import (
	"math"
	"testing"

	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// A chain as long as the ring has no loop; one more descriptor is one.
func TestFault084LongestChain(t *testing.T) {
	w := newWorld(t, 8, 0)
	for i := range 8 {
		w.setDesc(descAt, i, desc{dataAt, 1, fNext, uint16(i + 1)})
	}
	w.setDesc(descAt, 7, desc{dataAt, 1, 0, 0})
	w.offer(0)
	if w.take(); w.c.Descs != 8 {
		t.Errorf("%d descriptors", w.c.Descs)
	}
	w.dev.Push(0, 0)
	w.setDesc(descAt, 7, desc{dataAt, 1, fNext, 3})
	w.offer(0)
	w.wantFault(ring.ErrLoop)
}

// An indirect table may be longer than the ring, up to 64 Ki descriptors.
func TestIndirectLongerThanRing(t *testing.T) {
	w := newWorld(t, 1, indirect)
	const n = 65536
	for i := range n {
		w.setDesc(tablesAt, i, desc{dataAt, 1, fNext, uint16(i + 1)})
	}
	w.setDesc(tablesAt, n-1, desc{dataAt, 1, 0, 0})
	w.setDesc(descAt, 0, desc{tablesAt, 16 * n, fIndirect, 0})
	w.offer(0)
	if w.take(); w.c.Descs != n || len(w.c.Out) != n {
		t.Errorf("%d descriptors, %d buffers", w.c.Descs, len(w.c.Out))
	}
	w.dev.Push(0, 0)
	w.dev.Publish()
	w.setDesc(tablesAt, n-1, desc{dataAt, 1, fNext, 0})
	w.offer(0)
	w.wantFault(ring.ErrLoop)
}

// Direct descriptors count towards the limit of the chain.
func TestIndirectLimitCountsDirect(t *testing.T) {
	w := newWorld(t, 2, indirect)
	const n = 65536
	for i := range n {
		w.setDesc(tablesAt, i, desc{dataAt, 1, fNext, uint16(i + 1)})
	}
	w.setDesc(tablesAt, n-1, desc{dataAt, 1, 0, 0})
	w.put([]desc{{dataAt, 1, fNext, 1}, {tablesAt, 16 * n, fIndirect, 0}}, nil)
	w.offer(0)
	w.wantFault(ring.ErrLoop)
	w.setDesc(tablesAt, n-2, desc{dataAt, 1, 0, 0})
	w.offer(0)
	if w.take(); w.c.Descs != n {
		t.Errorf("%d descriptors", w.c.Descs)
	}
}

func TestFault098TotalLength(t *testing.T) {
	w := newWorld(t, 32, 0)
	for i := range 20 {
		w.setDesc(descAt, i, desc{dataAt, 4096, fNext, uint16(i + 1)})
	}
	w.setDesc(descAt, 19, desc{dataAt, 4096, 0, 0})
	w.offer(0)
	if w.take(); w.c.OutLen != 20*4096 {
		t.Errorf("%d bytes", w.c.OutLen)
	}
	w.dev.Push(0, 0)

	// 4 GiB in all: the second half may not make the sum wrap to 0.
	w.setDesc(descAt, 0, desc{dataAt, 16, fNext, 1})
	w.setDesc(descAt, 1, desc{dataAt, math.MaxUint32 - 15, 0, 0})
	w.offer(0)
	w.wantFault(ring.ErrTooLong)

	w.cfg.MaxChainBytes, w.cfg.Base = 100, w.dev.Base()
	w.restart()
	w.put([]desc{{dataAt, 60, fNext, 1}, {dataAt, 41, fWrite, 0}}, nil)
	w.offer(0)
	w.wantFault(ring.ErrTooLong)
	w.put([]desc{{dataAt, 60, fNext, 1}, {dataAt, 40, fWrite, 0}}, nil)
	w.offer(0)
	w.take()
}

// Descriptors that each cross a border of regions do not multiply without bound.
func TestTooManyPieces(t *testing.T) {
	w := newWorld(t, 8, indirect)
	mem := memory(t, shm.Region{GPA: memBase, Mem: w.b}, shm.Region{GPA: end, UVA: 1 << 40, Mem: make([]byte, 16)})
	if err := w.dev.SetMemory(mem); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []uint16{0, fWrite} {
		for _, n := range []int{32768, 32769} {
			for i := range n {
				w.setDesc(tablesAt, i, desc{end - 1, 2, fNext | flags, uint16(i + 1)})
			}
			w.setDesc(tablesAt, n-1, desc{end - 1, 2, flags, 0})
			w.setDesc(descAt, 0, desc{tablesAt, uint32(16 * n), fIndirect, 0})
			w.offer(0)
			if n > 32768 {
				w.wantFault(ring.ErrTooLong)
				continue
			}
			if w.take(); len(w.c.Out)+len(w.c.In) != 65536 {
				t.Errorf("%d pieces", len(w.c.Out)+len(w.c.In))
			}
			w.dev.Push(0, 0)
		}
	}
}

// A readable buffer after a writable one, across a border of regions.
func TestOrderAcrossRegions(t *testing.T) {
	w := newWorld(t, 8, 0)
	mem := memory(t, shm.Region{GPA: memBase, Mem: w.b}, shm.Region{GPA: end, UVA: 1 << 40, Mem: make([]byte, 16)})
	if err := w.dev.SetMemory(mem); err != nil {
		t.Fatal(err)
	}
	w.put([]desc{{end - 1, 2, fNext | fWrite, 1}, {end - 1, 2, 0, 0}}, nil)
	w.offer(0)
	w.wantFault(ring.ErrOrder)
}

// A hostile guest costs no memory.
func TestFaultsDoNotAllocate(t *testing.T) {
	for _, tc := range refused {
		w := newWorld(t, 8, indirect)
		w.put(tc.table, tc.inner)
		n := testing.AllocsPerRun(50, func() {
			w.offer(0)
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

func TestFaultNames(t *testing.T) {
	seen := map[string]bool{}
	for f := range ring.NumFaults {
		if f.Name() == "" || f.Error() == "" || seen[f.Name()] || seen[f.Error()] {
			t.Errorf("fault %d: %q, %q", f, f.Name(), f.Error())
		}
		seen[f.Name()], seen[f.Error()] = true, true
	}
	if ring.Fault(200).Error() != ring.Fault(0).Error() || ring.Fault(200).Name() != "none" {
		t.Error("a value that is no fault")
	}
}
