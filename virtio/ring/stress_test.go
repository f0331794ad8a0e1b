package ring_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/virtio"
)

// party is one side of a running ring. It sleeps when it has armed its wish and
// found nothing to do, until the other rings its bell.
type party struct {
	bell   atomic.Uint64 // calls or kicks so far
	seen   atomic.Uint64 // bell when it last woke or armed
	asleep atomic.Bool
	rand   uint32
}

// dawdle spends a random time of up to a tenth of a microsecond, so that the two sides
// meet at every offset.
func (p *party) dawdle() {
	p.rand = p.rand*1664525 + 1013904223
	for n := p.rand >> 25; n > 0; n-- {
		p.rand++
	}
}

// arm notes the bell before the wish is written, so that a ring in between wakes.
func (p *party) arm() { p.seen.Store(p.bell.Load()) }

// sleep waits for the bell. It returns false if the other sleeps too and no bell
// is out: then neither will ever wake.
func (p *party) sleep(other *party, done *atomic.Bool) bool {
	p.asleep.Store(true)
	defer p.asleep.Store(false)
	for p.bell.Load() == p.seen.Load() {
		if done.Load() {
			return true
		}
		// Whoever sleeps changes nothing; so if the other slept before and after its
		// bell was seen unrung, and ours has not been rung since, it is for good.
		if other.asleep.Load() && other.bell.Load() == other.seen.Load() &&
			other.asleep.Load() && p.bell.Load() == p.seen.Load() {
			return false
		}
		runtime.Gosched()
	}
	return true
}

// serve is the device's side: it works until done.
func (p *party) serve(w *world, driver *party, done, dead *atomic.Bool) {
	for !done.Load() {
		w.dev.DisableKicks()
		for {
			ok, err := w.dev.Next(&w.c)
			if err != nil {
				w.t.Errorf("Next: %v", err)
				dead.Store(true)
				done.Store(true)
			}
			if !ok {
				break
			}
			w.dev.Push(w.c.Head, 0)
			p.dawdle()
			w.dev.Publish()
			if need, _ := w.dev.NeedCall(); need {
				driver.bell.Add(1)
			}
		}
		p.dawdle()
		p.arm()
		if !w.dev.EnableKicks() && !p.sleep(driver, done) {
			dead.Store(true)
			done.Store(true)
			return
		}
	}
}

// race runs both sides of a ring on two threads for a while, each of which goes to
// sleep whenever it has nothing to do, and returns the chains that went through
// and whether somebody slept over work. The driver has at most window chains out. The shared memory is accessed through
// package shm alone, which the race detector does not look into.
func race(w *world, d time.Duration, window int, delayed bool) (chains int, lost bool) {
	var driver, device party
	var done, dead atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() { device.serve(w, &driver, &done, &dead) })
	out := bufs(64)
	for end := time.Now().Add(d); !dead.Load() && time.Now().Before(end); {
		w.drv.DisableCalls()
		for w.drv.Outstanding() < window && w.drv.Add(out, nil, 0) == nil {
			driver.dawdle()
			w.drv.Publish()
			if w.drv.NeedKick() {
				device.bell.Add(1)
			}
		}
		for {
			if _, _, ok := w.drv.Reap(); !ok {
				break
			}
			chains++
		}
		driver.dawdle()
		driver.arm()
		pending := false
		if delayed {
			pending = w.drv.EnableCallsDelayed()
		} else {
			pending = w.drv.EnableCalls()
		}
		if !pending && w.drv.Outstanding() == window && !driver.sleep(&device, &done) {
			dead.Store(true)
		}
	}
	done.Store(true)
	wg.Wait()
	return chains, dead.Load()
}

// TestRearmLitmus races the re-arming of both sides against the publishing of the
// other. It needs the fences in NeedKick, NeedCall, EnableKicks, EnableCalls and
// EnableCallsDelayed: without any one of them it failed in most runs on two
// processors of amd64, without all of them in every run. In a ring of 64 entries
// indices and events lie on cache lines of their own, which is where the order
// shows.
func TestRearmLitmus(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Log("one processor: the sides never run at once")
	}
	for _, f := range []virtio.Features{0, eventIdx, packed, packed | eventIdx, packed | eventIdx | inOrder} {
		for _, window := range []int{1, 2, 64} {
			for _, delayed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/window=%d/delayed=%v", f, window, delayed), func(t *testing.T) {
					chains, lost := race(newWorld(t, 64, f), 75*time.Millisecond, window, delayed)
					if lost {
						t.Errorf("both sides sleep after %d chains", chains)
					}
					t.Logf("%d chains", chains)
				})
			}
		}
	}
}
