package qdisc

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// watchdog is the timer of a discipline that holds packets back (struct
// qdisc_watchdog, net/sched/sch_api.c, v6.1 and v6.12): a high-resolution timer
// that may fire anywhere in a window. The hardware is set to the end of the
// window; a timer interrupt that comes for another reason within it takes the
// watchdog along.
type watchdog struct {
	soft, hard vtime.Time
}

// idle is a watchdog that is not set.
var idle = watchdog{vtime.Never, vtime.Never}

func (w *watchdog) Next() vtime.Time                { return w.hard }
func (w *watchdog) Window() (soft, hard vtime.Time) { return w.soft, w.hard }

func (w *watchdog) Fire(now vtime.Time) bool {
	if now < w.soft || w.soft == vtime.Never {
		return false
	}
	*w = idle
	return true
}

// expire ends a watchdog whose time is over: it has fired before now.
func (w *watchdog) expire(now vtime.Time) {
	if now >= w.hard {
		*w = idle
	}
}

// arm sets the watchdog to at, or up to slack later. One that is set already for
// a time in this window stays as it is. A watchdog is never taken back: it fires
// even if the packet that it was set for has left.
func (w *watchdog) arm(at vtime.Time, slack time.Duration) {
	if w.soft != vtime.Never && w.soft >= at && w.soft.Sub(at) <= slack {
		return
	}
	w.soft, w.hard = at, at.Add(slack)
}
