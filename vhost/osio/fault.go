package osio

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// FaultError says that an access to mapped memory faulted: the file behind the
// mapping has been truncated.
type FaultError struct {
	Addr uintptr // the address in this process
}

// Error implements error.
func (e *FaultError) Error() string {
	return fmt.Sprintf("memory fault at %#x: the file behind it was truncated", e.Addr)
}

// fault is what the runtime panics with when a fault has an address.
type fault interface {
	runtime.Error
	Addr() uintptr
}

// Guard runs f in a state where a fault on mapped memory is a panic of this
// goroutine instead of the end of the process, and turns such a panic into a
// *FaultError if owns says that the address lies in a guest's memory. Every
// other panic goes on: it is a bug. What f was doing stays half done.
func Guard(owns func(addr uintptr) bool, f func()) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		r := recover()
		if r == nil {
			return
		}
		at, ok := r.(fault)
		if !ok || !owns(at.Addr()) {
			panic(r)
		}
		err = &FaultError{Addr: at.Addr()}
	}()
	f()
	return nil
}

// IsFault reports whether err is that of a system call which found the memory
// it was given truncated.
func IsFault(err error) bool { return errors.Is(err, unix.EFAULT) }
