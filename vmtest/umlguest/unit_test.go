package umlguest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/u-root/mkuimage/cpio"
	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
)

func TestMessage(t *testing.T) {
	m := message{op: opRequest, seq: 0x01020304, time: 0x1122334455667788}
	b := m.append(nil)
	want := []byte{2, 0, 0, 0, 4, 3, 2, 1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}
	if !bytes.Equal(b, want) {
		t.Errorf("bytes %x, want %x", b, want)
	}
	if got := parseMessage(b); got != m {
		t.Errorf("read back %+v, want %+v", got, m)
	}
	for _, c := range []struct {
		time uint64
		want vtime.Time
	}{{0, 0}, {1 << 40, 1 << 40}, {1<<63 - 1, vtime.Never}, {1<<64 - 1, vtime.Never}} {
		if got := (message{time: c.time}).when(); got != c.want {
			t.Errorf("time %d is %v, want %v", c.time, got, c.want)
		}
	}
	if got := op(77).String(); got != "operation 77" {
		t.Errorf("unknown operation: %q", got)
	}
}

func TestConsole(t *testing.T) {
	c := newConsole(t)
	for _, part := range []string{"Linux version\r\n@flow 0 end written=5\n@re", "ady\n", "panic: no init", "", "\nhalf"} {
		_, _ = io.WriteString(c.f, part)
	}
	if got := c.last(2); got != "panic: no init | half" {
		t.Errorf("last lines %q", got)
	}
	if got := c.said("flow"); len(got) != 1 || got[0] != "0 end written=5" {
		t.Errorf("report of flows %q", got)
	}
	if len(c.said("ready")) != 1 || len(c.said("read")) != 0 {
		t.Error("a word of the report is not found, or a part of one is")
	}
	var all strings.Builder
	if err := c.close(&all); err != nil || !strings.HasSuffix(all.String(), "\nhalf") || c.last(1) != "half" {
		t.Errorf("after close: %v, %q, last line %q", err, all.String(), c.last(1))
	}
}

func newConsole(t *testing.T) *console {
	t.Helper()
	c, err := openConsole(filepath.Join(t.TempDir(), "console"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.f != nil {
			c.f.Close()
		}
	})
	return c
}

func TestCounters(t *testing.T) {
	got := counters([]string{"TcpExt: A B", "TcpExt: 1 2", "IpExt: X", "IpExt: 9", "Tcp: C", "Tcp: -3", "Tcp: D E", "Tcp: 4"})
	if d := cmp.Diff(map[string]float64{"A": 1, "B": 2, "C": -3}, got); d != "" {
		t.Errorf("want - got +:\n%s", d)
	}
}

func scenario(t *testing.T, settings ...string) vmtest.Scenario {
	t.Helper()
	s := vmtest.Default()
	for _, text := range settings {
		st, err := vmtest.ParseSetting(text)
		if err == nil {
			err = s.Set(st.Key, st.Value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestConf(t *testing.T) {
	s := scenario(t, "ip=6", "mtu=4168", "flows=2", "write=64k", "think=2us", "pacing=85.7MB/s", "qdisc=fq", "queue_pairs=2",
		"gso_max_size=30000", "sysctl.tcp_wmem=4096 65536 33554432", "flow.1.cc=bbr", "flow.1.start=1ms", "nodelay=on", "warmup=5ms", "duration=20ms")
	want := `sysctl net/core/default_qdisc fq
sysctl net/ipv4/tcp_no_metrics_save 1
sysctl net/ipv4/tcp_wmem 4096 65536 33554432
sysctl net/ipv6/conf/all/accept_dad 0
sysctl net/ipv6/conf/all/disable_ipv6 0
sysctl net/ipv6/conf/eth0/accept_dad 0
sysctl net/ipv6/conf/eth0/accept_ra 0
mtu eth0 4168
channels eth0 2
tso eth0 1
gso eth0 1
gso_max_size eth0 30000
addr eth0 2001:db8::1 64
up lo
up eth0
neigh eth0 2001:db8::2 52:54:00:12:34:01
base 1000000000 5000000 20000000
flow 2001:db8::2 5001 2001:db8::1 20000 cubic 0 65536 2000 0 85700000 1 0 0 0 0 0
flow 2001:db8::2 5001 2001:db8::1 20001 bbr 1000000 65536 2000 0 85700000 1 0 0 0 0 0
`
	if d := cmp.Diff(want, senderConf(&s, 0)); d != "" {
		t.Errorf("want - got +:\n%s", d)
	}
	if got := receiverConf(&s, 0); !strings.HasSuffix(got, "up eth0\nneigh eth0 2001:db8::1 52:54:00:12:34:56\nsink 2001:db8::2 5001\n") {
		t.Errorf("receiver:\n%s", got)
	}
}

// What a guest is told depends on the scenario only: not on its name, nor on what
// is said to others.
func TestConfIgnoresOthers(t *testing.T) {
	a, b := scenario(t), scenario(t, "host=fast", "link.delay=1ms", "policy=hold:time=10us", "seed=7")
	b.Name = "another"
	if d := cmp.Diff(senderConf(&a, 0), senderConf(&b, 0)); d != "" {
		t.Errorf("the guest notices:\n%s", d)
	}
}

func TestThink(t *testing.T) {
	s := scenario(t, "guest_cpu=free", "work=300ns")
	if got := think(&s, s.Flow(0)); got != 300*time.Nanosecond {
		t.Errorf("pause %v, want the program's work", got)
	}
	s = scenario(t, "guest_cpu=kvm", "write=1024")
	one := think(&s, s.Flow(0))
	s.Write = 65536
	if many := think(&s, s.Flow(0)); one <= 0 || many <= one {
		t.Errorf("pauses %v for 1024 bytes and %v for 64k", one, many)
	}
	s.Think = time.Microsecond
	if got := think(&s, s.Flow(0)); got != time.Microsecond {
		t.Errorf("pause %v, want the scenario's think", got)
	}
}

func TestInitramfs(t *testing.T) {
	dir := t.TempDir()
	init := filepath.Join(dir, "prog")
	if err := os.WriteFile(init, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "initrd")
	if err := writeInitramfs(path, init, "up eth0\n"); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(f))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, r := range records {
		b := make([]byte, r.FileSize)
		if _, err := r.ReadAt(b, 0); err != nil && r.FileSize > 0 && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		have[r.Name] = string(b)
	}
	if have["init"] != "program" || have["conf"] != "up eth0\n" {
		t.Errorf("archive %q", have)
	}
	if _, ok := have["dev/console"]; !ok {
		t.Error("no console: the program's output would be lost")
	}
}

// A directory of a run whose process is gone is removed by the next, and that of
// one that lives is not.
func TestRunDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dead := filepath.Join(os.TempDir(), "vnb-uml-999999999-x")
	live := filepath.Join(os.TempDir(), "vnb-uml-1-x")
	for _, d := range []string{dead, live} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := runDir(); err != nil && !errors.Is(err, ErrStart) {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of a dead process is still there: %v", err)
	}
	if _, err := os.Stat(live); err != nil {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	g := New(Config{})
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{[]string{"kernel=6.2"}, `"6.2"; there are 6.12 and 6.1`},
		{[]string{"tcp.grow=on"}, "--kernel PATH"},
		{[]string{"ring_size=512"}, "ring_size: 512"},
		{[]string{"topology=veth", "queue_pairs=2"}, "queue_pairs"},
		{[]string{"topology=veth", "router.fwd=netem:drop=3"}, "router.fwd"},
		{[]string{"topology=veth", "qdisc=fq:quantum=9000"}, "write fq"},
		{[]string{"topology=veth", "receiver.kind=kernel", "receiver.kernel=6.1"}, "receiver.kernel"},
		{[]string{"trace.at=driver"}, "trace.at"},
		{[]string{"qdisc=tbf"}, "qdisc"},
		{[]string{"cc=vegas"}, "cc:"},
		{[]string{"hz=1000"}, "hz"},
		{[]string{"queue_pairs=2", "flow.0.queue=1"}, "by hash"},
		{[]string{"policy=none:x=1"}, "policy"},
	} {
		s := scenario(t, c.settings...)
		if err := g.Check(s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q in it", c.settings, err, c.want)
		}
	}
	for _, ok := range [][]string{
		{"kernel=6.1", "cc=bbr", "qdisc=fq", "receiver.kind=kernel"},
		{"topology=veth", "ring_size=512", "qdisc=tbf:rate=200M,burst=71680,limit=20971520", "router.rev=netem:delay=1ms,rate=1G"},
	} {
		if err := g.Check(scenario(t, ok...)); err != nil {
			t.Errorf("%v: %v", ok, err)
		}
	}
}

func TestFindKernel(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	ctx := context.Background()
	if _, err := FindKernel(ctx, "6.12"); !errors.Is(err, ErrKernel) || !strings.Contains(err.Error(), "vnetbench kernel build 6.12") {
		t.Errorf("a kernel that is not built: %v", err)
	}
	if _, err := FindKernel(ctx, "./nowhere"); !errors.Is(err, ErrKernel) {
		t.Errorf("a path where nothing is: %v", err)
	}
	if _, err := FindKernel(ctx, "/bin/false"); !errors.Is(err, ErrKernel) || !strings.Contains(err.Error(), "ARCH=um") {
		t.Errorf("a program that is no kernel: %v", err)
	}
}

// fakeClient is a client whose guest is the test, at the other end of fd.
func fakeClient(t *testing.T) (c *client, fd int) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	k := &calendar{ctx: context.Background(), patience: 300 * time.Millisecond}
	c = &client{cal: k, name: "guest sender", time: p[0], request: vtime.Never}
	c.vm = &machine{console: newConsole(t), ended: make(chan struct{})}
	c.dev = &session{c: c, fd: -1, backend: -1}
	k.clients = []*client{c}
	return c, p[1]
}

func say(t *testing.T, fd int, ms ...message) {
	t.Helper()
	for _, m := range ms {
		if _, err := unix.Write(fd, m.append(nil)); err != nil {
			t.Fatal(err)
		}
	}
}

func hear(t *testing.T, fd int) message {
	t.Helper()
	var b [messageLen]byte
	if n, err := unix.Read(fd, b[:]); n != messageLen || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	return parseMessage(b[:])
}

func TestServe(t *testing.T) {
	c, fd := fakeClient(t)
	say(t, fd, message{opGetTOD, 1, 0}, message{opRequest, 2, 500}, message{opRequest, 3, 400}, message{opWait, 4, 0})
	if err := c.serve(); err != nil {
		t.Fatal(err)
	}
	if !c.waiting || c.request != 400 {
		t.Errorf("waiting %v until %v, want the last request", c.waiting, c.request)
	}
	for seq := range uint32(4) {
		want := message{op: opAck, seq: seq + 1}
		if seq == 0 {
			want.time = uint64(timeOfDay)
		}
		if got := hear(t, fd); got != want {
			t.Errorf("answer %+v, want %+v", got, want)
		}
	}
}

// A guest that is told to run hears first how far it may go on its own.
func TestRunGuest(t *testing.T) {
	c, fd := fakeClient(t)
	c.waiting = true
	say(t, fd, message{opUpdate, 1, 1500}, message{opWait, 2, 0})
	if err := c.run(1000, 2000); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, fd); got.op != opFreeUntil || got.time != 2000 {
		t.Errorf("first %+v, want FREE_UNTIL", got)
	}
	if got := hear(t, fd); got.op != opRun || got.time != 1000 {
		t.Errorf("then %+v, want RUN", got)
	}
	if c.now != 1500 || c.cal.at != 1500 {
		t.Errorf("time %v and %v after UPDATE, want 1500", c.now, c.cal.at)
	}
}

func TestGuestFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		say  []message
		want error
		text string
	}{
		{"past", []message{{opRequest, 1, 10}}, ErrProtocol, "in its past"},
		{"ahead", []message{{opUpdate, 1, 5000}}, ErrProtocol, "it may run from"},
		{"run", []message{{opRun, 1, 0}}, ErrProtocol, "unexpected message RUN"},
		{"unknown", []message{{op(99), 1, 0}}, ErrProtocol, "operation 99"},
		{"silence", nil, ErrStuck, "WAIT, after RUN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, fd := fakeClient(t)
			k.started, k.now, k.granted = true, 1000, 2000
			_, _ = io.WriteString(k.vm.console.f, "last words\n")
			say(t, fd, c.say...)
			err := k.serve()
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "guest sender at ") ||
				!strings.Contains(err.Error(), "last words") {
				t.Errorf("%v, want %v with %q, the guest's name, the time and its console", err, c.want, c.text)
			}
		})
	}
}

// When nobody has anything to come, the run ends instead of hanging.
func TestDeadlock(t *testing.T) {
	c, _ := fakeClient(t)
	c.waiting = true
	if err := c.cal.run(); !errors.Is(err, ErrStuck) || !strings.Contains(err.Error(), "every guest waits") {
		t.Errorf("%v, want ErrStuck", err)
	}
}

// A guest that takes its memory away is ended with an error; this process is not.
func TestMemoryGone(t *testing.T) {
	c, _ := fakeClient(t)
	c.waiting, c.request = true, 200
	fd, err := osio.Memfd("guest", 8192)
	if err != nil {
		t.Fatal(err)
	}
	defer osio.Close(fd)
	m, err := osio.Map(fd, 0, 8192)
	if err != nil {
		t.Fatal(err)
	}
	c.dev.maps = map[vhost.RegionID]*osio.Mapping{1: m}
	defer c.dev.unmap()
	if err := unix.Ftruncate(fd, 0); err != nil {
		t.Fatal(err)
	}
	c.cal.loop.At(100, actor(func() { m.Bytes()[5000] = 1 }), 0)
	if err := c.cal.run(); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "guest sender at 100ns") || !strings.Contains(err.Error(), "memory") {
		t.Errorf("%v, want ErrProtocol of the guest", err)
	}
}

// Events of the device go before a guest that asked for the same time.
func TestTies(t *testing.T) {
	c, fd := fakeClient(t)
	c.waiting, c.request = true, 100
	var order []string
	c.cal.loop.At(100, actor(func() { order = append(order, "device") }), 0)
	if err := c.cal.round(); err != nil {
		t.Fatal(err)
	}
	say(t, fd, message{opWait, 1, 0})
	if err := c.cal.round(); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, fd); got.op != opRun && got.op != opFreeUntil || len(order) != 1 {
		t.Errorf("guest heard %v after %v", got.op, order)
	}
}

type actor func()

func (a actor) Run(vtime.Time, uint64) { a() }

// The model runs what the kernel runs: the same pauses, limits and queues.
func TestModel(t *testing.T) {
	s := scenario(t, "kernel=6.1", "flows=2", "queue_pairs=2", "gso_max_size=181000", "nic.tso_max_size=524280", "guest_cpu=kvm", "work=300ns", "receiver.kind=kernel")
	m := Model(s, []int{1, 0}, nil)
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	if m.Kernel != "6.1" || m.HZ != 100 || m.GuestCPU != "uml" || m.GSOMaxSize != 65536 || m.Work != 0 || m.CPUs() != 1 || m.Driver["bql"] != "off" || m.Receiver.Kind != vmtest.ReceiverKernel {
		t.Errorf("model %+v", m)
	}
	for i, queue := range []int{1, 0} {
		if f := m.Flow(i); f.Queue != queue || f.Think != think(&s, s.Flow(i)) || f.Think == 0 {
			t.Errorf("flow %d: %+v", i, f)
		}
	}
	if s.HZ != 0 || len(s.PerFlow) != 0 {
		t.Error("the scenario itself was changed")
	}
}

func TestSeparable(t *testing.T) {
	for _, c := range []struct {
		settings []string
		want     bool
	}{
		{[]string{"flows=2", "queue_pairs=2"}, true},
		{[]string{"flows=3", "queue_pairs=4"}, true},
		{[]string{"flows=2", "queue_pairs=1"}, false},
		{[]string{"flows=1", "queue_pairs=2"}, false},
		{[]string{"flows=8", "queue_pairs=8"}, false},
		{[]string{"flows=2", "queue_pairs=2", "flow.1.start=1s"}, false},
	} {
		s := scenario(t, c.settings...)
		if got := separable(&s); got != c.want {
			t.Errorf("%v: %v, want %v", c.settings, got, c.want)
		}
	}
}

// An attempt whose flows share a queue ends when the last has connected.
func TestConnected(t *testing.T) {
	w := &world{separate: true, flows: []flowState{{known: true, queue: 1}, {queue: 1}}}
	if w.connected(); w.cal.fail != nil {
		t.Errorf("%v, but one flow has not connected", w.cal.fail)
	}
	w.flows[1].known = true
	if w.connected(); !errors.Is(w.cal.fail, errSameQueue) {
		t.Errorf("%v, want errSameQueue", w.cal.fail)
	}
}

// Guests have addresses of their own, and flows go around among them.
func TestManyConf(t *testing.T) {
	s := scenario(t, "flows=5", "guests.senders=2", "guests.receivers=3", "receiver.kind=kernel", "ip=6")
	got := senderConf(&s, 1)
	for _, want := range []string{
		"addr eth0 2001:db8::101 64\n", "neigh eth0 2001:db8::2 52:54:00:12:34:01\n", "neigh eth0 2001:db8::202 52:54:00:12:36:02\n",
		"flow 2001:db8::201 5001 2001:db8::101 20001 ", "flow 2001:db8::2 5001 2001:db8::101 20003 ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\nflow "); n != 2 {
		t.Errorf("%d flows, want 2", n)
	}
	if got := receiverConf(&s, 2); !strings.HasSuffix(got, "neigh eth0 2001:db8::1 52:54:00:12:34:56\nneigh eth0 2001:db8::101 52:54:00:12:35:01\nsink 2001:db8::202 5001\n") {
		t.Errorf("receiver:\n%s", got)
	}
}

// No two guests have an address in common.
func TestEnds(t *testing.T) {
	for _, ip := range []int{4, 6} {
		seen := map[string]bool{}
		for i := range vmtest.MaxGuests {
			for _, e := range []end{senderEnd(ip, i), receiverEnd(ip, i)} {
				if seen[e.text] || seen[e.macText()] {
					t.Errorf("%s or %s is twice there", e.text, e.macText())
				}
				seen[e.text], seen[e.macText()] = true, true
			}
		}
	}
}
