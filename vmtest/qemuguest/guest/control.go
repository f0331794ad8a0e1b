package guest

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// control is the guest's end of the serial line. Its methods are safe for
// concurrent use.
type control struct {
	mu      sync.Mutex
	tty     *os.File
	replies chan proto.Message
	stopped atomic.Bool
	stop    chan struct{} // closed when the host says stop, or is gone
}

func openControl(path string) (*control, error) {
	tty, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if err := makeRaw(int(tty.Fd())); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c := &control{tty: tty, replies: make(chan proto.Message, 4), stop: make(chan struct{})}
	go c.read()
	return c, nil
}

// makeRaw switches off everything that a terminal does to what passes through.
func makeRaw(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}

// read takes the host's messages off the line.
func (c *control) read() {
	in := bufio.NewScanner(c.tty)
	in.Buffer(make([]byte, 4096), proto.MaxLine)
	for in.Scan() {
		m, err := proto.Parse(in.Bytes())
		if err != nil {
			continue // noise of the line before it was raw
		}
		if m.Kind == proto.Stop {
			c.halt()
			continue
		}
		c.replies <- m
	}
	c.halt()
	close(c.replies)
}

func (c *control) halt() {
	if !c.stopped.Swap(true) {
		close(c.stop)
	}
}

func (c *control) send(m proto.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return proto.Write(c.tty, m)
}

// ask sends m and waits for an answer of the kind want.
func (c *control) ask(m proto.Message, want proto.Kind) error {
	if err := c.send(m); err != nil {
		return err
	}
	got, ok := <-c.replies
	if !ok {
		return fmt.Errorf("the host is gone after %s", m.Kind)
	}
	if got.Kind != want {
		return fmt.Errorf("after %s came %s, want %s", m.Kind, got.Kind, want)
	}
	return nil
}

// progress says how far a phase is. That nobody listens is no error.
func (c *control) progress(phase string, done, total time.Duration) {
	_ = c.send(proto.Message{Kind: proto.Progress, Text: phase, Done: done, Total: total})
}
