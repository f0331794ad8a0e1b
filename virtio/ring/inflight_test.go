package ring_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// newRecorded makes a world whose device keeps a record of chains in flight.
func newRecorded(t tb, size uint16, f virtio.Features) *world {
	t.Helper()
	w := newWorld(t, size, f)
	w.cfg.Inflight = make([]byte, ring.InflightBytes(size, f))
	w.restart()
	return w
}

// shift is a device's work on a ring, of which any store may be its last. Chains
// carry their token in their first buffer.
type shift struct {
	*world
	rng   *rand.Rand
	added uint32
	taken map[uint32]int // by token: how often
	back  []uint32       // tokens in the order in which they came back
	heads []uint16       // chains out, as they were taken
	last  bool           // the last of heads was taken last of all
	order []uint32       // tokens in the order in which they were taken first
}

var errDied = errors.New("the device died here")

// dies runs f, which must not call Fatal, and lets the device die at store n of it.
// It reports whether that came.
func dies(n int, f func()) (died bool) {
	defer ring.SetCrashHook(nil)
	defer func() {
		if r := recover(); r != nil {
			if r != errDied {
				panic(r)
			}
			died = true
		}
	}()
	ring.SetCrashHook(func() {
		if n--; n == 0 {
			panic(errDied)
		}
	})
	f()
	return false
}

func newShift(t *testing.T, seed uint64, f virtio.Features) *shift {
	size := uint16(8)
	if f.Has(virtio.FeatureRingPacked) {
		size = 11
	}
	return &shift{
		world: newRecorded(t, size, f), rng: rand.New(rand.NewPCG(seed, 3)), taken: map[uint32]int{},
	}
}

// fill makes chains available until the ring is full.
func (s *shift) fill() {
	for {
		n := 1 + s.rng.IntN(3)
		at := uint64(dataAt) + uint64(s.added%64)*64
		b := []ring.Buf{{Addr: at, Len: 4}, {Addr: at + 4, Len: 5}, {Addr: at + 9, Len: 6}}[:n]
		out, in := b, []ring.Buf(nil)
		if n > 1 && s.rng.IntN(2) == 0 {
			out, in = b[:n-1], b[n-1:]
		}
		if s.drv.Add(out, in, s.added) != nil {
			break
		}
		le.PutUint32(s.b[at-memBase:], s.added)
		s.added++
	}
	s.drv.Publish()
}

// take takes a chain, if there is one.
func (s *shift) takeAny() bool {
	ok, err := s.dev.Next(&s.c)
	if err != nil {
		s.t.Fatalf("Next: %v", err)
	}
	if ok {
		token := le.Uint32(s.c.Out[0])
		if s.taken[token]++; s.taken[token] == 1 {
			s.order = append(s.order, token)
		}
		s.heads, s.last = append(s.heads, s.c.Head), true
	}
	return ok
}

// push gives one chain back.
func (s *shift) push() {
	if len(s.heads) > 0 {
		i := s.rng.IntN(len(s.heads))
		h := s.heads[i]
		s.last = s.last && i < len(s.heads)-1
		s.heads = slices.Delete(s.heads, i, i+1)
		s.dev.Push(h, 0)
	}
}

// work is one round of the device's.
func (s *shift) work() {
	for range s.rng.IntN(6) {
		s.takeAny()
	}
	if n := len(s.heads); s.last && s.rng.IntN(3) == 0 {
		s.heads, s.last = s.heads[:n-1], false
		s.dev.Unget(1)
	}
	for range s.rng.IntN(6) {
		s.push()
	}
	s.dev.Publish()
}

// reapAny takes back what there is.
func (s *shift) reapAny() {
	for {
		token, _, ok := s.drv.Reap()
		if !ok {
			break
		}
		s.back = append(s.back, token)
	}
	if s.drv.Err() != nil {
		s.t.Fatalf("after %d chains: %v", len(s.back), s.drv.Err())
	}
}

// recover puts a new device on the ring, which may die as well, at its store n.
func (s *shift) recover(n int) (died bool) {
	s.heads, s.last = s.heads[:0], false
	var err error
	died = dies(n, func() { s.dev, err = ring.NewDevice(s.mem, s.cfg) })
	if err != nil {
		s.t.Fatalf("recovery: %v", err)
	}
	return died
}

// checkOrder takes what the device before left, which must come in the order in
// which it was taken.
func (s *shift) checkOrder() {
	last := -1
	for before := len(s.order); s.takeAny(); {
		if len(s.order) > before {
			break // a new one
		}
		at := slices.Index(s.order, le.Uint32(s.c.Out[0]))
		if at < last {
			s.t.Fatalf("chain %d of those taken comes after %d", at, last)
		}
		last = at
	}
}

// finish gives everything back and checks that nothing is lost, and nothing came
// twice.
func (s *shift) finish() {
	for s.takeAny() {
	}
	s.reapAny()
	for len(s.heads) > 0 {
		s.push()
		s.dev.Publish()
		s.reapAny() // which must not see what the device before wrote ahead
	}
	slices.Sort(s.back)
	for i, token := range s.back {
		if int(token) != i {
			s.t.Fatalf("chain %d is missing or came twice: %v", i, s.back)
		}
	}
	if len(s.back) != int(s.added) || s.drv.Outstanding() != 0 {
		s.t.Fatalf("%d of %d chains came back, %d outstanding", len(s.back), s.added, s.drv.Outstanding())
	}
}

// TestCrashAtEveryStep lets a device die between any two stores to the ring and the
// record, the next one in the middle of its recovery, and has a third finish: every
// chain comes back once.
func TestCrashAtEveryStep(t *testing.T) {
	for _, f := range combinations(indirect, inOrder, packed) {
		t.Run(f.String(), func(t *testing.T) {
			steps := 0
			for seed := range uint64(3) {
				for n := 1; runShift(t, seed, f, n); n++ {
					steps++
				}
			}
			if steps < 100 {
				t.Errorf("only %d places to die", steps)
			}
			t.Logf("died at %d places", steps)
		})
	}
}

// runShift runs a shift that dies at store n, and reports whether it came to that.
func runShift(t *testing.T, seed uint64, f virtio.Features, n int) (died bool) {
	s := newShift(t, seed, f)
	died = dies(n, func() {
		for range 8 {
			s.fill()
			s.work()
			s.reapAny()
		}
	})
	if died && n%2 == 0 {
		s.reapAny() // the driver goes on meanwhile
		s.fill()
	}
	for k := 1; died && s.recover(k) && k < 4; k++ {
	}
	if died {
		s.recover(1 << 30)
		s.checkOrder()
	}
	s.finish()
	return died
}

// Ten chains in flight when the device dies are taken again in the order of their
// counters, once each, before any other.
func TestFault166ResubmitInOrder(t *testing.T) {
	for _, f := range []virtio.Features{0, packed, inOrder, packed | inOrder} {
		w := newRecorded(t, 16, f)
		add := func(n int) {
			for range n {
				at := uint64(dataAt) + 64*uint64(w.drv.Outstanding())
				if err := w.drv.Add([]ring.Buf{{Addr: at, Len: 8}}, nil, uint32(w.drv.Outstanding())); err != nil {
					t.Fatal(err)
				}
				w.b[at-memBase] = byte(w.drv.Outstanding() - 1)
			}
			w.drv.Publish()
		}
		add(12)
		for range 10 {
			w.take()
		}
		w.dev.Unget(1)
		w.take()
		add(2)
		w.restart()
		if w.dev.Pending() != 14 || w.dev.InFlight() != 0 {
			t.Errorf("%v: %d pending, %d in flight", f, w.dev.Pending(), w.dev.InFlight())
		}
		var heads []uint16
		for i := range 14 {
			heads = append(heads, w.take())
			if got := w.c.Out[0][0]; int(got) != i {
				t.Errorf("%v: chain %d came as number %d", f, got, i)
			}
		}
		w.dev.Unget(12) // among them such that were in flight
		if w.dev.Pending() != 12 {
			t.Errorf("%v: %d pending after putting back 12", f, w.dev.Pending())
		}
		w.dev.Push(heads[0], 0)
		w.dev.Push(heads[1], 0)
		w.serve(12)
		w.reap(14)
		if w.drv.Err() != nil || w.drv.Outstanding() != 0 {
			t.Errorf("%v: %v, %d outstanding", f, w.drv.Err(), w.drv.Outstanding())
		}
	}
}

// With a record, a packed ring goes on after its device died, whatever base the
// front-end gives; without, at the base, of which virtio-user sends half.
func TestFault164PackedReconnect(t *testing.T) {
	w := newRecorded(t, 8, packed)
	for range 5 {
		w.add(3)
		w.serve(3)
		w.reap(3)
	}
	w.add(2)
	w.take()
	w.restart()                                              // at 0x80008000
	if w.dev.Base() != 0x0007_8000 || w.dev.Pending() != 2 { // used 7, a lap on; next 0, two laps on
		t.Errorf("base %#x, %d pending", w.dev.Base(), w.dev.Pending())
	}
	w.serve(2)
	w.reap(2)

	w = newWorld(t, 8, packed)
	w.cfg.Base = 0x8000 // used half zero
	w.restart()
	w.add(8)
	w.serve(8)
	w.reap(8)
	if w.dev.Base() != 0 { // both at 0, a lap on
		t.Errorf("base %#x", w.dev.Base())
	}
	w.cfg.Base = 0 // literal: wrap counters 0
	w.restart()
	w.add(3)
	w.serve(3)
	w.reap(3)
}

// Base 0 is literal, unless it is known to be a new ring's and looks like one.
func TestFault164PackedBaseZero(t *testing.T) {
	w := newWorld(t, 4, packed)
	w.cfg.ZeroIsStart, w.cfg.Base = true, 0
	w.restart()
	w.add(2)
	w.serve(2)
	w.reap(2)
	w.add(2)
	w.serve(2)
	w.reap(2)
	if w.dev.Base() != 0 {
		t.Fatalf("base %#x a lap on", w.dev.Base())
	}
	w.add(1)
	w.restart()
	w.serve(1)
	w.reap(1)
}

// A device that is closed with nothing in flight leaves no record: the next one
// starts at its base, since the driver may have made the ring anew.
func TestInflightClose(t *testing.T) {
	for _, f := range []virtio.Features{0, packed} {
		w := newRecorded(t, 8, f)
		w.add(5)
		w.serve(5)
		w.reap(5)
		w.dev.Close()
		record := w.cfg.Inflight
		w.cfg.Inflight = nil
		var err error
		if w.drv, err = ring.NewDriver(w.mem, w.cfg); err != nil {
			t.Fatal(err)
		}
		w.cfg.Inflight = record
		w.restart()
		w.add(8)
		w.serve(8)
		w.reap(8)

		w.add(2)
		w.take()
		w.dev.Close() // not with a chain out
		w.restart()
		w.serve(2)
		w.reap(2)
	}
}

// The record of a ring that the driver has made anew, with another size or from its
// start, is dropped.
func TestInflightOfAnotherRing(t *testing.T) {
	w := newRecorded(t, 8, 0)
	w.add(5)
	w.take()
	w.take()
	fresh := newWorld(t, 8, 0)
	fresh.cfg.Inflight = w.cfg.Inflight
	fresh.restart()
	if fresh.dev.Pending() != 0 {
		t.Errorf("%d pending in an empty ring", fresh.dev.Pending())
	}
	for _, f := range []virtio.Features{0, packed} {
		w = newRecorded(t, 8, f)
		w.add(5)
		w.take()
		small := newWorld(t, 4, f)
		small.cfg.Inflight = w.cfg.Inflight
		small.restart()
		small.add(4)
		small.serve(4)
		small.reap(4)
	}
}
