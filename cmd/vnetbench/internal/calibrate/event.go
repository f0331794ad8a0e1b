package calibrate

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost/osio"
)

// eventfd is a write that wakes nobody.
func eventfd() (float64, error) {
	const n = 20000
	fd, err := osio.Eventfd(0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	begin := time.Now()
	for range n {
		if err := osio.WriteEvent(fd); err != nil {
			return 0, err
		}
	}
	return per(time.Since(begin), n), nil
}

// wake is the time from the write to an eventfd to the thread that slept on it:
// half of a round trip.
func wake() (float64, error) {
	const n = 2000
	there, err := osio.Eventfd(0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(there)
	back, err := osio.Eventfd(0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(back)
	echoed := make(chan error, 1)
	go func() { echoed <- echo(there, back, n) }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := time.Now()
	for range n {
		if err := errors.Join(osio.WriteEvent(there), await(back)); err != nil {
			return 0, err
		}
	}
	took := time.Since(begin)
	return per(took, 2*n), <-echoed
}

// echo answers n events, on a thread of its own.
func echo(from, to, n int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range n {
		if err := errors.Join(await(from), osio.WriteEvent(to)); err != nil {
			return err
		}
	}
	return nil
}

// patience is how long an event may take before the measurement fails.
const patience = 10 * time.Second

// await sleeps until the eventfd has a count, and takes it.
func await(fd int) error {
	p := osio.NewPoller(1)
	p.Set(0, fd, osio.Readable)
	if err := p.Wait(patience); err != nil {
		return err
	}
	var buf [8]byte
	n, err := osio.ReadEvent(fd, &buf)
	if err == nil && n == 0 {
		err = errors.New("an event did not come within 10s")
	}
	return err
}
