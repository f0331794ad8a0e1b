package umlguest

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Errors of a guest. They come wrapped with its name, the virtual time and the
// last lines of its console.
var (
	// ErrEnded says that a guest's kernel ended before its scenario did.
	ErrEnded = errors.New("the guest ended")
	// ErrProtocol says that a guest broke the time-travel or vhost-user protocol.
	ErrProtocol = errors.New("the guest broke the protocol")
	// ErrStuck says that a guest sent nothing for the watchdog's time, or that
	// everything waits and nothing is to come.
	ErrStuck = errors.New("no progress")
)

// client is a guest's side of the calendar: its clock, its device, and what it
// waits for.
type client struct {
	cal   *calendar
	name  string
	vm    *machine
	dev   *session
	time  int   // socket of the time protocol
	clock *door // that it is to connect to for that

	serves bool // it is to live as long as another sends
	off    bool // it has switched itself off

	calling bool // its device has called it, and it has not answered

	sched   *schedule // nil: all is said in messages
	shared  bool      // the guest keeps to sched
	started bool
	waiting bool       // has sent WAIT, and no RUN came since
	now     vtime.Time // when it was told to run, or what it said since
	request vtime.Time // when it wants to run
	granted vtime.Time // it runs freely before this
	began   vtime.Time // when it first ran at base or later; 0 before that

	seq   uint32 // of our last message
	acked uint32 // the last that the guest has acknowledged
	last  message
	calls []int // rings to be called when it waits
	buf   [64 * messageLen]byte
	have  int // bytes of buf that hold no whole message yet
	out   []byte
	two   [2]message
	fds   [2]unix.PollFd
}

// serve answers the guest until it waits.
func (c *client) serve() error {
	for !c.waiting {
		if err := c.step(); err != nil {
			return err
		}
	}
	if c.dev.ended {
		return c.fail(ErrEnded, "its driver let go of the device: %v", c.dev.cause)
	}
	return c.flushCalls()
}

// step waits for something from the guest, and handles it: a message of the time
// protocol, or one of its device.
func (c *client) step() error {
	fds := &c.fds
	fds[0] = unix.PollFd{Fd: int32(c.time), Events: unix.POLLIN}
	fds[1] = unix.PollFd{Fd: int32(c.dev.fd), Events: unix.POLLIN}
	if err := c.poll(fds[:]); err != nil {
		return err
	}
	if fds[0].Revents != 0 {
		return c.readTime()
	}
	if fds[1].Revents != 0 {
		return c.dev.read()
	}
	return nil
}

// poll waits for one of the descriptors, as long as the watchdog allows.
func (c *client) poll(fds []unix.PollFd) error {
	var deadline time.Time
	for {
		n, err := unix.Poll(fds, 200)
		switch {
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("poll: %w", err)
		}
		if err := c.cal.ctx.Err(); err != nil {
			return err
		}
		switch {
		case deadline.IsZero():
			deadline = time.Now().Add(c.cal.patience)
		case time.Now().After(deadline):
			return c.fail(ErrStuck, "nothing for %v; due is %s", c.cal.patience, c.due())
		}
	}
}

// due says what the guest owes, or is owed.
func (c *client) due() string {
	switch {
	case c.off:
		return "nothing, it has switched itself off"
	case !c.started:
		return "START"
	case c.calling:
		return "the reply to a call of its device"
	case c.waiting && c.request == vtime.Never:
		return "nothing, it waits for a call"
	case c.waiting:
		return fmt.Sprintf("to be run at %v", time.Duration(c.request))
	case c.acked != c.seq && !c.shared:
		return fmt.Sprintf("the ACK of message %d", c.seq)
	}
	return fmt.Sprintf("WAIT, after RUN at %v", time.Duration(c.now))
}

// fail is an error of this guest.
func (c *client) fail(cause error, format string, args ...any) error {
	console := ""
	if last := c.vm.console.last(8); last != "" {
		console = "; its console: " + last
	}
	return fmt.Errorf("%s at %v: %w: %s%s", c.name, time.Duration(c.cal.at), cause, fmt.Sprintf(format, args...), console)
}

// readTime reads what is there of the time protocol and handles each message.
func (c *client) readTime() error {
	n, err := unix.Read(c.time, c.buf[c.have:])
	switch {
	case errors.Is(err, unix.EINTR):
		return nil
	case err != nil && !errors.Is(err, unix.ECONNRESET):
		return c.fail(ErrEnded, "its clock: %v", err)
	case n <= 0:
		return c.ended()
	}
	c.have += n
	at := 0
	for ; c.have-at >= messageLen; at += messageLen {
		if err := c.handle(parseMessage(c.buf[at:])); err != nil {
			return err
		}
	}
	c.have = copy(c.buf[:], c.buf[at:c.have])
	return nil
}

// ended is the end of the guest's connection.
func (c *client) ended() error {
	c.vm.wait()
	if c.vm.poweredOff() {
		return io.EOF
	}
	return c.fail(ErrEnded, "%s, last message %v", c.vm.state(), c.last.op)
}

func (c *client) handle(m message) error {
	if m.op == opAck {
		c.acked = m.seq
		return nil
	}
	c.last = m
	if c.sched != nil && !c.shared {
		c.shared = c.sched.taken()
	}
	ack := message{op: opAck, seq: m.seq}
	switch m.op {
	case opStart:
		return c.start(ack)
	case opRequest:
		if t := m.when(); t < c.now {
			return c.fail(ErrProtocol, "REQUEST for %v in its past", t)
		}
		c.request = m.when()
	case opWait:
		c.waiting, c.granted = true, 0
		if c.shared {
			c.sched.runs(calendarClient)
			return c.reread()
		}
	case opGet:
		ack.time = uint64(c.cal.at)
	case opGetTOD:
		ack.time = uint64(timeOfDay)
	case opUpdate:
		if err := c.moved(m.when()); err != nil {
			return err
		}
	case opBroadcast:
	default:
		return c.fail(ErrProtocol, "unexpected message %v", m.op)
	}
	return c.send(ack)
}

// timeOfDay is what the guests' clocks of the day show at time 0, in ns.
const timeOfDay = 1_700_000_000 * int64(time.Second)

// start answers the first message. Since v6.12 a guest expects two descriptors
// with it: memory for a schedule, and a log.
func (c *client) start(ack message) error {
	c.started = true
	var fds [2]int
	var err error
	if c.sched == nil {
		// Memory whose version is 0 is no schedule.
		if fds[0], err = osio.Memfd("none", schedHeader); err != nil {
			return err
		}
		defer osio.Close(fds[0])
	} else {
		fds[0] = c.sched.fd
		c.sched.runs(guestClient)
		defer c.sched.sent()
	}
	if fds[1], err = osio.Memfd("log", schedHeader); err != nil {
		return err
	}
	defer osio.Close(fds[1])
	ack.time = guestClient
	_, err = osio.Send(c.time, ack.append(nil), fds[:], false)
	return err
}

// reread takes from the schedule when the guest wants to run.
func (c *client) reread() error {
	t := c.sched.request()
	if t < c.now {
		return c.fail(ErrProtocol, "a request for %v in its past", t)
	}
	c.request = t
	return nil
}

// kicks takes from the schedule the time of a guest that kicks its device. One
// that does not share memory has sent it.
func (c *client) kicks() error {
	if !c.shared {
		return nil
	}
	return c.moved(message{time: c.sched.now()}.when())
}

// moved is the guest's own word for its time.
func (c *client) moved(t vtime.Time) error {
	if t < c.now || t >= c.granted && t != c.now {
		return c.fail(ErrProtocol, "its time is %v, it may run from %v to %v", t, c.now, c.granted)
	}
	c.now, c.cal.at = t, t
	return nil
}

func (c *client) send(ms ...message) error {
	c.out = c.out[:0]
	for _, m := range ms {
		c.out = m.append(c.out)
	}
	for b := c.out; len(b) > 0; {
		n, err := unix.Write(c.time, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
			return c.ended()
		case err != nil:
			return c.fail(ErrEnded, "its clock: %v", err)
		default:
			b = b[n:]
		}
	}
	return nil
}

// tell numbers a message of ours.
func (c *client) tell(o op, t vtime.Time) message {
	c.seq++
	return message{op: o, seq: c.seq, time: uint64(t)}
}

// run lets the guest, which waits, run at t, and freely until another time.
func (c *client) run(t, until vtime.Time) error {
	c.waiting, c.request = false, vtime.Never
	c.now, c.granted = t, max(t, until)
	if c.began == 0 && t >= base {
		c.began = t
	}
	c.two[0] = c.tell(opFreeUntil, c.granted)
	say := c.two[:1]
	switch {
	case c.shared:
		c.sched.setNow(t)
		c.sched.setFreeUntil(c.granted)
		c.sched.runs(guestClient)
		say = say[:0]
	case until <= t:
		say = say[:0]
	}
	if err := c.send(append(say, c.tell(opRun, t))...); err != nil {
		return err
	}
	return c.serve()
}

// limit takes back a part of what the guest, which runs and waits for its device,
// was granted.
func (c *client) limit(t vtime.Time) error {
	if c.waiting || t >= c.granted {
		return nil
	}
	c.granted = max(t, c.now)
	if c.shared {
		c.sched.setFreeUntil(min(c.granted, c.sched.freeUntil()))
		return nil
	}
	m := c.tell(opFreeUntil, c.granted)
	if err := c.send(m); err != nil {
		return err
	}
	for c.acked != m.seq {
		if err := c.poll([]unix.PollFd{{Fd: int32(c.time), Events: unix.POLLIN}}); err != nil {
			return err
		}
		if err := c.readTime(); err != nil {
			return err
		}
	}
	return nil
}

// call interrupts the guest for a ring, now if it waits, else as soon as it
// does.
func (c *client) call(ring int) error {
	if !c.waiting {
		c.calls = append(c.calls, ring)
		return nil
	}
	return c.dev.call(ring)
}

func (c *client) flushCalls() error {
	for len(c.calls) > 0 {
		ring := c.calls[0]
		c.calls = c.calls[1:]
		if err := c.dev.call(ring); err != nil {
			return err
		}
	}
	return nil
}
