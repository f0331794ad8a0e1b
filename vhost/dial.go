package vhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"time"
)

// How long a client waits before it tries to connect again: at first, and at
// most. The time doubles with each attempt that fails. DPDK's virtio-user and
// QEMU's reconnect=1 look once a second.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = time.Second
)

// checkClient validates what a client needs before it tries to connect.
func checkClient(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("%w: Client needs a SocketPath to connect to", ErrConfig)
	case len(path) > MaxSocketPath:
		return fmt.Errorf("%w: %d bytes, limit %d: choose a shorter path than %s", ErrPathTooLong, len(path), MaxSocketPath, path)
	}
	return nil
}

// serveDialled serves the front-end that listens, again and again.
func (s *Server) serveDialled(ctx context.Context) error {
	for {
		c, err := s.dial(ctx)
		if ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.serveConn(ctx, c); err != nil || s.cfg.Once {
			return err
		}
		pause(ctx, retryFirst) // for a front-end that hangs up at once
	}
}

// pause sleeps, or returns early when ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// dial connects as soon as somebody listens. Its errors are those that will not
// pass, and the end of ctx.
func (s *Server) dial(ctx context.Context) (*net.UnixConn, error) {
	wait := retryFirst
	for {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.cfg.SocketPath, Net: "unix"})
		if err == nil {
			return c, nil
		}
		if !passes(err) {
			return nil, fmt.Errorf("connect to %s: %w", s.cfg.SocketPath, err)
		}
		s.cfg.Logger.Debug("no front-end yet", "error", err, "again_in", wait)
		if pause(ctx, wait); ctx.Err() != nil {
			return nil, ctx.Err()
		}
		wait = min(2*wait, retryMost)
	}
}

// passes reports whether an error of connect may pass: nobody listens yet, or
// too many are waiting.
func passes(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) ||
		errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
}
