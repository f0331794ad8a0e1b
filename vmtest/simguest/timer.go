package simguest

import (
	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// timer is a timer of the guest's kernel: it is set to a reading of the guest's
// clock and goes off when the guest's hardware makes it.
type timer struct {
	sim.Timer
	w  *world
	at vtime.Time // the reading it is set to; meaningful while armed
	hr *hrtimer   // of a guest whose timers share a clock event device; else nil
}

func (w *world) newTimer(a sim.Actor, arg uint64) timer {
	if w.ce != nil {
		return timer{w: w, hr: w.ce.newTimer(a, arg)}
	}
	return timer{Timer: w.loop.NewTimer(a, arg), w: w}
}

// Set arms the timer for a reading of the clock, or stops it for vtime.Never. A
// timer that is set to what it is already set to keeps its place.
func (t *timer) Set(at vtime.Time) {
	if t.hr != nil {
		t.hr.set(at, at)
		return
	}
	if t.Armed() && t.at == at {
		return
	}
	t.at = at
	t.Timer.Set(t.w.cost.cpu.Expiry(t.w.now(), at))
}

// Window arms the timer for a reading between two, whenever the CPU takes a timer
// interrupt anyway, but not later than the second.
func (t *timer) Window(from, to vtime.Time) {
	if t.hr != nil {
		t.hr.set(from, to)
		return
	}
	t.Set(to)
}

// Stop disarms the timer.
func (t *timer) Stop() {
	if t.hr != nil {
		t.hr.set(vtime.Never, vtime.Never)
		return
	}
	t.Timer.Stop()
}
