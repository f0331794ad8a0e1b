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
		return true, CallFirst
	}
	shm.Fence() // the used index is out before the driver's wish is read
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

// DisableKicks tells the driver that no kick is needed, while the device looks
// at the ring by itself. With EVENT_IDX there is nothing to write: avail_event
// stays where it is, and the driver kicks at most once more per 2^16 chains
// (virtio 1.3 §2.7.10.1 has the flags field 0 then).
func (d *Device) DisableKicks() {
	if !d.eventIdx {
		shm.Store16(d.usedFlags, usedNoNotify)
	}
}

// EnableKicks asks the driver for a kick at the next chain, and then looks again
// whether chains are available: if so the driver may not have seen the wish, and
// the caller must not sleep (virtio 1.3 §2.7.10, §2.7.13.4.1).
func (d *Device) EnableKicks() (more bool) {
	if d.eventIdx {
		shm.Store16(d.availEvent, d.next)
	} else {
		shm.Store16(d.usedFlags, 0)
	}
	shm.Fence()
	return d.Pending() != 0
}
