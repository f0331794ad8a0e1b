package osio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Eventfd returns a new non-blocking eventfd with the count n.
func Eventfd(n uint32) (int, error) {
	fd, err := unix.Eventfd(uint(n), unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, opError("eventfd2", err)
	}
	return fd, nil
}

// ReadEvent reads the count of the non-blocking eventfd fd and so sets it to
// 0. Nothing to read is no error: the count is 0 then. A pipe or socket in the
// place of an eventfd is read in pieces of 8 bytes that hold a count each (User
// Mode Linux writes them so); a shorter piece counts one, and io.EOF says that
// the other end is closed. buf is the caller's scratch.
func ReadEvent(fd int, buf *[8]byte) (uint64, error) {
	n, err := unix.Read(fd, buf[:])
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, nil
	case err != nil:
		return 0, opError("read", err)
	case n == 0:
		return 0, io.EOF
	case n < len(buf):
		return 1, nil
	}
	return binary.NativeEndian.Uint64(buf[:]), nil
}

var one = [8]byte{}

func init() { binary.NativeEndian.PutUint64(one[:], 1) }

// AddEvent adds n to the count of the non-blocking eventfd fd. Unlike
// WriteEvent it fails with EAGAIN if the count cannot hold the sum. A count of
// MaxUint64-1, the largest, makes the eventfd unwritable to poll.
func AddEvent(fd int, n uint64) error {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], n)
	_, err := unix.Write(fd, b[:])
	return opError("write", err)
}

// WriteEvent adds one to the count of the non-blocking eventfd fd, or writes 8
// bytes to what stands in its place. A full pipe and a saturated count are
// delivered notifications, not errors: the other side has one to read.
func WriteEvent(fd int) error {
	_, err := unix.Write(fd, one[:])
	if errors.Is(err, unix.EAGAIN) {
		return nil
	}
	return opError("write", err)
}

// EventfdID returns the kernel's number of the eventfd fd, which is the same for
// every descriptor of it, or -1 if fd is none or the kernel, before v5.2, does
// not tell.
func EventfdID(fd int) int64 {
	if fd < 0 {
		return -1
	}
	b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return -1
	}
	for line := range bytes.Lines(b) {
		if text, ok := bytes.CutPrefix(line, []byte("eventfd-id:")); ok {
			id, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
			if err != nil {
				return -1
			}
			return id
		}
	}
	return -1
}

// Pipe returns the reading and the writing end of a new non-blocking pipe.
func Pipe() (ends [2]int, err error) {
	err = unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK)
	return ends, opError("pipe2", err)
}

// Dup returns another descriptor of fd's open file.
func Dup(fd int) (int, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	return n, opError("fcntl", err)
}
