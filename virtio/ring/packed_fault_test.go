package ring_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// A packed ring moves to another mapping with chains out, and with a used element
// staged that was not shown: it is shown in the new memory.
func TestFault025PackedMemoryTableWhileRunning(t *testing.T) {
	w := newWorld(t, 5, packed|eventIdx)
	w.add(4)
	heads := []uint16{w.take(), w.take(), w.take()}
	w.dev.Push(heads[1], 0)
	old := w.b
	w.b = bytes.Clone(old)
	w.mem = memory(t, shm.Region{GPA: memBase, UVA: 5 << 30, Mem: w.b})
	if err := w.dev.SetMemory(w.mem); err != nil {
		t.Fatal(err)
	}
	clear(old) // the old mapping is gone
	w.dev.Push(heads[0], 0)
	w.dev.Push(heads[2], 0)
	w.dev.Push(w.take(), 0)
	w.dev.Publish()
	for i, id := range []uint16{1, 0, 2, 3} {
		if d := w.pdesc(i); d.id != id || d.flags != fAvail|fUsed {
			t.Errorf("used element %d: %+v, want id %d", i, d, id)
		}
	}
}

func TestFault026PackedBadMemoryTable(t *testing.T) {
	w := newWorld(t, 8, packed)
	w.add(2)
	w.take()
	if err := w.dev.SetMemory(memory(t, shm.Region{GPA: memBase, Mem: w.b[:usedAt-memBase]})); err == nil {
		t.Fatal("a table without the device's event structure is taken")
	}
	w.take() // the old table is still in use
}

// A device event that an earlier device left, wherever it points, is written anew at
// the start, and asks for a kick at the next chain.
func TestFault065PackedStaleDeviceEvent(t *testing.T) {
	for _, stale := range []uint32{1 << 16, 2<<16 | 0x8007, 2 << 16, 3 << 16} {
		w := newWorld(t, 8, packed|eventIdx)
		w.add(3)
		w.serve(3)
		w.reap(3)
		w.drv.NeedKick()
		le.PutUint32(w.b[usedAt-memBase:], stale)
		w.cfg.Base = w.dev.Base()
		w.restart()
		if off, flags := w.event(usedAt); off != 0x8003 || flags != 2 {
			t.Errorf("event %#x, flags %d after the start", off, flags)
		}
		w.add(1)
		if !w.drv.NeedKick() {
			t.Errorf("no kick with a stale event %#x", stale)
		}
	}
}

// A chain that comes between the device's last look and its wish is seen when the
// wish is written.
func TestFault067PackedChainBeforeRearm(t *testing.T) {
	w := newWorld(t, 8, packed|eventIdx)
	w.dev.DisableKicks()
	w.add(1)
	w.serve(1)
	if ok, _ := w.dev.Next(&w.c); ok {
		t.Fatal("a chain of nobody's")
	}
	w.add(1)
	if w.drv.NeedKick() {
		t.Fatal("a kick although the device is busy")
	}
	if !w.dev.EnableKicks() {
		t.Error("the device may sleep over a chain that nobody kicks for")
	}
}

// Neither a length of 0 at a bad address nor a table that leaves its region is
// followed; the chain is given back and the ring goes on.
func TestFault085PackedBadAddress(t *testing.T) {
	w := newWorld(t, 8, packed)
	w.offerPacked(pdesc{math.MaxUint64, 0, 7, 0})
	w.wantPackedFault(ring.ErrZeroLen, 7)
	w.offerPacked(pdesc{dataAt, 0, 7, fWrite})
	w.wantPackedFault(ring.ErrZeroLen, 7)
}

func TestFault086PackedIndirectAcrossRegions(t *testing.T) {
	w := newWorld(t, 8, packed|indirect)
	mem := memory(t, shm.Region{GPA: memBase, Mem: w.b}, shm.Region{GPA: end, UVA: 1 << 40, Mem: make([]byte, 64)})
	if err := w.dev.SetMemory(mem); err != nil {
		t.Fatal(err)
	}
	w.offerPacked(pdesc{end - 16, 32, 7, fIndirect})
	w.wantPackedFault(ring.ErrIndirectTable, 7)
	w.setPdesc(tablesAt, 0, pdesc{end - 2, 4, 0, 0})
	w.offerPacked(pdesc{tablesAt, 16, 7, fIndirect})
	if w.take(); w.c.OutLen != 4 || len(w.c.Out) != 2 {
		t.Errorf("chain %+v", w.c)
	}
}

// More bytes than fit 16 bits, and more than fit 32.
func TestFault098PackedTotalLength(t *testing.T) {
	w := newWorld(t, 32, packed)
	var chain []pdesc
	for range 19 {
		chain = append(chain, pdesc{dataAt, 4096, 7, fNext})
	}
	w.offerPacked(append(chain, pdesc{dataAt, 4096, 7, 0})...)
	if w.take(); w.c.OutLen != 20*4096 {
		t.Errorf("%d bytes", w.c.OutLen)
	}
	w.dev.Push(w.c.Head, 0)
	w.dev.Publish()
	w.offerPacked(pdesc{dataAt, 16, 7, fNext}, pdesc{dataAt, math.MaxUint32 - 15, 7, 0})
	w.wantPackedFault(ring.ErrTooLong, 7)
}
