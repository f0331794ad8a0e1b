package osio

import (
	"fmt"
	"runtime"
	"runtime/debug"
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
