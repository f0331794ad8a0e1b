package guest

import (
	"sync"
	"sync/atomic"
	"time"
)

// gate lets writers run and brings them to rest. Writers call enter, then work
// while isOpen, and come back to enter; the other side opens, shuts and ends.
type gate struct {
	open atomic.Bool // read before each write, changed under mu

	mu     sync.Mutex
	change sync.Cond
	ended  bool
	inside int           // writers between enter and the next enter or leave
	since  time.Time     // of the last opening
	active time.Duration // how long it was open before that
}

func newGate() *gate {
	g := new(gate)
	g.change.L = &g.mu
	return g
}

func (g *gate) isOpen() bool { return g.open.Load() }

// enter waits until the gate is open; false means that the end has come.
// entered says whether the caller was inside before.
func (g *gate) enter(entered bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if entered {
		g.inside--
		g.change.Broadcast()
	}
	for !g.open.Load() && !g.ended {
		g.change.Wait()
	}
	if g.ended {
		return false
	}
	g.inside++
	return true
}

// leave is for a writer that has nothing more to write.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.change.Broadcast()
}

func (g *gate) unlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since = time.Now()
	g.open.Store(true)
	g.change.Broadcast()
}

// shut closes the gate and waits until no writer is inside.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open.Swap(false) {
		g.active += time.Since(g.since)
	}
	for g.inside > 0 {
		g.change.Wait()
	}
}

// end lets every writer go for good.
func (g *gate) end() {
	g.shut()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	g.change.Broadcast()
}

// elapsed is how long the gate has been open, in all.
func (g *gate) elapsed() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open.Load() {
		return g.active
	}
	return g.active + time.Since(g.since)
}
