package osio

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of userfaultfd (include/uapi/linux/userfaultfd.h, v6.1). The requests of
// ioctl are the same on every architecture that this module is built for.
const (
	uffdAPI           = 0xaa
	uffdioAPI         = 0xc018aa3f
	uffdioRegister    = 0xc020aa00
	uffdioUnregister  = 0x8010aa01
	uffdioCopy        = 0xc028aa03
	uffdModeMissing   = 1
	uffdEventFault    = 0x12
	uffdMissingHuge   = 1 << 4
	uffdMissingShared = 1 << 5
)

// Userfault returns a descriptor that reports pages that are missing in memory
// that WatchMissing names, shared memory included. The error says whether the
// kernel lets this process have one (EPERM: not this user; ENOSYS: nobody).
func Userfault() (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if errno != 0 {
		return -1, opError("userfaultfd", errno)
	}
	api := struct{ api, features, ioctls uint64 }{api: uffdAPI, features: uffdMissingShared | uffdMissingHuge}
	if err := ioctl(int(fd), uffdioAPI, unsafe.Pointer(&api)); err != nil {
		Close(int(fd))
		return -1, opError("UFFDIO_API", err)
	}
	return int(fd), nil
}

// WatchMissing has the pages of the mapping that are missing reported to the
// userfault descriptor: a thread that touches one waits until somebody has brought
// it, or the descriptor is closed everywhere.
func (m *Mapping) WatchMissing(fd int) error {
	arg := struct{ start, length, mode, ioctls uint64 }{
		start: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m.whole)))), length: uint64(len(m.whole)), mode: uffdModeMissing,
	}
	return opError("UFFDIO_REGISTER", ioctl(fd, uffdioRegister, unsafe.Pointer(&arg)))
}

// Unwatch takes WatchMissing back, and wakes who waits: pages that are missing
// still are empty ones.
func (m *Mapping) Unwatch(fd int) error {
	arg := struct{ start, length uint64 }{
		start: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m.whole)))), length: uint64(len(m.whole)),
	}
	return opError("UFFDIO_UNREGISTER", ioctl(fd, uffdioUnregister, unsafe.Pointer(&arg)))
}

// ReadFault returns the address of the next fault that the descriptor reports; ok
// is false if none waits. It is for who brings pages.
func ReadFault(fd int) (addr uint64, ok bool, err error) {
	var msg [4]uint64 // event in the low byte; flags; address
	n, err := unix.Read(fd, unsafe.Slice((*byte)(unsafe.Pointer(&msg)), 32))
	switch {
	case err == unix.EAGAIN:
		return 0, false, nil
	case err != nil:
		return 0, false, opError("read", err)
	}
	return msg[2], n == 32 && byte(msg[0]) == uffdEventFault, nil
}

// BringPage puts a page in the place at which it is missing, in the address space
// of the process that made the descriptor, and wakes who waits for it. A page that
// is there already is no error.
func BringPage(fd int, addr uint64, page []byte) error {
	arg := struct {
		dst, src, length, mode uint64
		copied                 int64
	}{dst: addr, src: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(page)))), length: uint64(len(page))}
	err := ioctl(fd, uffdioCopy, unsafe.Pointer(&arg))
	runtime.KeepAlive(page)
	if err == unix.EEXIST {
		return nil
	}
	return opError("UFFDIO_COPY", err)
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}
