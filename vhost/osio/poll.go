package osio

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Events that a Poller waits for and reports, as in poll(2).
const (
	Readable int16 = unix.POLLIN
	Writable int16 = unix.POLLOUT
	Hangup   int16 = unix.POLLRDHUP // of a socket's other end
	Broken   int16 = unix.POLLHUP | unix.POLLERR | unix.POLLNVAL
)

// Poller waits for descriptors with a timeout in nanoseconds, without the Go
// runtime's poller. Its slots are fixed: a slot without a descriptor holds -1,
// which the kernel skips. It is not safe for concurrent use.
type Poller struct {
	fds []unix.PollFd
}

// NewPoller returns a poller of n empty slots.
func NewPoller(n int) *Poller {
	p := &Poller{fds: make([]unix.PollFd, n)}
	for i := range p.fds {
		p.fds[i].Fd = -1
	}
	return p
}

// Set makes slot i wait for events on fd; -1 empties it, and so does an empty
// set of events.
func (p *Poller) Set(i, fd int, events int16) {
	if events == 0 {
		fd = -1
	}
	p.fds[i] = unix.PollFd{Fd: int32(fd), Events: events}
}

// Events returns what the last Wait found in slot i.
func (p *Poller) Events(i int) int16 { return p.fds[i].Revents }

// Wait sleeps until a slot has an event or the time has passed; a timeout of 0
// only looks, and a negative one never passes. A signal ends the sleep early
// without an error.
func (p *Poller) Wait(timeout time.Duration) error {
	var ts unix.Timespec
	tsp := &ts
	if timeout < 0 {
		tsp = nil
	} else {
		ts = unix.NsecToTimespec(int64(timeout))
	}
	_, err := unix.Ppoll(p.fds, tsp, nil)
	if errors.Is(err, unix.EINTR) {
		for i := range p.fds {
			p.fds[i].Revents = 0
		}
		return nil
	}
	return opError("ppoll", err)
}

// Until returns the timeout for a Wait that ends at t: negative for
// vtime.Never, 0 for a time that has passed.
func Until(now, t vtime.Time) time.Duration {
	if t == vtime.Never {
		return -1
	}
	return max(0, t.Sub(now))
}
