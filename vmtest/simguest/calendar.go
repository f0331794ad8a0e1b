package simguest

import (
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// calendar moves the time of a guest with one CPU that has devices: a UML guest
// with time-travel=ext, whose work is free. Time passes only while the guest
// waits: when it is idle, or when a process reads the clock. The rest of the world
// goes on meanwhile, and before the guest if both are due at the same time
// (time_travel_update_time, arch/um/kernel/time.c, v6.1 and v6.12).
type calendar struct {
	p       *processor
	waiting bool       // the world runs up to a time at which the guest goes on
	until   vtime.Time // that time
	missed  []vcpu.Task
}

// newCalendar makes p a CPU of such a guest.
func newCalendar(p *processor) {
	p.hold = &calendar{p: p}
	p.SetPreempter(p.hold)
}

// late reports whether the guest does not see an interrupt yet, and keeps its
// handler if so: an event that is added while the guest waits for another of the
// same time comes after that, so that the guest goes on without it and sees it
// when it waits the next time (__time_travel_add_event).
func (h *calendar) late(now vtime.Time, t vcpu.Task) bool {
	woken := !h.p.Running() && h.p.w.ce.event.When() == now
	if !woken && !(h.waiting && now == h.until) {
		return false
	}
	h.missed = append(h.missed, t)
	return true
}

// run is the CPU being free with work at hand: it works until it is idle.
func (h *calendar) run(now vtime.Time) {
	p := h.p
	if p.Running() || h.waiting {
		return
	}
	p.w.cur = p
	for p.Step(now) {
		if now = p.w.loop.Now(); p.Idle() {
			h.admit(now)
		}
	}
	p.timer.Set(p.Next())
}

// admit lets the guest see what it missed.
func (h *calendar) admit(now vtime.Time) {
	for _, t := range h.missed {
		h.p.Post(now, vcpu.IRQ, t)
	}
	h.missed = h.missed[:0]
}

// wait runs the rest of the world up to a time.
func (h *calendar) wait(until vtime.Time) {
	if h.waiting || h.p.Running() && h.p.Class() != vcpu.Process {
		return
	}
	h.waiting, h.until = true, until
	h.p.w.loop.RunUntil(until)
	h.waiting, h.p.w.cur = false, h.p
}

// ClockRead is a clock read of a process: interrupts of its time are taken at its
// end (timer_read and deliver_time_travel_irqs, arch/um/kernel/time.c).
func (h *calendar) ClockRead(c *vcpu.CPU) {
	h.admit(c.Now())
	h.wait(c.Now())
	c.Break()
}

// BottomHalves runs the softirqs that a process raised.
func (h *calendar) BottomHalves(c *vcpu.CPU) { c.Break() }
