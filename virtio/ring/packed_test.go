package ring_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// Flags of a packed descriptor (virtio 1.3 §2.8.1).
const (
	fAvail = 1 << 7
	fUsed  = 1 << 15
)

// pdesc is a descriptor of a packed ring as its bytes have it.
type pdesc struct {
	addr      uint64
	len       uint32
	id, flags uint16
}

func (w *world) pdesc(i int) pdesc {
	d := w.desc(descAt, i)
	return pdesc{d.addr, d.len, d.flags, d.next}
}

// setPdesc writes descriptor i of a packed ring, or of a table of one.
func (w *world) setPdesc(table uint64, i int, d pdesc) {
	w.setDesc(table, i, desc{d.addr, d.len, d.id, d.flags})
}

func (w *world) wantPdescs(first int, want ...pdesc) {
	w.t.Helper()
	for i, d := range want {
		if diff := cmp.Diff(d, w.pdesc(first+i), cmp.AllowUnexported(pdesc{})); diff != "" {
			w.t.Errorf("descriptor %d: -want +got\n%s", first+i, diff)
		}
	}
}

// event returns an event structure as its two numbers.
func (w *world) event(gpa uint64) (off, flags uint16) {
	b := w.b[gpa-memBase:]
	return le.Uint16(b), le.Uint16(b[2:])
}

// The bytes that chains and used elements leave in a packed ring, over its end: the
// flags turn round with the wrap counter, a used element keeps the place of the
// first descriptor of a chain, and its number is that of the last.
func TestPackedBytes(t *testing.T) {
	w := newWorld(t, 3, packed) // a size that is no power of two
	b := bufs(10, 20, 30)
	if w.drv.Add(b[:1], nil, 1) != nil || w.drv.Add(b[1:2], b[2:], 2) != nil {
		t.Fatal("full")
	}
	w.wantPdescs(0, pdesc{b[0].Addr, 0, 0, 0}) // the first waits for Publish
	w.drv.Publish()
	w.wantPdescs(0, pdesc{b[0].Addr, 10, 0, fAvail}, pdesc{b[1].Addr, 20, 1, fAvail | fNext}, pdesc{b[2].Addr, 30, 1, fAvail | fWrite})
	heads := []uint16{w.take(), w.take()}
	w.dev.Push(heads[1], 7) // the second before the first: its element comes first
	w.dev.Push(heads[0], 0)
	w.wantPdescs(0, pdesc{b[0].Addr, 10, 0, fAvail})
	w.dev.Publish()
	w.wantPdescs(0, pdesc{b[0].Addr, 7, 1, fAvail | fUsed | fWrite}, pdesc{b[1].Addr, 20, 1, fAvail | fNext}, pdesc{b[2].Addr, 0, 0, fAvail | fUsed})
	if token, n, ok := w.drv.Reap(); token != 2 || n != 7 || !ok {
		t.Errorf("reaped %d with %d bytes", token, n)
	}
	w.reap(1)
	if w.drv.Add(b[:1], nil, 3) != nil { // the next lap
		t.Fatal("full")
	}
	w.drv.Publish()
	if got := w.pdesc(0).flags; got != fUsed {
		t.Errorf("flags %#x in the second lap", got)
	}
	w.dev.Push(w.take(), 0)
	w.dev.Publish()
	if got := w.pdesc(0).flags; got != 0 {
		t.Errorf("flags %#x of what is used in the second lap", got)
	}
	if w.dev.Base() != 0x0001_0001 {
		t.Errorf("base %#x", w.dev.Base())
	}
}

// An indirect table of a packed ring has its entries in order, without NEXT.
func TestPackedIndirectBytes(t *testing.T) {
	w := newWorld(t, 4, packed|indirect)
	b := bufs(10, 20, 30)
	if w.drv.Add(b[:2], b[2:], 1) != nil {
		t.Fatal("full")
	}
	w.drv.Publish()
	w.wantPdescs(0, pdesc{tablesAt, 48, 0, fAvail | fIndirect})
	for i, want := range []pdesc{{b[0].Addr, 10, 0, 0}, {b[1].Addr, 20, 0, 0}, {b[2].Addr, 30, 0, fWrite}} {
		d := w.desc(tablesAt, i)
		if got := (pdesc{d.addr, d.len, d.flags, d.next}); got != want {
			t.Errorf("entry %d: %+v, want %+v", i, got, want)
		}
	}
	if w.take(); w.c.OutLen != 30 || w.c.InLen != 30 || w.c.Descs != 3 || w.c.IndirectTables != 1 {
		t.Errorf("chain %+v", w.c)
	}
	if w.drv.Free() != 3 {
		t.Errorf("%d free", w.drv.Free())
	}
}

// Notification data has the queue in its low half, and where the driver has got in
// its high one.
func TestNotificationData(t *testing.T) {
	w := newWorldAt(t, 8, 0, 0xfffe)
	w.add(3)
	if n := w.drv.Notification(5); n != (ring.Notification{Queue: 5, Next: 1}) || n.Encode() != 0x0001_0005 {
		t.Errorf("split: %+v, %#x", n, n.Encode())
	}
	w = newWorld(t, 3, packed)
	w.add(2)
	if v := w.drv.Notification(7).Encode(); v != 0x8002_0007 || ring.DecodeNotification(v) != w.drv.Notification(7) {
		t.Errorf("packed: %#x", v)
	}
	w.add(1)
	if v := w.drv.Notification(7).Encode(); v != 7 { // position 0, wrap counter 0
		t.Errorf("packed, a lap on: %#x", v)
	}
}

// A queue that is reset comes back with another size, at another place.
func TestRingReset(t *testing.T) {
	for _, f := range []virtio.Features{0, packed, packed | inOrder | eventIdx} {
		w := newWorld(t, 8, f)
		w.add(5)
		w.serve(2)
		w.take()
		cfg := w.cfg
		cfg.Size, cfg.Desc, cfg.Avail, cfg.Used = 4, dataAt, dataAt+64, dataAt+128
		if err := w.drv.Reset(w.mem, cfg); !errors.Is(err, ring.ErrOutstanding) {
			t.Errorf("%v: reset with chains outstanding: %v", f, err)
		}
		w.reap(2)
		for w.drv.Outstanding() > 0 {
			if _, ok := w.drv.DetachUnused(); !ok {
				t.Fatal("nothing to detach")
			}
		}
		bad := cfg
		bad.Desc++
		if err := w.drv.Reset(w.mem, bad); !errors.Is(err, ring.ErrMisplaced) {
			t.Errorf("%v: reset to a bad place: %v", f, err)
		}
		if err := w.drv.Reset(w.mem, cfg); err != nil {
			t.Fatal(err)
		}
		w.cfg = cfg
		w.restart()
		for range 5 {
			for i := range 4 {
				if err := w.drv.Add([]ring.Buf{{Addr: dataAt + 4096, Len: 10}}, nil, uint32(i)); err != nil {
					t.Fatal(err)
				}
			}
			w.drv.Publish()
			w.serve(4)
			w.reap(4)
		}
	}
}

func TestPackedRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*ring.Config)
		want   error
	}{
		"size 0":                   {func(c *ring.Config) { c.Size = 0 }, ring.ErrSize},
		"size 32769":               {func(c *ring.Config) { c.Size = 32769 }, ring.ErrSize},
		"ring not aligned":         {func(c *ring.Config) { c.Desc += 8 }, ring.ErrMisplaced},
		"driver event not aligned": {func(c *ring.Config) { c.Avail += 2 }, ring.ErrMisplaced},
		"device event not aligned": {func(c *ring.Config) { c.Used += 2 }, ring.ErrMisplaced},
		"available beyond":         {func(c *ring.Config) { c.Base = 0x8000_8003 }, ring.ErrBase},
		"used beyond":              {func(c *ring.Config) { c.Base = 0x8003_8000 }, ring.ErrBase},
		"used after available":     {func(c *ring.Config) { c.Base = 0x8002_8001 }, ring.ErrBase},
		"more than a lap":          {func(c *ring.Config) { c.Base = 0x8000_0001 }, ring.ErrBase},
		"log not aligned":          {func(c *ring.Config) { c.Log.Bitmap = make([]byte, 64)[1:] }, ring.ErrLog},
	} {
		w := newWorld(t, 3, packed)
		tc.change(&w.cfg)
		if _, err := ring.NewDevice(w.mem, w.cfg); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// A device starts with a lap under way, and with none, at any position.
func TestPackedBase(t *testing.T) {
	for _, base := range []uint32{0x8000_8000, 0x8002_8002, 0x0001_0001, 0x8000_8002, 0x8001_0001, 0x8002_0002} {
		w := newWorld(t, 3, packed)
		w.cfg.Base = base
		w.restart()
		if w.dev.Base() != base {
			t.Errorf("base %#x became %#x", base, w.dev.Base())
		}
		w.cfg.BaseFromUsed = true
		w.restart()
		if want := base>>16 | base&0xffff_0000; w.dev.Base() != want {
			t.Errorf("base %#x from the used half: %#x", base, w.dev.Base())
		}
	}
}

// 70,000 packets and a bit over a ring of 100: 700 laps, so the wrap counters are
// where they began.
func TestFault044PackedBase(t *testing.T) {
	for _, f := range []virtio.Features{packed, packed | inOrder} {
		w := newWorld(t, 100, f)
		for range 1000 {
			w.add(70)
			w.serve(70)
			w.reap(70)
		}
		w.add(105 - 100)
		w.take()
		if got := w.dev.Base(); got != 0x8000_8001 {
			t.Errorf("%v: base %#x", f, got)
		}
		w.dev.Unget(1)
		if got := w.dev.Base(); got != 0x8000_8000 {
			t.Errorf("%v: base %#x after putting the chain back", f, got)
		}
		w.cfg.Base = w.dev.Base()
		w.restart()
		w.serve(5)
		w.reap(5)
	}
}

// Chains that were made available before a packed device existed are there without
// a kick.
func TestFault041PackedAvailBeforeStart(t *testing.T) {
	w := newWorld(t, 8, packed|eventIdx)
	w.add(3)
	w.restart()
	if w.dev.Pending() != 3 || !w.dev.EnableKicks() {
		t.Errorf("%d pending", w.dev.Pending())
	}
	w.serve(3)
}

// A device that is busy has disabled kicks, with EVENT_IDX too, and they stay so
// whatever it does with the ring until it enables them.
func TestFault070PackedKicksStayDisabled(t *testing.T) {
	for _, f := range []virtio.Features{packed, packed | eventIdx} {
		w := newWorld(t, 8, f)
		w.dev.DisableKicks()
		for range 20 {
			w.add(3)
			if w.drv.NeedKick() {
				t.Errorf("%v: a kick although the device is busy", f)
			}
			w.serve(3)
			w.reap(3)
			if _, flags := w.event(usedAt); flags != 1 {
				t.Fatalf("%v: flags %d, want 1", f, flags)
			}
		}
		w.dev.EnableKicks()
		w.add(1)
		if !w.drv.NeedKick() {
			t.Errorf("%v: no kick although the device sleeps", f)
		}
	}
}

// The first call after a start does not depend on where the driver's event is.
func TestFault064PackedFirstCall(t *testing.T) {
	for _, event := range []uint32{0, 1 << 16, 2<<16 | 0x8005, 2 << 16, 2<<16 | 0x7fff} {
		w := newWorld(t, 8, packed|eventIdx)
		le.PutUint32(w.b[availAt-memBase:], event)
		w.add(1)
		w.serve(1)
		w.wantCall(true, ring.CallFirst)
		w.wantCall(false, ring.CallNoneUsed)
	}
}

// The rule for positions, over the end of the ring (virtio 1.3 §2.8.10.1).
func TestPackedNeedCall(t *testing.T) {
	for _, tc := range []struct {
		before, n int    // descriptors published up to the last evaluation, and since
		event     uint32 // the driver's structure
		need      bool
		why       ring.CallReason
	}{
		{1, 1, 0, true, ring.CallFlag}, {1, 1, 1 << 16, false, ring.CallNoInterrupt},
		{1, 1, 2<<16 | 0x8001, true, ring.CallEvent}, {1, 1, 2<<16 | 0x8002, false, ring.CallEventIdx},
		{1, 1, 2<<16 | 0x8000, false, ring.CallEventIdx}, {1, 4, 2<<16 | 0x8004, true, ring.CallEvent},
		{6, 4, 2<<16 | 0x8006, true, ring.CallEvent}, {6, 4, 2<<16 | 0x8007, true, ring.CallEvent},
		{6, 4, 2 << 16, true, ring.CallEvent}, {6, 4, 2<<16 | 1, true, ring.CallEvent}, {6, 4, 2<<16 | 2, false, ring.CallEventIdx},
		{6, 4, 2<<16 | 0x8005, false, ring.CallEventIdx}, {6, 1, 2 << 16, false, ring.CallEventIdx},
		{6, 8, 2<<16 | 5, true, ring.CallEvent}, {6, 8, 2<<16 | 6, false, ring.CallEventIdx},
		{1, 1, 3 << 16, true, ring.CallFlag}, // reserved: a call too many does no harm
	} {
		w := newWorld(t, 8, packed|eventIdx)
		w.add(tc.before)
		w.serve(tc.before)
		w.dev.NeedCall()
		w.reap(tc.before)
		w.add(tc.n)
		w.serve(tc.n)
		le.PutUint32(w.b[availAt-memBase:], tc.event)
		if need, why := w.dev.NeedCall(); need != tc.need || why != tc.why {
			t.Errorf("%d then %d, event %#x: %v, %v; want %v, %v", tc.before, tc.n, tc.event, need, why, tc.need, tc.why)
		}
	}
}

// Without EVENT_IDX a position means nothing.
func TestPackedPositionWithoutEventIdx(t *testing.T) {
	w := newWorld(t, 8, packed)
	w.add(1)
	w.serve(1)
	w.dev.NeedCall()
	w.add(1)
	w.serve(1)
	le.PutUint32(w.b[availAt-memBase:], 2<<16|0x8005)
	w.wantCall(true, ring.CallFlag)
}

// The three quarters of enable_cb_delayed are a position too: what is used up to
// there needs no call.
func TestFault082PackedDelayedCalls(t *testing.T) {
	w := newWorld(t, 8, packed|eventIdx)
	w.drv.DisableCalls()
	w.add(8)
	if w.drv.EnableCallsDelayed() {
		t.Fatal("nothing is used")
	}
	if off, flags := w.event(availAt); off != 0x8006 || flags != 2 {
		t.Errorf("event %#x, %d; want position 6", off, flags)
	}
	w.serve(1)
	w.wantCall(true, ring.CallFirst)
	w.serve(5)
	w.wantCall(false, ring.CallEventIdx)
	w.serve(1)
	w.wantCall(true, ring.CallEvent)
}
