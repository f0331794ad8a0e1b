package simguest

import (
	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// clockEvent is the one timer of a guest with one CPU that makes interrupts, and
// the high-resolution timers that share it (hrtimer_interrupt,
// kernel/time/hrtimer.c, v6.1 and v6.12). It is programmed for the timer that
// must expire first. An interrupt runs every timer that may expire by then, also
// those that somebody else's interrupt finds due.
type clockEvent struct {
	w      *world
	timers []*hrtimer
	event  sim.Timer
	next   vtime.Time // the reading that it is programmed for
	raised bool       // the softirq of expired timers is raised and has not run
	inside bool       // the interrupt handler runs, and programs at its end
	order  uint64
}

// hrtimer is a timer of the guest that is set to readings of its clock.
type hrtimer struct {
	ce       *clockEvent
	actor    sim.Actor
	arg      uint64
	from, to vtime.Time // it may expire from one reading on and does at the other
	order    uint64     // of setting, among those that must expire together
	late     bool       // it expires in a softirq (HRTIMER_MODE_SOFT)
}

// maxTimerRetries is how often the handler looks again for timers that came due
// while it ran (hrtimer_interrupt).
const maxTimerRetries = 3

func newClockEvent(w *world) *clockEvent {
	e := &clockEvent{w: w, next: vtime.Never}
	e.event = w.loop.NewTimer(e, 0)
	return e
}

func (e *clockEvent) newTimer(a sim.Actor, arg uint64) *hrtimer {
	h := &hrtimer{ce: e, actor: a, arg: arg, from: vtime.Never, to: vtime.Never}
	e.timers = append(e.timers, h)
	return h
}

// set arms a timer, moves it, or stops it for vtime.Never.
func (h *hrtimer) set(from, to vtime.Time) {
	if h.from == from && h.to == to {
		return
	}
	h.from, h.to = from, to
	h.order = h.ce.order
	h.ce.order++
	h.ce.program()
}

func (h *hrtimer) armed() bool { return h.to != vtime.Never }

// program sets the hardware for the timer that is first now, if that is another
// than before (hrtimer_reprogram).
func (e *clockEvent) program() {
	if e.inside {
		return
	}
	if first := e.first(); first != e.next {
		e.next = first
		e.event.Set(e.w.cost.cpu.Programmed(e.w.now(), first))
	}
}

// first is the earliest reading by which a timer must expire.
func (e *clockEvent) first() vtime.Time {
	t := vtime.Never
	for _, h := range e.timers {
		if !h.late || !e.raised {
			t = min(t, h.to)
		}
	}
	return t
}

// Run is the hardware's time: the CPU takes the interrupt when it can.
func (e *clockEvent) Run(now vtime.Time, _ uint64) {
	c := e.w.cpus[0]
	if c.hold != nil && !c.Running() {
		c.hold.wait(now) // devices first
	}
	if e.w.soft != nil {
		e.w.soft.idle = c.Waiting(vcpu.Process) == 0
	}
	c.post(now, vcpu.IRQ, (*timerIRQ)(e))
}

// due takes an interrupt whose time has come while a process ran.
func (e *clockEvent) due(now vtime.Time) bool {
	if e.event.When() > now {
		return false
	}
	e.event.Stop()
	return true
}

// timerIRQ is the interrupt handler.
type timerIRQ clockEvent

// Run lets timers expire, looks for more, and programs the hardware.
func (t *timerIRQ) Run(c *vcpu.CPU) {
	e := (*clockEvent)(t)
	e.inside = true
	now := c.ReadClock()
	for range maxTimerRetries {
		if e.lateDue(now) {
			e.raised = true
			e.w.soft.raise(vecHRTimer)
		}
		e.expire(now, false)
		if e.first() > now {
			break
		}
	}
	e.inside = false
	e.next = e.first()
	e.event.Set(c.Table().Programmed(c.Now(), e.next))
	if e.w.soft != nil {
		e.w.soft.irqExit(c)
	}
}

// lateDue reports whether a timer that expires in the softirq must do so.
func (e *clockEvent) lateDue(now vtime.Time) bool {
	if e.raised {
		return false
	}
	for _, h := range e.timers {
		if h.late && h.to <= now {
			return true
		}
	}
	return false
}

// expireLate is the softirq (hrtimer_run_softirq).
func (e *clockEvent) expireLate(now vtime.Time) {
	e.expire(now, true)
	e.raised = false
	e.program()
}

// expire runs the timers of one kind that may expire at a reading, in the order
// in which they must.
func (e *clockEvent) expire(now vtime.Time, late bool) {
	for h := e.expired(now, late); h != nil; h = e.expired(now, late) {
		h.from, h.to = vtime.Never, vtime.Never
		h.actor.Run(now, h.arg)
	}
}

func (e *clockEvent) expired(now vtime.Time, late bool) *hrtimer {
	var first *hrtimer
	for _, h := range e.timers {
		if h.late != late || !h.armed() || first != nil && !h.before(first) {
			continue
		}
		first = h
	}
	if first == nil || first.from > now {
		return nil
	}
	return first
}

func (h *hrtimer) before(o *hrtimer) bool {
	return h.to < o.to || h.to == o.to && h.order < o.order
}
