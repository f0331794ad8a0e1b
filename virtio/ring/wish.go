package ring

import "github.com/vnetbench/vnetbench/virtio/shm"

// NeedKick reports whether the device wants a kick for what was published since
// NeedKick was last asked (virtqueue_kick_prepare_split and
// virtqueue_kick_prepare_packed, v6.1; virtio 1.3 §2.7.13.4, §2.8.21.3). Asking
// settles it.
func (q *Driver) NeedKick() bool {
	q.fence() // the available index is out before the device's wish is read
	if q.packed {
		return q.needKickPacked()
	}
	old, force := q.kicked, q.force
	q.kicked, q.force = q.shown, false
	switch {
	case force:
		return true
	case q.eventIdx:
		return needEvent(shm.Load16(q.availEvent), q.shown, old)
	}
	return shm.Load16(q.usedFlags)&usedNoNotify == 0
}

// CallsDisabled reports whether DisableCalls was the last of its kind.
func (q *Driver) CallsDisabled() bool { return q.callsOff }

// Called tells the Driver that the device called (vring_interrupt, v6.1). With
// Config.ZeroEvent and EVENT_IDX the next DisableCalls then writes nothing, unless
// calls were enabled in between: the device has called once and is taken not to
// call again (event_triggered, v5.13).
func (q *Driver) Called() { q.called = q.eventIdx }

// DisableCalls asks the device for no calls. With EVENT_IDX that is a hint at
// best: used_event is left behind, or set to 0 with Config.ZeroEvent, see Called
// (virtqueue_disable_cb_split, v6.1).
func (q *Driver) DisableCalls() {
	if q.callsOff {
		return
	}
	q.callsOff = true
	switch {
	case q.packed:
		q.disablePacked()
	case !q.eventIdx:
		shm.Store16(q.availFlags, availNoInterrupt)
	case q.zeroEvent && !q.called:
		shm.Store16(q.usedEvent, 0)
	}
}

// EnableCalls asks for a call at the next used element, and then looks whether
// there are some already: if so there may be no call for them, and the caller
// must reap (virtqueue_enable_cb_prepare_split and virtqueue_poll, v6.1).
func (q *Driver) EnableCalls() (pending bool) {
	if q.packed {
		q.enablePacked(q.pk.used)
		return q.HasUsed()
	}
	q.wantCalls()
	if q.eventIdx {
		shm.Store16(q.usedEvent, q.reaped)
	}
	q.fence()
	return q.HasUsed()
}

// EnableCallsDelayed asks for a call when three quarters of what is outstanding
// is used, rounded down; without EVENT_IDX at the next used element. It reports
// whether more than that is used already: then the caller must reap
// (virtqueue_enable_cb_delayed_split, v6.1). In a packed ring it is three quarters
// of the slots that are taken, and anything used makes it pending
// (virtqueue_enable_cb_delayed_packed, v6.1).
func (q *Driver) EnableCallsDelayed() (pending bool) {
	if q.packed {
		taken := uint32(q.size - q.free)
		q.enablePacked(q.pk.used.on(uint16(taken*3/4), q.size))
		return q.HasUsed()
	}
	q.wantCalls()
	bufs := uint16(uint32(q.avail-q.reaped) * 3 / 4)
	if q.eventIdx {
		shm.Store16(q.usedEvent, q.reaped+bufs)
	}
	q.fence()
	return q.err == nil && shm.Load16(q.usedIdx)-q.reaped > bufs
}

// wantCalls clears what DisableCalls set.
func (q *Driver) wantCalls() {
	q.called = false
	if !q.callsOff {
		return
	}
	q.callsOff = false
	if !q.eventIdx {
		shm.Store16(q.availFlags, 0)
	}
}

// fence orders what the driver has written before what it reads then.
func (q *Driver) fence() {
	if !q.serial {
		shm.Fence()
	}
}
