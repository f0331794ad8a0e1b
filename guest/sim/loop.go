// Package sim is the event loop of the simulated guest: virtual time that jumps
// from one event to the next. It is without wall clock, goroutines and locks,
// and in the steady state without allocation. Events at the same time run in
// the order in which they were set, so that a run depends on nothing but its
// inputs.
package sim

import "github.com/vnetbench/vnetbench/virtio/vtime"

// Actor is what events happen to. Run is called at the event's time with the
// word that the event was set with; it may set and stop further events.
type Actor interface {
	Run(now vtime.Time, arg uint64)
}

// Loop is a queue of events and the time of the one that ran last. The zero
// value is an empty loop at time 0. It is not safe for concurrent use.
type Loop struct {
	// Events is the number of events that ran.
	Events uint64

	now     vtime.Time
	order   uint64 // of the next event to be set: breaks ties
	heap    []key
	slots   []slot
	free    int32 // first free slot + 1; 0 if none
	stopped bool
}

// slot is one pending event or one timer: what the heap's keys refer to.
type slot struct {
	actor Actor
	arg   uint64
	pos   int32 // index in the heap, or idle
	next  int32 // free list: next free slot + 1
	timer bool  // kept after it ran
}

const idle int32 = -1

// Now returns the current virtual time.
func (l *Loop) Now() vtime.Time { return l.now }

// At makes a.Run(t, arg) happen once. A time that has passed counts as now: the
// event runs after those that are already due. An event at vtime.Never is none.
func (l *Loop) At(t vtime.Time, a Actor, arg uint64) {
	if t == vtime.Never {
		return
	}
	l.push(t, l.take(a, arg, false))
}

// Next returns the time of the next event, or vtime.Never.
func (l *Loop) Next() vtime.Time {
	if len(l.heap) == 0 {
		return vtime.Never
	}
	return l.heap[0].t
}

// Pending returns the number of events that wait.
func (l *Loop) Pending() int { return len(l.heap) }

// Step runs the next event, moving time to it. It returns false if there is
// none or the loop was stopped.
func (l *Loop) Step() bool {
	if l.stopped || len(l.heap) == 0 {
		return false
	}
	k := l.heap[0]
	l.remove(0)
	s := &l.slots[k.slot]
	a, arg := s.actor, s.arg
	if !s.timer {
		l.release(k.slot)
	}
	l.now = k.t
	l.Events++
	a.Run(k.t, arg)
	return true
}

// RunUntil runs every event up to and including time t, and leaves the loop at
// t unless Stop was called on the way. With vtime.Never it runs until no event
// is left, and time stays at the last one.
func (l *Loop) RunUntil(t vtime.Time) {
	for l.Next() <= t && l.Step() {
	}
	if !l.stopped && t != vtime.Never && t > l.now {
		l.now = t
	}
}

// Stop makes RunUntil and Step return after the event that is running. The
// events that wait are kept.
func (l *Loop) Stop() { l.stopped = true }

// Stopped reports whether Stop was called.
func (l *Loop) Stopped() bool { return l.stopped }

// Resume takes back a Stop.
func (l *Loop) Resume() { l.stopped = false }

// take reserves a slot.
func (l *Loop) take(a Actor, arg uint64, timer bool) int32 {
	s := slot{actor: a, arg: arg, pos: idle, timer: timer}
	if i := l.free - 1; i >= 0 {
		l.free = l.slots[i].next
		l.slots[i] = s
		return i
	}
	l.slots = append(l.slots, s)
	return int32(len(l.slots) - 1)
}

// release gives a slot back.
func (l *Loop) release(i int32) {
	l.slots[i] = slot{pos: idle, next: l.free}
	l.free = i + 1
}
