package vhost

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
)

// writeTimeout is how long a front-end may leave its replies unread. Only tests
// change it.
var writeTimeout = 5 * time.Second

// channel is the connection with a front-end: messages and descriptors over a
// byte stream. Its methods but interrupt and
// abort belong to one goroutine.
type channel struct {
	conn *net.UnixConn
	raw  syscall.RawConn
	buf  []byte // of the message that is being read, what has come
	fds  []int  // its descriptors
	out  []byte
}

func newChannel(c *net.UnixConn) (*channel, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &channel{conn: c, raw: raw, buf: make([]byte, 0, wire.HeaderLen+wire.MaxPayload)}, nil
}

// errInterrupted says that interrupt was called; a message that was being read
// goes on with the next call of read.
var errInterrupted = errors.New("interrupted")

// interrupt makes a read that waits, and each later one until resume, return
// errInterrupted. It may be called from any goroutine.
func (c *channel) interrupt() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) }

// abort is interrupt, and ends a write that waits as well.
func (c *channel) abort() { _ = c.conn.SetDeadline(time.Unix(1, 0)) }

// resume lets reads wait again.
func (c *channel) resume() { _ = c.conn.SetReadDeadline(time.Time{}) }

// read returns the next message and its descriptors, which are the caller's.
// bad is the error of its decoding, after which the stream goes on. err is the
// end: ErrHangup, ErrFraming, ErrDescriptors, or errInterrupted.
func (c *channel) read() (m wire.Message, fds []int, bad, err error) {
	if err := c.fill(wire.HeaderLen); err != nil {
		return m, nil, nil, err
	}
	h, err := wire.ParseHeader(c.buf)
	if err != nil {
		c.discard()
		return m, nil, nil, fmt.Errorf("%w: %w", ErrFraming, err)
	}
	if err := c.fill(wire.HeaderLen + int(h.Size)); err != nil {
		return m, nil, nil, err
	}
	m, bad = wire.Decode(c.buf)
	fds, c.fds, c.buf = c.fds, nil, c.buf[:0]
	return m, fds, bad, nil
}

// fill reads until n bytes of the message are there.
func (c *channel) fill(n int) error {
	for len(c.buf) < n {
		k, err := c.recv(c.buf[len(c.buf):n])
		c.buf = c.buf[:len(c.buf)+k]
		if err != nil {
			return c.explain(err)
		}
	}
	return nil
}

// recv receives up to len(b) bytes, with the descriptors added to c.fds.
func (c *channel) recv(b []byte) (n int, err error) {
	n, err = osio.RecvConn(c.raw, b, &c.fds)
	if err == nil && len(c.fds) > osio.MaxFDs {
		err = osio.ErrTruncatedControl
	}
	return n, err
}

// explain gives an error of recv its meaning for the session. All but an
// interruption end it, and close what had come with a message.
func (c *channel) explain(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errInterrupted
	}
	partial := len(c.buf)
	c.discard()
	switch {
	case errors.Is(err, osio.ErrTruncatedControl):
		return fmt.Errorf("%w: more than %d", ErrDescriptors, osio.MaxFDs)
	case errors.Is(err, io.EOF) && partial > 0:
		return fmt.Errorf("%w in the middle of a message", ErrHangup)
	case errors.Is(err, io.EOF):
		return ErrHangup
	}
	return fmt.Errorf("%w: %w", ErrHangup, err)
}

// discard forgets the message that is being read.
func (c *channel) discard() {
	osio.CloseAll(c.fds)
	c.fds, c.buf = nil, c.buf[:0]
}

// write sends a message, with descriptors, which stay the caller's. It returns
// ErrStalled if the front-end leaves too much unread for too long.
func (c *channel) write(m wire.Message, fds []int) error {
	c.out = m.Append(c.out[:0])
	b := c.out
	_ = c.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	var n int
	var err error
	for len(b) > 0 {
		werr := c.raw.Write(func(fd uintptr) bool {
			n, err = osio.Send(int(fd), b, fds, false)
			return !errors.Is(err, syscall.EAGAIN)
		})
		switch {
		case errors.Is(werr, os.ErrDeadlineExceeded):
			return ErrStalled
		case werr != nil:
			return fmt.Errorf("%w: %w", ErrHangup, werr)
		case err != nil:
			return fmt.Errorf("%w: %w", ErrHangup, err)
		}
		b, fds = b[n:], nil
	}
	return nil
}

// close closes the connection and what came with an unfinished message.
func (c *channel) close() {
	c.discard()
	_ = c.conn.Close()
}
