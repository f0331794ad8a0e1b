package vhost

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/vnetbench/vnetbench/vhost/osio"
)

// MaxSocketPath is the longest path in bytes of a UNIX socket on Linux.
const MaxSocketPath = 107

// socketFile is a socket in the file system that this process has bound.
type socketFile struct {
	path string
	info fs.FileInfo
}

// listen binds a socket at path. A socket that nobody listens on any more and
// that belongs to our user is replaced; anything else at path is an error, which
// says how to mend it.
func listen(path string) (*net.UnixListener, *socketFile, error) {
	if len(path) > MaxSocketPath {
		return nil, nil, fmt.Errorf("%w: %d bytes, limit %d: choose a shorter path than %s", ErrPathTooLong, len(path), MaxSocketPath, path)
	}
	if err := clearStale(path); err != nil {
		return nil, nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, nil, explainBind(path, err)
	}
	l.SetUnlinkOnClose(false) // remove knows better
	info, err := os.Lstat(path)
	if err != nil {
		l.Close()
		return nil, nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return l, &socketFile{path: path, info: info}, nil
}

// explainBind says what to do about an error of bind.
func explainBind(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("socket %s: its directory does not exist: create it with mkdir -p", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("socket %s: no permission to create it: choose a directory of your own", path)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: %s: choose another path or stop the process that listens there", ErrBusy, path)
	}
	return fmt.Errorf("socket %s: %w", path, err)
}

// clearStale removes a socket of ours that nobody listens on.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: %s is not a socket: choose another path or remove it", ErrNotSocket, path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: %s: choose another path or stop the process that listens there", ErrBusy, path)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: %s is a stale socket of another user: remove it or choose another path", ErrNotSocket, path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("socket %s: stale, and cannot be removed: %w", path, err)
	}
	return nil
}

// remove deletes the socket's file, if it is still the one that was bound.
func (f *socketFile) remove() {
	if f == nil {
		return
	}
	if info, err := os.Lstat(f.path); err == nil && os.SameFile(info, f.info) {
		_ = os.Remove(f.path)
	}
}

// adopt takes over a descriptor that the process was started with: a listening
// socket, or one that is connected to a front-end already. It closes fd, whose
// place a duplicate takes.
func adopt(fd int) (*net.UnixListener, *net.UnixConn, error) {
	listening, err := osio.Listening(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: FD %d: pass a listening or connected UNIX stream socket: %w", ErrConfig, fd, err)
	}
	f := os.NewFile(uintptr(fd), "vhost-user")
	defer f.Close()
	if listening {
		l, err := net.FileListener(f)
		if err != nil {
			return nil, nil, fmt.Errorf("descriptor %d: %w", fd, err)
		}
		return l.(*net.UnixListener), nil, nil
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	return nil, c.(*net.UnixConn), nil
}
