// Package osio is the system calls that the vhost-user back-end needs, and
// nothing else: eventfd, memfd, mmap, messages with descriptors, ppoll with a
// nanosecond timeout, and the guard that turns a SIGBUS on guest memory into an
// error. It is without protocol, state or policy, imports golang.org/x/sys and
// vtime only, and works on Linux only.
package osio

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// OpError is the error of one system call: which one, and what it said. It
// unwraps to the errno.
type OpError struct {
	Op  string // the system call, as in its manual page
	Err error
}

// Error implements error.
func (e *OpError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the errno.
func (e *OpError) Unwrap() error { return e.Err }

// opError wraps a non-nil error of the system call op.
func opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, Err: err}
}

// Close closes fd; a negative fd is none, and closing it does nothing.
func Close(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// CloseAll closes every descriptor of fds.
func CloseAll(fds []int) {
	for _, fd := range fds {
		Close(fd)
	}
}

// ErrNotNotifier says that a descriptor cannot carry notifications: it is a
// file, directory, block or character device, on which a poll always succeeds.
var ErrNotNotifier = errors.New("descriptor is neither eventfd, pipe nor socket")

// PrepareNotifier checks that fd can carry notifications (an eventfd, a pipe
// or a socket) and makes it non-blocking, so that no peer can hold a worker in
// a read or a write. The flag belongs to the open file, so the peer sees it
// too.
func PrepareNotifier(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return opError("fstat", err)
	}
	switch st.Mode & unix.S_IFMT {
	case 0, unix.S_IFIFO, unix.S_IFSOCK: // an eventfd has no type bits
	default:
		return fmt.Errorf("%w (mode %#o)", ErrNotNotifier, st.Mode)
	}
	return opError("fcntl", unix.SetNonblock(fd, true))
}

// Clock reads CLOCK_MONOTONIC without a system call. The zero value is not
// usable.
type Clock struct {
	base  vtime.Time
	start time.Time
}

// NewClock returns a clock whose epoch is that of CLOCK_MONOTONIC.
func NewClock() Clock {
	var ts unix.Timespec
	start := time.Now()
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return Clock{base: vtime.Time(ts.Nano()), start: start}
}

// Now returns the time in nanoseconds. It is safe for concurrent use.
func (c *Clock) Now() vtime.Time { return c.base + vtime.Time(time.Since(c.start)) }

// SetTimerSlack sets the calling thread's timer slack in nanoseconds: by how
// much the kernel may delay the end of a sleep (50 us by default).
func SetTimerSlack(ns uint64) error {
	return opError("prctl", unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(ns), 0, 0, 0))
}

// SleepUntil sleeps on the calling thread until the monotonic clock shows t, to
// within the thread's timer slack; not at all if it does already.
func SleepUntil(t time.Time) {
	for left := time.Until(t); left > 0; left = time.Until(t) {
		ts := unix.NsecToTimespec(int64(left))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil) // a signal ends it early
	}
}

// SetAffinity binds the calling thread to one CPU. It fails with EINVAL for a CPU
// that does not exist or that the process may not use.
func SetAffinity(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return opError("sched_setaffinity", unix.SchedSetaffinity(0, &set))
}

// OnCPU runs f on a thread that is bound to one CPU meanwhile. The errors are
// those of SetAffinity; f has not run then.
func OnCPU(cpu int, f func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return opError("sched_getaffinity", err)
	}
	if err := SetAffinity(cpu); err != nil {
		return err
	}
	f()
	return opError("sched_setaffinity", unix.SchedSetaffinity(0, &old))
}

// HasCPU reports whether the process may use a CPU.
func HasCPU(cpu int) bool {
	var set unix.CPUSet
	return cpu >= 0 && unix.SchedGetaffinity(0, &set) == nil && set.IsSet(cpu)
}
