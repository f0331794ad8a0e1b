package osio_test

import (
	"errors"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventfd(t testing.TB, n uint32) int {
	t.Helper()
	fd, err := osio.Eventfd(n)
	must(t, err)
	t.Cleanup(func() { osio.Close(fd) })
	return fd
}

func memfd(t testing.TB, size int64) int {
	t.Helper()
	fd, err := osio.Memfd("test", size)
	must(t, err)
	t.Cleanup(func() { osio.Close(fd) })
	return fd
}

func TestEventfdCounts(t *testing.T) {
	fd := eventfd(t, 2)
	var buf [8]byte
	for range 3 {
		must(t, osio.WriteEvent(fd))
	}
	for _, want := range []uint64{5, 0} {
		if n, err := osio.ReadEvent(fd, &buf); n != want || err != nil {
			t.Errorf("got %d, %v; want %d", n, err, want)
		}
	}
}

func TestEventfdThatIsFull(t *testing.T) {
	fd := eventfd(t, 0)
	full := [8]byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	_, err := unix.Write(fd, full[:])
	must(t, err)
	if err := osio.WriteEvent(fd); err != nil {
		t.Errorf("a saturated count is an error: %v", err)
	}
}

func TestPipeInTheRoleOfAnEventfd(t *testing.T) {
	var p [2]int
	must(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	for _, fd := range p {
		must(t, osio.PrepareNotifier(fd))
	}
	var buf [8]byte
	must(t, osio.WriteEvent(p[1]))
	must(t, osio.WriteEvent(p[1]))
	_, err := unix.Write(p[1], []byte{1})
	must(t, err)
	osio.Close(p[1])
	for _, want := range []uint64{1, 1, 1} {
		if n, err := osio.ReadEvent(p[0], &buf); n != want || err != nil {
			t.Errorf("got %d, %v; want %d", n, err, want)
		}
	}
	if _, err := osio.ReadEvent(p[0], &buf); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want EOF", err)
	}
	osio.Close(p[0])
	if _, err := osio.ReadEvent(p[0], &buf); !errors.Is(err, unix.EBADF) {
		t.Errorf("got %v, want EBADF", err)
	}
}

func TestPrepareNotifier(t *testing.T) {
	file := memfd(t, 4096)
	null, err := os.Open("/dev/null")
	must(t, err)
	defer null.Close()
	for _, fd := range []int{file, int(null.Fd())} {
		if err := osio.PrepareNotifier(fd); !errors.Is(err, osio.ErrNotNotifier) {
			t.Errorf("got %v, want %v", err, osio.ErrNotNotifier)
		}
	}
	if err := osio.PrepareNotifier(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("got %v, want EBADF", err)
	}
	blocking, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	must(t, err)
	defer osio.Close(blocking)
	must(t, osio.PrepareNotifier(blocking))
	var buf [8]byte
	if n, err := osio.ReadEvent(blocking, &buf); n != 0 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestMapAtAnyOffset(t *testing.T) {
	page := uint64(os.Getpagesize())
	fd := memfd(t, int64(8*page))
	whole, err := osio.Map(fd, 0, 8*page)
	must(t, err)
	defer whole.Unmap()
	for _, tt := range []struct{ offset, size uint64 }{
		{0, 1}, {1, 1}, {page - 1, 2}, {page, page}, {3*page + 17, 2*page + 5}, {8*page - 1, 1},
	} {
		m, err := osio.Map(fd, tt.offset, tt.size)
		must(t, err)
		b := m.Bytes()
		if uint64(len(b)) != tt.size || cap(b) != len(b) {
			t.Fatalf("%+v: %d bytes, capacity %d", tt, len(b), cap(b))
		}
		b[0], b[len(b)-1] = 7, 9
		if w := whole.Bytes(); w[tt.offset+tt.size-1] != 9 || tt.size > 1 && w[tt.offset] != 7 {
			t.Errorf("%+v: the bytes are not those of the file", tt)
		}
		if !m.Contains(uintptr(m.Addr())) || m.Contains(uintptr(whole.Addr())) {
			t.Errorf("%+v: Contains is wrong", tt)
		}
		must(t, m.Unmap())
		must(t, m.Unmap())
		if m.Contains(uintptr(whole.Addr())) || m.Bytes() != nil {
			t.Errorf("%+v: there is something left", tt)
		}
	}
}

func TestMapErrors(t *testing.T) {
	fd := memfd(t, 8192)
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	must(t, err)
	defer null.Close()
	for _, tt := range []struct {
		name         string
		fd           int
		offset, size uint64
		want         error
	}{
		{"empty", fd, 0, 0, osio.ErrEmptyMap},
		{"wraps", fd, 1 << 63, 1 << 63, osio.ErrMapRange},
		{"huge", fd, 0, 1<<62 + 1, osio.ErrMapRange},
		{"beyond the file", fd, 4096, 4097, osio.ErrShortFile},
		{"no file", -1, 0, 4096, unix.EBADF},
		{"a device", int(null.Fd()), 0, 4096, unix.ENODEV},
		{"an eventfd", eventfd(t, 0), 0, 4096, unix.ENODEV},
	} {
		if m, err := osio.Map(tt.fd, tt.offset, tt.size); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, %v; want %v", tt.name, m, err, tt.want)
		}
	}
}

func TestGuardTurnsATruncatedFileIntoAnError(t *testing.T) {
	fd := memfd(t, 1<<20)
	m, err := osio.Map(fd, 0, 1<<20)
	must(t, err)
	defer m.Unmap()
	b := m.Bytes()
	b[1<<19] = 1
	must(t, unix.Ftruncate(fd, 4096))
	dst := make([]byte, 1<<20)
	for name, f := range map[string]func(){
		"read":  func() { dst[0] = b[1<<19] },
		"write": func() { b[1<<19] = 1 },
		"copy":  func() { copy(dst, b) },
	} {
		err := osio.Guard(m.Contains, f)
		var fault *osio.FaultError
		if !errors.As(err, &fault) || !m.Contains(fault.Addr) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := osio.Guard(m.Contains, func() { dst[0] = b[0] }); err != nil {
		t.Errorf("the page that is left: %v", err)
	}
	_, err = unix.Write(memfd(t, 0), b[1<<19:])
	if !osio.IsFault(err) {
		t.Errorf("write(2) of the truncated memory: %v", err)
	}
}

func TestGuardLetsOtherPanicsThrough(t *testing.T) {
	caught := func(owns func(uintptr) bool, f func()) (r any) {
		defer func() { r = recover() }()
		_ = osio.Guard(owns, f)
		return nil
	}
	all := func(uintptr) bool { return true }
	if r := caught(all, func() { panic("ours") }); r != "ours" {
		t.Errorf("got %v", r)
	}
	var p *int
	if r := caught(all, func() { *p = 1 }); r == nil {
		t.Error("a nil pointer was taken for guest memory")
	}
	fd := memfd(t, 4096)
	m, err := osio.Map(fd, 0, 4096)
	must(t, err)
	defer m.Unmap()
	must(t, unix.Ftruncate(fd, 0))
	if r := caught(func(uintptr) bool { return false }, func() { m.Bytes()[0] = 1 }); r == nil {
		t.Error("a fault outside guest memory was swallowed")
	}
}

func socketpair(t testing.TB) [2]int {
	t.Helper()
	s, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must(t, err)
	t.Cleanup(func() { osio.CloseAll(s[:]) })
	return s
}

func TestDescriptorsTravel(t *testing.T) {
	s := socketpair(t)
	fd := eventfd(t, 7)
	if n, err := osio.Send(s[0], []byte("hello"), []int{fd, fd}, false); n != 5 || err != nil {
		t.Fatalf("sent %d, %v", n, err)
	}
	b := make([]byte, 2)
	n, fds, err := osio.Recv(s[1], b, nil)
	if n != 2 || len(fds) != 2 || err != nil {
		t.Fatalf("received %d bytes, descriptors %v, %v", n, fds, err)
	}
	for _, got := range fds {
		flags, err := unix.FcntlInt(uintptr(got), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d: flags %#x, %v", got, flags, err)
		}
	}
	var buf [8]byte
	if n, _ := osio.ReadEvent(fds[1], &buf); n != 7 {
		t.Errorf("the descriptor is of another file: count %d", n)
	}
	osio.CloseAll(fds)
	if n, fds, err := osio.Recv(s[1], make([]byte, 9), nil); n != 3 || len(fds) != 0 || err != nil {
		t.Errorf("the rest: %d bytes, %v, %v", n, fds, err)
	}
	if _, _, err := osio.Recv(s[1], b, nil); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("nothing there: %v", err)
	}
	osio.Close(s[0])
	if _, _, err := osio.Recv(s[1], b, nil); !errors.Is(err, io.EOF) {
		t.Errorf("closed: %v", err)
	}
}

func TestTooManyDescriptorsAreClosed(t *testing.T) {
	s := socketpair(t)
	fd := eventfd(t, 0)
	for _, tt := range []struct {
		sent, before int
		want         error
	}{{8, 0, nil}, {9, 0, osio.ErrTruncatedControl}, {16, 0, osio.ErrTruncatedControl}, {1, 8, osio.ErrTruncatedControl}} {
		var fds, had []int
		for range tt.sent {
			fds = append(fds, fd)
		}
		for range tt.before {
			n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
			must(t, err)
			had = append(had, n)
		}
		open := countFDs(t) - len(had)
		_, err := osio.Send(s[0], []byte("x"), fds, false)
		must(t, err)
		_, got, err := osio.Recv(s[1], make([]byte, 1), had)
		if !errors.Is(err, tt.want) {
			t.Errorf("%+v: got %v", tt, err)
		}
		osio.CloseAll(got)
		if n := countFDs(t); n != open {
			t.Errorf("%+v: %d descriptors open, %d before", tt, n, open)
		}
	}
}

func TestEmptyRights(t *testing.T) {
	s := socketpair(t)
	_, err := osio.Send(s[0], []byte("x"), nil, true)
	must(t, err)
	if n, fds, err := osio.Recv(s[1], make([]byte, 4), nil); n != 1 || len(fds) != 0 || err != nil {
		t.Errorf("%d bytes, %v, %v", n, fds, err)
	}
}

func countFDs(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(all)
}

func TestListening(t *testing.T) {
	s := socketpair(t)
	if on, err := osio.Listening(s[0]); on || err != nil {
		t.Errorf("connected socket: %v, %v", on, err)
	}
	for _, fd := range []int{-1, eventfd(t, 0)} {
		if _, err := osio.Listening(fd); err == nil {
			t.Errorf("descriptor %d is a socket", fd)
		}
	}
	udp, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer osio.Close(udp)
	if _, err := osio.Listening(udp); !errors.Is(err, osio.ErrNotSocket) {
		t.Errorf("datagram socket: %v", err)
	}
}

func TestPollerSleepsNanoseconds(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	must(t, osio.SetTimerSlack(1))
	p := osio.NewPoller(2)
	fd := eventfd(t, 0)
	p.Set(1, fd, osio.Readable)
	best := time.Hour
	for range 50 {
		start := time.Now()
		must(t, p.Wait(30*time.Microsecond))
		best = min(best, time.Since(start))
		if p.Events(0) != 0 || p.Events(1) != 0 {
			t.Fatalf("events %#x, %#x", p.Events(0), p.Events(1))
		}
	}
	if best < 30*time.Microsecond || best > time.Millisecond {
		t.Errorf("the shortest of 50 sleeps of 30us took %v", best)
	}
	must(t, osio.WriteEvent(fd))
	must(t, p.Wait(-1))
	if p.Events(1) != osio.Readable {
		t.Errorf("events %#x", p.Events(1))
	}
	p.Set(1, fd, 0)
	must(t, p.Wait(0))
	if p.Events(1) != 0 {
		t.Errorf("an empty slot has events %#x", p.Events(1))
	}
}

func TestUntil(t *testing.T) {
	for _, tt := range []struct {
		now, t vtime.Time
		want   time.Duration
	}{{5, vtime.Never, -1}, {5, 5, 0}, {5, 3, 0}, {5, 1005, 1000}} {
		if got := osio.Until(tt.now, tt.t); got != tt.want {
			t.Errorf("Until(%d, %d) = %v, want %v", tt.now, tt.t, got, tt.want)
		}
	}
}

func TestClockIsMonotonicClock(t *testing.T) {
	c := osio.NewClock()
	var ts unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
	if d := c.Now().Sub(vtime.Time(ts.Nano())); d < 0 || d > time.Second {
		t.Errorf("the clock is %v off", d)
	}
}

func TestTheLoopAllocatesNothing(t *testing.T) {
	p := osio.NewPoller(2)
	fd := eventfd(t, 0)
	p.Set(0, fd, osio.Readable)
	c := osio.NewClock()
	var buf [8]byte
	if n := testing.AllocsPerRun(100, func() {
		_ = osio.WriteEvent(fd)
		_ = p.Wait(osio.Until(c.Now(), c.Now()+1000))
		_, _ = osio.ReadEvent(fd, &buf)
		_, _ = osio.ReadEvent(fd, &buf) // nothing there
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A sleep ends at its time or later, and one until a time that has passed at once.
func TestSleepUntil(t *testing.T) {
	until := time.Now().Add(3 * time.Millisecond)
	osio.SleepUntil(until)
	if now := time.Now(); now.Before(until) {
		t.Errorf("woke %v too early", until.Sub(now))
	}
	osio.SleepUntil(time.Now().Add(-time.Hour)) // would not come back for an hour
}
