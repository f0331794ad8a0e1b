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
	order   uint64 // of the event set last: breaks ties
	wheel   wheel
	due     due
	slots   []slot
	free    int32      // first free slot + 1; 0 if none
	limit   vtime.Time // of the RunUntil that runs; 0 in a Step
	stopped bool
}

// slot is one pending event or one timer: what buckets and due events refer to.
// It is as long as a line of the cache.
type slot struct {
	actor  Actor
	arg    uint64
	t      vtime.Time // when it runs; vtime.Never if it does not
	order  uint64     // of the Set, Stop or At that said so; 0 once it ran
	prev   int32      // in its bucket: slot + 1
	next   int32      // in its bucket, or the free list: slot + 1
	bucket uint16     // of the wheel, or nowhere
	due    bool       // it waits among the due, whatever bucket it is in
	timer  bool       // kept after it ran
	_      [8]byte
}

// Now returns the current virtual time.
func (l *Loop) Now() vtime.Time { return l.now }

// At makes a.Run(t, arg) happen once. A time that has passed counts as now: the
// event runs after those that are already due. An event at vtime.Never is none.
func (l *Loop) At(t vtime.Time, a Actor, arg uint64) {
	if t == vtime.Never {
		return
	}
	l.arm(l.take(a, arg, false), max(t, l.now))
}

// arm makes slot i run at t, which is not past and not when it runs already, or
// not at all.
func (l *Loop) arm(i int32, t vtime.Time) {
	s := &l.slots[i]
	l.order++
	s.t, s.order, s.due = t, l.order, t == l.now
	if !s.due && t != vtime.Never {
		l.file(i, s)
		return
	}
	if s.bucket <= digitMask {
		l.pull(s)
	}
	if s.due {
		l.due.push(dueEvent{l.order, i})
	}
}

// Next returns the time of the next event, or vtime.Never.
func (l *Loop) Next() vtime.Time {
	if _, ok := l.first(); ok {
		return l.now
	}
	return l.soonest()
}

// Alone reports whether no other event waits for the current time. What an actor
// would set for now as the last thing that it does, it may then do at once
// instead: nothing could come between.
func (l *Loop) Alone() bool {
	_, ok := l.first()
	return !ok && !l.stopped
}

// Pass moves time to t, which is later than now, and returns true, if an event that
// were set for t now would run next. What an actor would set for a later time as
// the last thing that it does, it may then do at once instead.
func (l *Loop) Pass(t vtime.Time) bool {
	if t > l.limit || t == vtime.Never || !l.Alone() || !l.wheel.free(l, t) {
		return false
	}
	l.now = t
	l.Events++
	return true
}

// Pending returns the number of events that wait.
func (l *Loop) Pending() int {
	n := 0
	for i := range l.slots {
		if l.slots[i].t != vtime.Never {
			n++
		}
	}
	return n
}

// Step runs the next event, moving time to it. It returns false if there is
// none or the loop was stopped.
func (l *Loop) Step() bool {
	outer := l.limit
	l.limit = 0
	ran := !l.stopped && l.step(vtime.Never)
	l.limit = outer
	return ran
}

// step is Step for an event not after limit, in a loop that was not stopped.
func (l *Loop) step(limit vtime.Time) bool {
	i, ok := l.first()
	switch {
	case !ok:
		if i, ok = l.advance(limit); !ok {
			return false
		}
	case l.now > limit:
		return false
	default:
		l.due.head++
	}
	s := &l.slots[i]
	s.t, s.order, s.due = vtime.Never, 0, false
	l.Events++
	a, arg := s.actor, s.arg
	if !s.timer {
		l.release(i)
	}
	a.Run(l.now, arg)
	return true
}

// RunUntil runs every event up to and including time t, and leaves the loop at
// t unless Stop was called on the way. With vtime.Never it runs until no event
// is left, and time stays at the last one.
func (l *Loop) RunUntil(t vtime.Time) {
	outer := l.limit
	l.limit = t
	for !l.stopped && l.step(t) {
	}
	l.limit = outer
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
	s := slot{actor: a, arg: arg, t: vtime.Never, bucket: nowhere, timer: timer}
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
	s := &l.slots[i]
	s.actor, s.next = nil, l.free
	l.free = i + 1
}
