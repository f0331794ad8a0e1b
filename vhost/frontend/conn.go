// Package frontend is a scripted vhost-user front-end: the guest's side of the
// connection, with a guest of its own making. It sends any message in any order,
// shares memory that it maps itself, and drives the rings with ring.Driver, so
// that a back-end can be tested and measured without a virtual machine. It is
// without policy: what a real front-end would do is the caller's script. It
// starts no goroutine.
package frontend

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

// ErrRefused says that the back-end answered a request with a negative
// acknowledgement.
var ErrRefused = errors.New("back-end refused the request")

// ErrTimeout says that the back-end did not do in time what was waited for.
var ErrTimeout = errors.New("back-end did not answer in time")

// Conn is a front-end's end of a connection. It is not safe for concurrent use.
type Conn struct {
	// Timeout bounds every wait for the back-end; 0 is 10 s.
	Timeout time.Duration
	// Acks makes Tell ask for an acknowledgement and wait for it. Negotiate
	// sets it if REPLY_ACK was acknowledged.
	Acks bool
	// EmptyRights sends an SCM_RIGHTS control message of no descriptors along
	// with messages that carry none, as DPDK's virtio-user does.
	EmptyRights bool

	conn *net.UnixConn
	raw  syscall.RawConn
	fds  []int // that came since they were last asked for
}

// Dial connects to the back-end that listens at path.
func Dial(path string) (*Conn, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return NewConn(c)
}

// NewConn makes a Conn of a connected socket, which it takes over.
func NewConn(c *net.UnixConn) (*Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &Conn{conn: c, raw: raw}, nil
}

// ConnOf makes a Conn of a socket's descriptor, which it takes over: that of a
// back-end's own requests.
func ConnOf(fd int) (*Conn, error) {
	f := os.NewFile(uintptr(fd), "vhost-user")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return NewConn(c.(*net.UnixConn))
}

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }

func (c *Conn) deadline() time.Time {
	if c.Timeout == 0 {
		return time.Now().Add(10 * time.Second)
	}
	return time.Now().Add(c.Timeout)
}

// SendBytes sends any bytes, with descriptors, which stay the caller's.
func (c *Conn) SendBytes(b []byte, fds ...int) error {
	_ = c.conn.SetWriteDeadline(c.deadline())
	for len(b) > 0 {
		var n int
		var err error
		werr := c.raw.Write(func(fd uintptr) bool {
			n, err = osio.Send(int(fd), b, fds, c.EmptyRights)
			return !errors.Is(err, syscall.EAGAIN)
		})
		if werr != nil {
			return werr
		}
		if err != nil {
			return err
		}
		b, fds = b[n:], nil
	}
	return nil
}

// Send sends a message with descriptors, which stay the caller's.
func (c *Conn) Send(m wire.Message, fds ...int) error { return c.SendBytes(m.Append(nil), fds...) }

// RecvFDs is Recv for a message that brings descriptors, which are the caller's.
func (c *Conn) RecvFDs() (wire.Message, []int, error) {
	return c.recvBy(wire.Decode)
}

// RecvBackend is Recv for the channel of the back-end's own requests.
func (c *Conn) RecvBackend() (wire.Message, error) {
	m, fds, err := c.recvBy(wire.DecodeBackend)
	osio.CloseAll(fds)
	return m, err
}

func (c *Conn) recvBy(decode func([]byte) (wire.Message, error)) (wire.Message, []int, error) {
	m, err := c.recv(decode)
	fds := c.fds
	c.fds = nil
	if err != nil {
		osio.CloseAll(fds)
		fds = nil
	}
	return m, fds, err
}

// Waits reports whether something is there to receive, after at most d.
func (c *Conn) Waits(d time.Duration) (ready bool) {
	_ = c.raw.Control(func(fd uintptr) {
		p := osio.NewPoller(1)
		p.Set(0, int(fd), osio.Readable)
		_ = p.Wait(d)
		ready = p.Events(0) != 0
	})
	return ready
}

// Recv returns the next message from the back-end; descriptors with it are
// closed. The error is io.EOF if the back-end closed the connection, ErrTimeout if
// nothing came.
func (c *Conn) Recv() (wire.Message, error) {
	m, fds, err := c.RecvFDs()
	osio.CloseAll(fds)
	return m, err
}

func (c *Conn) recv(decode func([]byte) (wire.Message, error)) (wire.Message, error) {
	_ = c.conn.SetReadDeadline(c.deadline())
	b := make([]byte, wire.HeaderLen, wire.HeaderLen+wire.MaxPayload)
	if err := c.readFull(b); err != nil {
		return wire.Message{}, err
	}
	h, err := wire.ParseHeader(b)
	if err != nil {
		return wire.Message{}, err
	}
	b = b[:wire.HeaderLen+int(h.Size)]
	if err := c.readFull(b[wire.HeaderLen:]); err != nil {
		return wire.Message{}, err
	}
	return decode(b)
}

func (c *Conn) readFull(b []byte) error {
	for n := 0; n < len(b); {
		k, err := osio.RecvConn(c.raw, b[n:], &c.fds)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return ErrTimeout
		case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF) && n == 0:
			return io.EOF
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		n += k
	}
	return nil
}

// Ask sends a request that has a reply of its own and returns its payload.
func (c *Conn) Ask(r wire.Request, p wire.Payload, fds ...int) (wire.Payload, error) {
	if err := c.Send(wire.Message{Request: r, Payload: p}, fds...); err != nil {
		return nil, err
	}
	return c.answer(r)
}

// answer waits for the answer to r.
func (c *Conn) answer(r wire.Request) (wire.Payload, error) {
	m, err := c.Recv()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", r, err)
	}
	if m.Request != r || m.Flags != wire.FlagReply {
		return nil, fmt.Errorf("answer to %v is %v with flags %#x", r, m, m.Flags)
	}
	return m.Payload, nil
}

// AskNumber is Ask for a request whose reply is a number.
func (c *Conn) AskNumber(r wire.Request) (uint64, error) {
	p, err := c.Ask(r, wire.Empty{})
	if err != nil {
		return 0, err
	}
	return uint64(p.(wire.U64)), nil
}

// Demand sends a request that has no reply of its own with the wish for an
// acknowledgement, and waits for that. It returns ErrRefused if it is negative.
func (c *Conn) Demand(r wire.Request, p wire.Payload, fds ...int) error {
	if err := c.Send(wire.Message{Request: r, Flags: wire.FlagNeedReply, Payload: p}, fds...); err != nil {
		return err
	}
	got, err := c.answer(r)
	if err != nil {
		return err
	}
	if got != wire.U64(0) {
		return fmt.Errorf("%v: %w", r, ErrRefused)
	}
	return nil
}

// Tell is Demand if Acks is set, and else sends the request and waits for
// nothing.
func (c *Conn) Tell(r wire.Request, p wire.Payload, fds ...int) error {
	if c.Acks {
		return c.Demand(r, p, fds...)
	}
	return c.Send(wire.Message{Request: r, Payload: p}, fds...)
}

// Barrier waits until the back-end has handled everything that was sent.
func (c *Conn) Barrier() error {
	_, err := c.AskNumber(wire.GetFeatures)
	return err
}

// Ended waits for the back-end to close the connection, and returns an error if
// it sends something, or nothing, instead.
func (c *Conn) Ended() error {
	m, err := c.Recv()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("back-end sent %v instead of closing the connection", m)
}

// Play sends what f has lined up, and gives it the answers.
func (c *Conn) Play(f *Front) error {
	c.EmptyRights = f.Profile.EmptyRights
	for {
		o, ok := f.Next()
		if !ok {
			return nil
		}
		if err := c.SendBytes(o.bytes(), o.FDs...); err != nil {
			return fmt.Errorf("%v: %w", o.Message.Request, err)
		}
		if !o.Answered {
			continue
		}
		m, err := c.Recv()
		if err != nil {
			return fmt.Errorf("%v: %w", o.Message.Request, err)
		}
		if err := f.Answer(m); err != nil {
			return err
		}
	}
}
