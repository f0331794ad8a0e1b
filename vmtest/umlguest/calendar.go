package umlguest

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// calendar is virtual time of several guests and of what lies between them: the
// simulator's loop, and beside its events those that the guests ask for. One
// goroutine, on a thread of its own, runs all of it. At any time at most one guest
// runs; the others wait.
type calendar struct {
	loop     sim.Loop
	at       vtime.Time // now
	clients  []*client
	ctx      context.Context
	patience time.Duration // of the watchdog, in wall time
	fail     error         // the first thing that must not happen
	done     bool          // the run is over
	rounds   uint64
	until    vtime.Time // no run takes longer; 0: no limit
	still    uint64     // times that guests ran since time has moved
}

// longest is how far a guest runs on its own at most, in its time: one that never
// asks could not be stopped.
const longest = time.Second

// maxStill is how often guests may run at one time: more than any number of guests,
// queues and packets makes them.
const maxStill = 1 << 17

// run is pass, in which a guest that takes its own memory away is an error of that
// guest.
func (k *calendar) run() error {
	var err error
	fault := osio.Guard(func(addr uintptr) bool { return k.owner(addr) != nil }, func() { err = k.pass() })
	var f *osio.FaultError
	if errors.As(fault, &f) {
		return k.owner(f.Addr).fail(ErrProtocol, "its memory has become shorter than it said: %v", fault)
	}
	return err
}

// owner is the guest whose memory has an address in this process, or nil.
func (k *calendar) owner(addr uintptr) *client {
	for _, c := range k.clients {
		for _, m := range c.dev.maps {
			if m.Contains(addr) {
				return c
			}
		}
	}
	return nil
}

// pass lets time pass until done, or until the guests have switched themselves
// off that do not serve others. It begins with all guests running at time 0, as
// they do when they boot: one after the other, until each waits.
func (k *calendar) pass() error {
	for _, c := range k.clients {
		if err := k.ended(c, c.serve()); err != nil {
			return err
		}
	}
	for !k.done {
		if k.rounds++; k.rounds%256 == 0 && k.ctx.Err() != nil {
			return k.ctx.Err()
		}
		if err := k.round(); err != nil {
			return err
		}
		if k.fail != nil {
			return k.fail
		}
	}
	return nil
}

// ended takes the end of a guest that switched itself off for no error.
func (k *calendar) ended(c *client, err error) error {
	switch {
	case !errors.Is(err, io.EOF):
		return err
	case c.serves:
		return c.fail(ErrEnded, "%s while others send", c.vm.state())
	}
	c.off, c.waiting, c.request = true, true, vtime.Never
	c.dev.switchedOff(k.at)
	k.done = true
	for _, c := range k.clients {
		k.done = k.done && (c.off || c.serves)
	}
	return nil
}

// round runs what is first: an event of the loop, or a guest. What is due at the
// same time as a guest goes before it.
func (k *calendar) round() error {
	event := k.loop.Next()
	c := k.first()
	switch {
	case event == vtime.Never && c.request == vtime.Never:
		return c.fail(ErrStuck, "every guest waits, and neither a guest nor the device has an event to come; %s", k.due())
	case event <= c.request:
		if err := k.move(c, event); err != nil {
			return err
		}
		k.loop.Step()
		return nil
	}
	if k.still++; c.request > k.at {
		k.still = 0
	}
	if err := k.move(c, c.request); err != nil {
		return err
	}
	return k.ended(c, c.run(c.request, min(k.horizon(c), c.request.Add(longest))))
}

// move lets time pass. It ends a run whose time stands still, or that goes on for
// longer than its scenario; c is the guest to blame.
func (k *calendar) move(c *client, t vtime.Time) error {
	if k.still > maxStill {
		return c.fail(ErrStuck, "time stands still, it has run %d times; %s", maxStill, k.due())
	}
	k.at = t
	if k.until == 0 || t <= k.until {
		return nil
	}
	for _, g := range k.clients {
		if !g.off && !g.serves {
			c = g
			break
		}
	}
	return c.fail(ErrStuck, "it has not ended, and was due to at %v; %s", time.Duration(k.until), k.due())
}

// due says what every guest waits for.
func (k *calendar) due() string {
	var all []string
	for _, c := range k.clients {
		all = append(all, c.name+": "+c.due())
	}
	return "due: " + strings.Join(all, ", ")
}

// first is the guest that wants to run first, of equals the one that was started
// first.
func (k *calendar) first() *client {
	best := k.clients[0]
	for _, c := range k.clients[1:] {
		if c.request < best.request {
			best = c
		}
	}
	return best
}

// others is when the first of the other guests wants to run.
func (k *calendar) others(but *client) vtime.Time {
	t := vtime.Never
	for _, c := range k.clients {
		if c != but {
			t = min(t, c.request)
		}
	}
	return t
}

// horizon is how far a guest that runs may go on its own.
func (k *calendar) horizon(c *client) vtime.Time { return min(k.loop.Next(), k.others(c)) }

// broken keeps the first error of an event.
func (k *calendar) broken(err error) {
	if err != nil && k.fail == nil {
		k.fail = err
	}
}
