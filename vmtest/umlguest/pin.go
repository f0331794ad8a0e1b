package umlguest

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost/osio"
)

// pin keeps the calling thread, and what it starts, on one CPU. In a run one of
// calendar and guests works while the others wait for it, so that a second CPU adds
// nothing but the time it takes to wake. The CPU is one of those that the thread may
// use, and no other run on this machine has it; if there is none, nothing is pinned.
// undo gives the thread its CPUs back. The thread must be locked to its goroutine.
func pin() (undo func()) {
	nothing := func() {}
	var old unix.CPUSet
	if unix.SchedGetaffinity(0, &old) != nil {
		return nothing
	}
	cpu, held := claim(&old)
	if held < 0 {
		return nothing
	}
	if osio.SetAffinity(cpu) != nil {
		osio.Close(held)
		return nothing
	}
	return func() {
		_ = unix.SchedSetaffinity(0, &old)
		osio.Close(held)
	}
}

// claim takes the first CPU of a set that no run has, from the one on that the
// thread runs on. held is -1 if there is none.
func claim(set *unix.CPUSet) (cpu, held int) {
	const most = 1024 // CPUs that a set can have
	here := current()
	for i := range most {
		if cpu = (here + i) % most; !set.IsSet(cpu) {
			continue
		}
		if fd, err := hold(cpu); err == nil {
			return cpu, fd
		}
	}
	return 0, -1
}

// current is the CPU that this thread runs on.
func current() int {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return 0
	}
	return int(cpu)
}

// hold takes a name that only one process can have, as long as the descriptor is
// open.
func hold(cpu int) (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@vnetbench-uml-cpu-%d", cpu)}); err != nil {
		osio.Close(fd)
	}
	return fd, err
}
