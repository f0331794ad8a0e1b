package osio

import (
	"errors"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxFDs is how many descriptors one message may carry here: 8 regions of a
// vhost-user memory table.
const MaxFDs = 8

// ErrTruncatedControl says that a message carried more descriptors than a
// reader has room for (MSG_CTRUNC). Those that came have been closed.
var ErrTruncatedControl = errors.New("more descriptors than a message may carry")

// Recv reads up to len(b) bytes from the stream socket fd and appends the
// descriptors that came with them, close-on-exec, to fds. An empty control
// message is accepted. It returns io.EOF at the end of the stream, and leaves
// EAGAIN to the caller. On an error no descriptor stays open, those of fds
// included.
func Recv(fd int, b []byte, fds []int) (int, []int, error) {
	var oob [64]byte // room for 8 descriptors takes 16 + 32 bytes
	room := oob[:unix.CmsgSpace(4*MaxFDs)]
	n, oobn, flags, err := recvmsg(fd, b, room)
	if err != nil {
		CloseAll(fds)
		return 0, nil, opError("recvmsg", err)
	}
	got, err := parseRights(room[:oobn])
	fds = append(fds, got...)
	if err == nil && (flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 || len(fds) > MaxFDs) {
		err = ErrTruncatedControl
	}
	if err == nil && n == 0 && len(b) > 0 {
		err = io.EOF
	}
	if err != nil {
		CloseAll(fds)
		return 0, nil, err
	}
	return n, fds, nil
}

// recvmsg is recvmsg(2), again when a signal interrupts it.
func recvmsg(fd int, b, oob []byte) (n, oobn, flags int, err error) {
	for {
		n, oobn, flags, _, err = unix.Recvmsg(fd, b, oob, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			return n, oobn, flags, err
		}
	}
}

// parseRights returns the descriptors in the control messages of oob. It
// returns those that it understood also with an error.
func parseRights(oob []byte) (fds []int, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, opError("recvmsg", err)
	}
	for i := range msgs {
		m := &msgs[i]
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_RIGHTS || len(m.Data) == 0 {
			continue
		}
		got, perr := unix.ParseUnixRights(m)
		if perr != nil {
			err = opError("recvmsg", perr)
			continue
		}
		fds = append(fds, got...)
	}
	return fds, err
}

// Send writes b to the stream socket fd, the descriptors with its first byte,
// and returns how many bytes went out: the descriptors are on their way if it is
// not 0. They stay the caller's. With empty set, an SCM_RIGHTS message of no
// descriptors goes along when there are none, as some front-ends send it. It
// leaves EAGAIN to the caller.
func Send(fd int, b []byte, fds []int, empty bool) (int, error) {
	var oob []byte
	if len(fds) > 0 || empty {
		oob = unix.UnixRights(fds...)
	}
	for {
		n, err := unix.SendmsgN(fd, b, oob, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return n, opError("sendmsg", err)
		}
	}
}

// SendOrWrite writes b, all of it or nothing, to the non-blocking socket or pipe
// fd. It leaves EAGAIN to the caller.
func SendOrWrite(fd int, b []byte) error {
	_, err := Send(fd, b, nil, false)
	if errors.Is(err, unix.ENOTSOCK) {
		_, err = unix.Write(fd, b)
		err = opError("write", err)
	}
	return err
}

// ErrNotSocket says that a descriptor is no UNIX stream socket.
var ErrNotSocket = errors.New("descriptor is not a UNIX stream socket")

// Listening reports whether the UNIX stream socket fd listens; if not, it is
// connected, or useless.
func Listening(fd int) (bool, error) {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return false, opError("getsockopt", err)
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return false, opError("getsockopt", err)
	}
	if domain != unix.AF_UNIX || kind != unix.SOCK_STREAM {
		return false, ErrNotSocket
	}
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	return n != 0, opError("getsockopt", err)
}

// RecvConn is Recv on a connection of package net: it waits, as long as the
// connection's deadline allows, until something is there. The descriptors that came
// are appended to *fds; on an error those that were there before stay open.
func RecvConn(c syscall.RawConn, b []byte, fds *[]int) (n int, err error) {
	rerr := c.Read(func(fd uintptr) bool {
		var got []int
		n, got, err = Recv(int(fd), b, nil)
		*fds = append(*fds, got...)
		return !errors.Is(err, syscall.EAGAIN)
	})
	if rerr != nil {
		return 0, rerr
	}
	return n, err
}
