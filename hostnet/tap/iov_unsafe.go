package tap

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below are those of x/sys without its allocation for more than 8
// pieces, and without its words to the race detector: the pieces lie in guest
// memory, which a guest changes whenever it likes.

func readv(fd int, iov []unix.Iovec) (int, error) {
	return vector(unix.SYS_READV, fd, iov)
}

func writev(fd int, iov []unix.Iovec) (int, error) {
	return vector(unix.SYS_WRITEV, fd, iov)
}

func vector(call uintptr, fd int, iov []unix.Iovec) (int, error) {
	n, _, errno := unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
