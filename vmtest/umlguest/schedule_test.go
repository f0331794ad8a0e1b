package umlguest

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// sharing is a client whose guest, which is the test, keeps to shared memory.
func sharing(t *testing.T) (c *client, fd int) {
	t.Helper()
	c, fd = fakeClient(t)
	var err error
	if c.sched, err = newSchedule(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.sched.close)
	c.sched.word32(clientAt(guestClient, schedCapa)).Store(capShare)
	return c, fd
}

// want is a request of the guest's.
func want(c *client, at uint64) {
	c.sched.word64(clientAt(guestClient, schedRequest)).Store(at)
	c.sched.word32(clientAt(guestClient, schedFlags)).Store(flagRequest)
}

// The layout is the kernel's: the first page is the header.
func TestScheduleLayout(t *testing.T) {
	s, err := newSchedule()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.setNow(3)
	s.setFreeUntil(4)
	s.runs(guestClient)
	for at, want := range map[int]byte{0: 2, 4: 0, 5: 0x11, 8: 4, 16: 3, 24: 0, 26: 2, 4096 + 128: 1} {
		if got := s.mem[at]; got != want {
			t.Errorf("byte %d is %#x, want %#x", at, got, want)
		}
	}
	if err := unix.Ftruncate(s.fd, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("a guest can take the memory away: %v", err)
	}
}

// A guest that shares memory says that it waits, and hears that it runs; nothing
// of that is acknowledged.
func TestSharedRun(t *testing.T) {
	c, fd := sharing(t)
	want(c, 400)
	say(t, fd, message{opWait, 1, 0})
	if err := c.serve(); err != nil || !c.waiting || c.request != 400 {
		t.Fatalf("%v, waiting %v until %v, want 400", err, c.waiting, c.request)
	}
	want(c, 900)
	say(t, fd, message{opWait, 2, 0})
	if err := c.run(400, 700); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, fd); got.op != opRun || got.time != 400 {
		t.Errorf("heard %+v, want RUN", got)
	}
	if c.sched.freeUntil() != 700 || c.sched.now() != 400 || c.request != 900 {
		t.Errorf("free until %v at %d, runs next at %v", c.sched.freeUntil(), c.sched.now(), c.request)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n != 0 || err != nil {
		t.Error("more was said than RUN")
	}
	c.sched.word32(clientAt(guestClient, schedFlags)).Store(0)
	if err := c.reread(); err != nil || c.request != vtime.Never {
		t.Errorf("%v, without a request it runs at %v", err, c.request)
	}
}

// What is granted gets less while a kick is handled, and what the guest took back
// itself stays so.
func TestSharedLimit(t *testing.T) {
	c, _ := sharing(t)
	c.shared, c.now, c.granted = true, 100, 1000
	c.sched.setFreeUntil(1000)
	c.sched.setNow(300)
	if err := c.kicks(); err != nil || c.now != 300 || c.cal.at != 300 {
		t.Fatalf("%v, time %v and %v", err, c.now, c.cal.at)
	}
	if err := c.limit(600); err != nil || c.sched.freeUntil() != 600 {
		t.Errorf("%v, free until %v, want 600", err, c.sched.freeUntil())
	}
	c.sched.setFreeUntil(400)
	if err := c.limit(500); err != nil || c.sched.freeUntil() != 400 {
		t.Errorf("%v, free until %v, want what the guest wrote", err, c.sched.freeUntil())
	}
}

func TestSharedFaults(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(c *client) error
		text string
	}{
		"past":  {func(c *client) error { want(c, 10); return c.reread() }, "in its past"},
		"ahead": {func(c *client) error { c.sched.setNow(5000); return c.kicks() }, "it may run from"},
		"back":  {func(c *client) error { c.sched.setNow(1); return c.kicks() }, "it may run from"},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := sharing(t)
			k.shared, k.now, k.granted = true, 1000, 2000
			if err := c.do(k); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want ErrProtocol with %q", err, c.text)
			}
		})
	}
}
