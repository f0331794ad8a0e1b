package ring_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// desc returns descriptor i of the table at a guest address.
func (w *world) desc(table uint64, i int) desc {
	b := w.b[int(table-memBase)+16*i:]
	return desc{le.Uint64(b), le.Uint32(b[8:]), le.Uint16(b[12:]), le.Uint16(b[14:])}
}

func (w *world) wantDescs(table uint64, first int, want ...desc) {
	w.t.Helper()
	for i, d := range want {
		got := w.desc(table, first+i)
		if diff := cmp.Diff(d, got, cmp.AllowUnexported(desc{})); diff != "" {
			w.t.Errorf("descriptor %d at %#x: -want +got\n%s", first+i, table, diff)
		}
	}
}

// The bytes that a chain leaves in the descriptor table.
func TestDriverDirectBytes(t *testing.T) {
	w := newWorld(t, 8, 0)
	b := bufs(10, 20, 30)
	if err := w.drv.Add(b[:2], b[2:], 1); err != nil {
		t.Fatal(err)
	}
	w.drv.Publish()
	w.wantDescs(descAt, 0, desc{b[0].Addr, 10, fNext, 1}, desc{b[1].Addr, 20, fNext, 2}, desc{b[2].Addr, 30, fWrite, 3})
	if avail := w.b[availAt-memBase:]; le.Uint16(avail) != 0 || le.Uint16(avail[2:]) != 1 || le.Uint16(avail[4:]) != 0 {
		t.Errorf("available ring % x", avail[:6])
	}
	if w.drv.Free() != 5 || w.drv.Outstanding() != 1 {
		t.Errorf("%d free, %d outstanding", w.drv.Free(), w.drv.Outstanding())
	}
}

// With INDIRECT_DESC a chain of two buffers and more costs one slot, and one of a
// single buffer none of the tables.
func TestDriverIndirectBytes(t *testing.T) {
	w := newWorld(t, 8, indirect)
	one, b := bufs(10), bufs(10, 20, 30)
	if w.drv.Add(one, nil, 1) != nil || w.drv.Add(b[:2], b[2:], 2) != nil {
		t.Fatal("full")
	}
	table := uint64(tablesAt + 16*ring.DefaultIndirectEntries)
	w.wantDescs(descAt, 0, desc{one[0].Addr, 10, 0, 1}, desc{table, 48, fIndirect, 2})
	w.wantDescs(table, 0, desc{b[0].Addr, 10, fNext, 1}, desc{b[1].Addr, 20, fNext, 2}, desc{b[2].Addr, 30, fWrite, 0})
	if w.drv.Free() != 6 {
		t.Errorf("%d free", w.drv.Free())
	}
	w.drv.Publish()
	w.serve(2)
	w.reap(2)
	if w.drv.Free() != 8 {
		t.Errorf("%d free after reaping", w.drv.Free())
	}
}

// Slots are reused last in, first out, as Linux does it.
func TestDriverSlotOrder(t *testing.T) {
	w := newWorld(t, 8, 0)
	w.add(4)
	heads := []uint16{w.take(), w.take(), w.take(), w.take()}
	for _, i := range []int{2, 0} {
		w.dev.Push(heads[i], 0)
	}
	w.dev.Publish()
	w.reap(2)
	w.add(3)
	if got := []uint16{w.take(), w.take(), w.take()}; !cmp.Equal(got, []uint16{0, 2, 4}) {
		t.Errorf("heads %v", got)
	}
}

func TestDriverFull(t *testing.T) {
	for _, tc := range []struct {
		f      virtio.Features
		lens   []uint32
		chains int
	}{
		{0, []uint32{1}, 8}, {0, []uint32{1, 1, 1}, 2}, {0, []uint32{1, 1}, 4},
		{indirect, []uint32{1}, 8}, {indirect, []uint32{1, 1, 1}, 8},
		{indirect, make([]uint32, ring.DefaultIndirectEntries), 8},
	} {
		w := newWorld(t, 8, tc.f)
		n := 0
		var err error
		for ; n < 100; n++ {
			if err = w.drv.Add(bufs(tc.lens...), nil, 0); err != nil {
				break
			}
		}
		if n != tc.chains || !errors.Is(err, ring.ErrFull) {
			t.Errorf("%v, %d buffers: %d chains, %v", tc.f, len(tc.lens), n, err)
		}
	}
	w := newWorld(t, 64, indirect)
	if err := w.drv.Add(bufs(make([]uint32, 30)...), nil, 0); err != nil || w.drv.Free() != 34 {
		t.Errorf("chain longer than a table: %v, %d free", err, w.drv.Free())
	}
	if err := w.drv.Add(nil, nil, 0); !errors.Is(err, ring.ErrNoBuffer) {
		t.Errorf("empty chain: %v", err)
	}
}

// A packet of Linux with the default ring: 19 slots must be free before another
// is sent, which leaves 238 packets in flight with indirect tables.
func TestDriverPacketsBeforeStop(t *testing.T) {
	w := newWorld(t, 256, indirect)
	n := 0
	for ; w.drv.Free() >= 19; n++ {
		if err := w.drv.Add(bufs(12, 1500, 1500), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if n != 238 {
		t.Errorf("%d packets", n)
	}
}

// usedEventNow returns used_event as the device sees it.
func (w *world) usedEventNow() uint16 {
	return le.Uint16(w.b[int(availAt-memBase)+4+2*int(w.cfg.Size):])
}

// The delayed wish points three quarters of what is outstanding ahead, rounded
// down.
func TestEnableCallsDelayed(t *testing.T) {
	for _, base := range []uint16{0, 65530} {
		for n := range 65 {
			w := newWorldAt(t, 64, eventIdx, uint32(base))
			w.drv.DisableCalls()
			w.add(n)
			if w.drv.EnableCallsDelayed() {
				t.Fatalf("%d outstanding: pending", n)
			}
			if got, want := w.usedEventNow(), base+uint16(n*3/4); got != want {
				t.Errorf("%d outstanding: used_event %d, want %d", n, got, want)
			}
		}
	}
}

// The delayed wish reports work when more than three quarters are used already,
// and not when exactly so many are.
func TestEnableCallsDelayedPending(t *testing.T) {
	for _, f := range []virtio.Features{0, eventIdx} {
		w := newWorld(t, 16, f)
		w.add(8)
		w.serve(6)
		if w.drv.EnableCallsDelayed() {
			t.Errorf("%v: 6 of 8 used", f)
		}
		w.serve(1)
		if !w.drv.EnableCallsDelayed() {
			t.Errorf("%v: 7 of 8 used", f)
		}
	}
}

// Outstanding counts what was added but not published, as Linux's shadow index.
func TestEnableCallsDelayedUnpublished(t *testing.T) {
	w := newWorld(t, 16, eventIdx)
	for range 8 {
		if err := w.drv.Add(bufs(1), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.drv.EnableCallsDelayed()
	if got := w.usedEventNow(); got != 6 {
		t.Errorf("used_event %d", got)
	}
}

func TestEnableCalls(t *testing.T) {
	for _, f := range []virtio.Features{0, eventIdx} {
		w := newWorld(t, 8, f)
		w.drv.DisableCalls()
		if !w.drv.CallsDisabled() || (f == 0) != (le.Uint16(w.b[availAt-memBase:]) == 1) {
			t.Errorf("%v: flags % x", f, w.b[availAt-memBase:][:2])
		}
		w.add(3)
		w.serve(2)
		w.dev.NeedCall()
		w.reap(1)
		if !w.drv.EnableCalls() {
			t.Errorf("%v: used elements overlooked", f)
		}
		w.reap(1)
		if w.drv.EnableCalls() || w.drv.CallsDisabled() {
			t.Errorf("%v: nothing is used", f)
		}
		w.serve(1)
		if need, why := w.dev.NeedCall(); !need {
			t.Errorf("%v: no call: %v", f, why)
		}
	}
}

// While calls are on, each reaped element moves used_event; while they are off it
// stays, or becomes 0 where Linux writes that.
func TestUsedEventWhileReaping(t *testing.T) {
	for _, zero := range []bool{false, true} {
		w := newWorldAt(t, 8, eventIdx, 100)
		w.cfg.ZeroEvent = zero
		var err error
		if w.drv, err = ring.NewDriver(w.mem, w.cfg); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.add(4)
		w.serve(4)
		w.reap(2)
		if got := w.usedEventNow(); got != 102 {
			t.Errorf("calls on: used_event %d", got)
		}
		w.drv.DisableCalls()
		w.reap(2)
		want := uint16(102)
		if zero {
			want = 0
		}
		if got := w.usedEventNow(); got != want {
			t.Errorf("calls off, zero %v: used_event %d", zero, got)
		}
	}
}

// A device that gives back what it was not given ends the driver's use of the
// ring, with a reason.
func TestDriverBadUsed(t *testing.T) {
	for name, id := range map[string]uint32{"beyond the ring": 8, "not outstanding": 5, "huge": 1 << 31, "again": 0} {
		w := newWorld(t, 8, 0)
		w.add(2)
		used := w.b[usedAt-memBase:]
		le.PutUint32(used[4:], 0)
		le.PutUint32(used[12:], id)
		le.PutUint16(used[2:], 2)
		w.reap(1)
		if _, _, ok := w.drv.Reap(); ok || !errors.Is(w.drv.Err(), ring.ErrBadUsed) {
			t.Errorf("%s: %v, %v", name, ok, w.drv.Err())
		}
		if w.drv.HasUsed() || w.drv.EnableCalls() || w.drv.EnableCallsDelayed() {
			t.Errorf("%s: a broken ring has something to reap", name)
		}
	}
}

func TestDetachUnused(t *testing.T) {
	w := newWorld(t, 8, 0)
	for i := range 3 {
		if err := w.drv.Add(bufs(1, 1), nil, uint32(10+i)); err != nil {
			t.Fatal(err)
		}
	}
	w.drv.Publish()
	w.serve(1)
	w.reap(1)
	var tokens []uint32
	for {
		token, ok := w.drv.DetachUnused()
		if !ok {
			break
		}
		tokens = append(tokens, token)
	}
	if !cmp.Equal(tokens, []uint32{11, 12}) || w.drv.Free() != 8 || w.drv.Outstanding() != 0 {
		t.Errorf("tokens %v, %d free, %d outstanding", tokens, w.drv.Free(), w.drv.Outstanding())
	}
}

func TestDriverTablesRefused(t *testing.T) {
	w := newWorld(t, 8, indirect)
	for base, want := range map[uint64]error{
		tablesAt + 8: ring.ErrMisplaced,
		end - 16:     shm.ErrUnmapped,
		0:            shm.ErrUnmapped,
	} {
		cfg := w.cfg
		cfg.IndirectBase = base
		if _, err := ring.NewDriver(w.mem, cfg); !errors.Is(err, want) {
			t.Errorf("tables at %#x: %v", base, err)
		}
	}
	if n := ring.IndirectBytes(8, 3); n != 8*3*16 {
		t.Errorf("%d bytes of tables", n)
	}
}
