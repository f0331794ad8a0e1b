package ring_test

import "testing"

// Chains that were made available before the device existed are there without
// a kick.
func TestFault041AvailBeforeStart(t *testing.T) {
	w := newWorld(t, 8, eventIdx)
	w.add(3)
	w.restart()
	if w.dev.Pending() != 3 {
		t.Errorf("%d pending", w.dev.Pending())
	}
	w.serve(3)
}

// The base that a stopped ring answers is the index of the next available entry,
// modulo 2^16, and not the used index.
func TestFault044BaseAfterWrap(t *testing.T) {
	w := newWorld(t, 256, 0)
	for range 700 {
		w.add(100)
		w.serve(100)
		w.reap(100)
	}
	w.add(5)
	w.take()
	if got := w.dev.NextAvail(); got != (70001 % 65536) {
		t.Errorf("base %d", got)
	}
	if got := w.dev.UsedIdx(); got != 70000%65536 {
		t.Errorf("used %d", got)
	}
}

// A front-end that resumes a ring from avail.idx skips what was taken and never
// given back; BaseFromUsed takes it again.
func TestFault046ResumeFromUsed(t *testing.T) {
	w := newWorld(t, 8, 0)
	w.add(5)
	w.serve(2)
	w.take()
	w.take()
	w.cfg.Base = w.dev.Base() // as given, literally
	w.restart()
	if w.dev.NextAvail() != 4 || w.dev.Pending() != 1 || w.dev.UsedIdx() != 2 {
		t.Errorf("next %d, %d pending", w.dev.NextAvail(), w.dev.Pending())
	}
	w.cfg.BaseFromUsed = true
	w.restart()
	if w.dev.NextAvail() != 2 || w.dev.Pending() != 3 {
		t.Errorf("from used: next %d, %d pending", w.dev.NextAvail(), w.dev.Pending())
	}
	w.serve(3)
	w.reap(5)
}

func TestUnget(t *testing.T) {
	w := newWorld(t, 8, eventIdx)
	w.add(6)
	var heads []uint16
	for range 5 {
		heads = append(heads, w.take())
	}
	w.dev.Push(heads[0], 0) // the first is done, the last three go back
	w.dev.Unget(3)
	if w.dev.InFlight() != 1 || w.dev.NextAvail() != 2 || w.dev.Pending() != 4 {
		t.Errorf("%d in flight, next %d", w.dev.InFlight(), w.dev.NextAvail())
	}
	if !w.dev.EnableKicks() {
		t.Error("the device may sleep over chains put back")
	}
	for _, want := range heads[2:] {
		if got := w.take(); got != want {
			t.Errorf("head %d, want %d", got, want)
		}
	}
	w.take()
}

// What the device is asked to do that it cannot have been given is our own bug.
func TestMisusePanics(t *testing.T) {
	for name, f := range map[string]func(*world){
		"push":  func(w *world) { w.dev.Push(0, 0) },
		"unget": func(w *world) { w.dev.Unget(1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(newWorld(t, 8, 0))
		})
	}
}

// A chain's slices are reused, and a packet through both sides costs no memory.
func TestNoAllocs(t *testing.T) {
	for _, f := range combinations(indirect, eventIdx, inOrder, packed) {
		w := newWorld(t, 64, f)
		out, in := bufs(12, 1500), bufs(100)
		n := testing.AllocsPerRun(200, func() {
			for range 8 {
				if w.drv.Add(out, in, 1) != nil {
					t.Fatal("full")
				}
			}
			w.drv.Publish()
			w.drv.NeedKick()
			w.serve(8)
			w.dev.NeedCall()
			w.reap(8)
			w.drv.EnableCallsDelayed()
			w.drv.DisableCalls()
			w.dev.EnableKicks()
			w.dev.DisableKicks()
		})
		if n != 0 {
			t.Errorf("%v: %v allocations", f, n)
		}
	}
}
