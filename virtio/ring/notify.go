package ring

import "github.com/vnetbench/vnetbench/virtio/shm"

// CallReason is why the driver needs a call (an interrupt), or why not.
type CallReason uint8

const (
	// CallNoneUsed: not needed, nothing was published since NeedCall was last
	// asked.
	CallNoneUsed CallReason = iota
	// CallFirst: needed, the first evaluation since the ring was started, or since
	// so much was published unasked that the remembered index says nothing.
	CallFirst
	// CallEvent: needed, the used index passed used_event.
	CallEvent
	// CallFlag: needed, EVENT_IDX is off and NO_INTERRUPT is clear.
	CallFlag
	// CallEventIdx: not needed, the used index did not pass used_event.
	CallEventIdx
	// CallNoInterrupt: not needed, EVENT_IDX is off and NO_INTERRUPT is set.
	CallNoInterrupt
	// NumCallReasons is the length of an array that is indexed by CallReason.
	NumCallReasons
)

var callReasonNames = [NumCallReasons]string{
	"none_used", "first", "event", "flag", "event_idx", "no_interrupt",
}

// String returns the reason's name as a counter: lower case, joined by "_".
func (r CallReason) String() string {
	if r >= NumCallReasons {
		return "unknown"
	}
	return callReasonNames[r]
}

// NeedCall reports whether the driver wants a call for what was published since
// NeedCall was last asked, and why (virtio 1.3 §2.7.7). Asking settles it: the
// caller sends the call or does not, and the next answer concerns what is
// published later. After the start of the ring the first call is unconditional,
// since what an earlier device told the driver is not known.
func (d *Device) NeedCall() (need bool, why CallReason) {
	if !d.news {
		return false, CallNoneUsed
	}
	old, known := d.signalled, d.recalls
	d.signalled, d.recalls, d.news = d.shown, true, false
	if !known {
		d.pk.since = 0
		return true, CallFirst
	}
	d.fence() // the used index is out before the driver's wish is read
	if d.packed {
		return d.needCallPacked()
	}
	if d.eventIdx {
		if needEvent(shm.Load16(d.usedEvent), d.shown, old) {
			return true, CallEvent
		}
		return false, CallEventIdx
	}
	if shm.Load16(d.availFlags)&availNoInterrupt != 0 {
		return false, CallNoInterrupt
	}
	return true, CallFlag
}

func (d *Device) needCallPacked() (need bool, why CallReason) {
	p := &d.pk
	n := uint16(p.since)
	p.since = 0
	need, positional := wants(shm.Load32(d.driverEvent), d.eventIdx, p.shown, n, d.size)
	switch {
	case need && positional:
		return true, CallEvent
	case positional:
		return false, CallEventIdx
	case need:
		return true, CallFlag
	}
	return false, CallNoInterrupt
}

// DisableKicks tells the driver that no kick is needed, while the device looks
// at the ring by itself. With EVENT_IDX there is nothing to write: avail_event
// stays where it is, and the driver kicks at most once more per 2^16 chains
// (virtio 1.3 §2.7.10.1 has the flags field 0 then). A packed ring can always say
// it (virtio 1.3 §2.8.14).
func (d *Device) DisableKicks() {
	switch {
	case d.packed:
		d.storeEvent(eventDisable << 16)
	case !d.eventIdx:
		shm.Store16(d.usedFlags, usedNoNotify)
		d.logUsed(0, 2)
	}
}

// storeEvent writes the device's event structure.
func (d *Device) storeEvent(v uint32) {
	shm.Store32(d.deviceEvent, v)
	d.logUsed(0, 4)
}

// EnableKicks asks the driver for a kick at the next chain, and then looks again
// whether chains are available: if so the driver may not have seen the wish, and
// the caller must not sleep (virtio 1.3 §2.7.10, §2.7.13.4.1).
func (d *Device) EnableKicks() (more bool) {
	switch {
	case d.packed && d.eventIdx:
		d.storeEvent(eventDesc<<16 | uint32(d.pk.next.word()))
	case d.packed:
		d.storeEvent(eventEnable << 16)
	case d.eventIdx:
		shm.Store16(d.availEvent, d.next)
		d.logUsed(4+8*uint64(d.size), 2)
	default:
		shm.Store16(d.usedFlags, 0)
		d.logUsed(0, 2)
	}
	d.fence()
	return d.Pending() != 0 && !d.wants
}

// EnableKicksAfter asks the driver for a kick once n more chains are available,
// and then looks whether more than that are already: if so the caller must not
// sleep. It can be asked for of a split ring with EVENT_IDX; any other is asked
// for nothing, and the caller looks again by itself.
func (d *Device) EnableKicksAfter(n uint16) (more bool) {
	if !d.eventIdx || d.packed {
		return false
	}
	shm.Store16(d.availEvent, d.next+n)
	d.logUsed(4+8*uint64(d.size), 2)
	d.fence()
	return d.Pending() > n
}

// fence orders what the device has written before what it reads then.
func (d *Device) fence() {
	if !d.serial {
		shm.Fence()
	}
}
