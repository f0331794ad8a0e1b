package ring_test

import (
	"errors"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// Five chains that carry nothing back get one used element, which names the last of
// them, where that of the first would be; the index goes on by five.
func TestInOrderOneElementForABatch(t *testing.T) {
	w := newWorld(t, 8, inOrder)
	w.add(5)
	w.serve(5)
	if id, n := w.usedElem(0); id != 4 || n != 0 {
		t.Errorf("element 0: %d, %d bytes", id, n)
	}
	for i := range uint16(4) {
		if id, _ := w.usedElem(i + 1); id != 0 {
			t.Errorf("element %d was written: %d", i+1, id)
		}
	}
	if w.dev.UsedIdx() != 5 || le.Uint16(w.b[usedAt-memBase+2:]) != 5 {
		t.Errorf("used index %d", w.dev.UsedIdx())
	}
	w.reap(5)
}

// The same of a packed ring: the element has the place of the first chain, and the
// others keep what the driver wrote.
func TestInOrderPackedBatch(t *testing.T) {
	w := newWorld(t, 8, packed|inOrder)
	b := bufs(1, 2)
	for i := range uint32(3) { // of two descriptors each
		if err := w.drv.Add(b, nil, i); err != nil {
			t.Fatal(err)
		}
	}
	w.drv.Publish()
	w.serve(3)
	if d := w.pdesc(0); d.id != 4 || d.flags != fAvail|fUsed {
		t.Errorf("used element %+v", d)
	}
	for i := range 5 {
		if d := w.pdesc(i + 1); d.flags&fUsed != 0 {
			t.Errorf("descriptor %d was written: %+v", i+1, d)
		}
	}
	if w.dev.Base() != 0x8006_8006 {
		t.Errorf("base %#x", w.dev.Base())
	}
	w.reap(3)
}

// A chain with room for the device has an element of its own, with its length, even
// if it ends a batch or nothing was written.
func TestInOrderWritableChains(t *testing.T) {
	for _, f := range []virtio.Features{inOrder, inOrder | packed} {
		w := newWorld(t, 8, f)
		in := bufs(100)
		for i := range uint32(6) {
			out, back := in, []ring.Buf(nil)
			if i >= 2 && i <= 4 {
				out, back = nil, in
			}
			if err := w.drv.Add(out, back, i); err != nil {
				t.Fatal(err)
			}
		}
		w.drv.Publish()
		for _, n := range []uint32{0, 0, 40, 100, 0, 0} {
			w.dev.Push(w.take(), n)
		}
		w.dev.Publish()
		for i, want := range []uint32{0, 0, 40, 100, 0, 0} {
			if token, n, ok := w.drv.Reap(); !ok || int(token) != i || n != want {
				t.Errorf("%v: reaped %d with %d bytes, want %d with %d: %v", f, token, n, i, want, w.drv.Err())
			}
		}
	}
}

// What is given back before its turn waits, is not in flight, and comes with those
// before it.
func TestInOrderWaitsForItsTurn(t *testing.T) {
	for _, f := range []virtio.Features{inOrder, inOrder | packed} {
		w := newWorld(t, 8, f)
		w.add(6)
		var heads []uint16
		for range 5 {
			heads = append(heads, w.take())
		}
		for _, i := range []int{3, 1, 2} {
			w.dev.Push(heads[i], 0)
		}
		if n := w.dev.Publish(); n != 0 || w.dev.InFlight() != 2 || w.drv.HasUsed() {
			t.Errorf("%v: %d published, %d in flight", f, n, w.dev.InFlight())
		}
		w.wantCall(false, ring.CallNoneUsed)
		w.dev.Unget(1) // the fifth, which was taken last
		w.dev.Push(heads[0], 0)
		if n := w.dev.Publish(); n != 4 {
			t.Errorf("%v: %d published, want 4", f, n)
		}
		for i := range uint32(4) {
			if token, _, ok := w.drv.Reap(); !ok || token != i {
				t.Errorf("%v: reaped %d, want %d", f, token, i)
			}
		}
		w.serve(2)
		w.reap(2)
	}
}

// A driver reads a used element for each chain too, and believes none that is out of
// order: that of a chain not outstanding, of one beyond the used index, and of one
// that was reaped.
func TestInOrderDriverBelievesNoOther(t *testing.T) {
	element := func(w *world, i int, id uint32) {
		le.PutUint32(w.b[int(usedAt-memBase)+4+8*i:], id)
	}
	index := func(w *world, n uint16) { le.PutUint16(w.b[usedAt-memBase+2:], n) }
	w := newWorld(t, 8, inOrder)
	w.add(3)
	for i := range 3 {
		element(w, i, uint32(i))
	}
	index(w, 3)
	w.reap(3)
	for name, tc := range map[string]struct {
		id    uint32
		used  uint16
		reaps int
	}{
		"not outstanding":        {5, 1, 0},
		"beyond the queue":       {8, 1, 0},
		"beyond the used index":  {2, 2, 2},
		"the last of all, early": {3, 1, 1},
	} {
		w := newWorld(t, 8, inOrder)
		w.add(4)
		element(w, 0, tc.id)
		index(w, tc.used)
		n := 0
		for ; n < 8; n++ {
			if _, _, ok := w.drv.Reap(); !ok {
				break
			}
		}
		if n != tc.reaps || !errors.Is(w.drv.Err(), ring.ErrBadUsed) {
			t.Errorf("%s: %d reaped, %v", name, n, w.drv.Err())
		}
	}
}

// With IN_ORDER the driver takes its descriptors in the order of the table, chains
// over its end included (virtio 1.3 §2.7.5.1).
func TestInOrderDescriptors(t *testing.T) {
	w := newWorld(t, 4, inOrder)
	w.add(3)
	w.serve(3)
	w.reap(3)
	b := bufs(10, 20)
	if err := w.drv.Add(b, nil, 9); err != nil {
		t.Fatal(err)
	}
	w.drv.Publish()
	w.wantDescs(descAt, 3, desc{b[0].Addr, 10, fNext, 0})
	w.wantDescs(descAt, 0, desc{b[1].Addr, 20, 0, 1})
	if w.take(); len(w.c.Out) != 2 {
		t.Errorf("chain %+v", w.c)
	}
}
