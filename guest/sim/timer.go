package sim

import "github.com/vnetbench/vnetbench/virtio/vtime"

// Timer is one event of an actor that can be set, moved and stopped for as long
// as the loop lives; re-arming costs no allocation. The zero value is a timer
// of no loop: only Armed and Stop may be called on it.
type Timer struct {
	loop *Loop
	slot int32
}

// NewTimer returns a timer that calls a.Run(now, arg) whenever it expires.
func (l *Loop) NewTimer(a Actor, arg uint64) Timer {
	return Timer{loop: l, slot: l.take(a, arg, true)}
}

// Set arms the timer for t, or moves it there if it is armed. A time that has
// passed counts as now; vtime.Never stops the timer. Among events of the same
// time a moved timer runs as if it had been set just now; one that is set to
// the time it already has keeps its place.
func (m *Timer) Set(t vtime.Time) {
	if t = max(t, m.loop.now); t != m.loop.slots[m.slot].t {
		m.loop.arm(m.slot, t)
	}
}

// SetEarlier arms the timer for t unless it is already armed for t or before.
func (m *Timer) SetEarlier(t vtime.Time) {
	if t < m.When() {
		m.Set(t)
	}
}

// Stop disarms the timer. It does nothing if the timer is not armed.
func (m *Timer) Stop() {
	if m.Armed() {
		m.loop.arm(m.slot, vtime.Never)
	}
}

// Armed reports whether the timer will expire.
func (m *Timer) Armed() bool {
	return m.When() != vtime.Never
}

// When returns the time at which the timer will expire, or vtime.Never.
func (m *Timer) When() vtime.Time {
	if m.loop == nil {
		return vtime.Never
	}
	return m.loop.slots[m.slot].t
}
