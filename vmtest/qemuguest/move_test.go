package qemuguest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hugelgupf/vmtest/qemu"
	"github.com/vishvananda/netlink"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// move is a guest that moves between two back-ends.
type move struct {
	t        *testing.T
	dir      string
	scenario vmtest.Scenario
	config   machineConfig // of every machine, without what differs
	image    *image
	listen   net.Listener
	binary   string        // vnetbench
	flags    []string      // of serve
	postcopy bool          // the guest moves before its memory does
	every    time.Duration // a piece of the stream is sent
	backends [2]*exec.Cmd
	said     [2]*strings.Builder
	jobs     chan func() error // for the thread in the namespace
	results  chan error
	bridge   *netlink.Handle
	ports    [2]int // of the bridge, as interface indices
	at       int    // the back-end in use
	vm       *machine
	monitor  *qmp
	conn     net.Conn

	echoed atomic.Int64
	pause  atomic.Bool
	fed    chan int64 // how many bytes were sent, when that ended
	heard  chan error
}

func newMove(t *testing.T, e Emulator, flags ...string) *move {
	t.Helper()
	m := &move{t: t, config: machineConfig{emulator: e}, flags: flags, every: pieceEvery, fed: make(chan int64, 1), heard: make(chan error, 1)}
	var err error
	m.dir, err = os.MkdirTemp("", "vnbmv")
	m.ok(err)
	t.Cleanup(func() { os.RemoveAll(m.dir) })
	s := vmtest.Default()
	s.Kernel, s.QueuePairs = "6.1", 1
	m.scenario, err = s.Applied()
	m.ok(err)
	m.prepareMachine()
	m.binary = m.build("vnetbench", modulePath+"/cmd/vnetbench")
	m.openNamespace()
	m.ok(m.inside(m.network))
	for i := range m.backends {
		m.ok(m.serve(i))
		t.Cleanup(func() { m.endBackend(i) })
	}
	return m
}

func (m *move) ok(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// build builds a program of this module.
func (m *move) build(name, pkg string) string {
	m.t.Helper()
	out := filepath.Join(m.dir, name)
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64")
	if msg, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%v: %s", err, msg)
	}
	return out
}

func (m *move) prepareMachine() {
	ctx := m.t.Context()
	g := New(Config{Program: m.build("echo", "./testdata/echo")})
	k, err := FindKernel(m.scenario.Kernel)
	m.ok(err)
	m.image, err = g.image(ctx, &m.scenario, k)
	m.ok(err)
	m.config = machineConfig{emulator: m.config.emulator, kernel: k, cpus: 1, memMB: 192, console: &console{},
		nic: nicConfig{pairs: 1, ring: 256, eventIdx: true, indirect: true, more: ",guest_announce=off"}}
}

// useKernel boots another kernel, and gives the guest's program arguments.
func (m *move) useKernel(name string, args ...string) {
	m.t.Helper()
	m.scenario.Kernel = name
	k, err := FindKernel(name)
	m.ok(err)
	m.config.kernel = k
	m.image, err = New(Config{Program: filepath.Join(m.dir, "echo"), Args: args}).image(m.t.Context(), &m.scenario, k)
	m.ok(err)
}

// openNamespace starts a thread in a new namespace, which ends with the test.
// Processes that it starts die with it.
func (m *move) openNamespace() {
	m.jobs, m.results = make(chan func() error), make(chan error)
	go func() {
		runtime.LockOSThread()
		err := visit(func() error {
			for job := range m.jobs {
				m.results <- job()
			}
			return nil
		})
		for range m.jobs { // there is no namespace
			m.results <- err
		}
	}()
	m.t.Cleanup(func() { close(m.jobs) })
}

// inside runs f in the namespace.
func (m *move) inside(f func() error) error {
	m.jobs <- f
	return <-m.results
}

// network runs in the new namespace: a bridge with the host's address, and taps as
// its ports, which outlive the back-ends that open them.
func (m *move) network() (err error) {
	if m.bridge, err = netlink.NewHandle(); err != nil {
		return err
	}
	m.t.Cleanup(m.bridge.Close)
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	if err := errors.Join(hostSysctls(&m.scenario), netlink.LinkAdd(br), setAddress("br0", endsFor(4).host, 1500)); err != nil {
		return err
	}
	for i := range m.ports {
		t := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: m.tap(i)}, Mode: netlink.TUNTAP_MODE_TAP,
			Flags: netlink.TUNTAP_MULTI_QUEUE_DEFAULTS | netlink.TUNTAP_VNET_HDR}
		if err := netlink.LinkAdd(t); err != nil {
			return err
		}
		if err := netlink.LinkSetMaster(t, br); err != nil {
			return err
		}
		m.ports[i] = t.Attrs().Index
	}
	m.listen, err = net.Listen("tcp", net.JoinHostPort(endsFor(4).hostIP(), strconv.Itoa(receiverPort)))
	if err == nil {
		m.t.Cleanup(func() { m.listen.Close() })
	}
	return err
}

func (m *move) tap(i int) string    { return fmt.Sprintf("vnb%d", i) }
func (m *move) socket(i int) string { return filepath.Join(m.dir, m.tap(i)+".sock") }

// serve starts back-end i in the namespace, and waits for its socket.
func (m *move) serve(i int) error {
	args := append([]string{"serve", "--socket-path", m.socket(i), "--net", "tap:" + m.tap(i), "--stats", "0"}, m.flags...)
	cmd := exec.Command(m.binary, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	m.backends[i], m.said[i] = cmd, new(strings.Builder)
	cmd.Stdout, cmd.Stderr = m.said[i], m.said[i]
	if err := m.inside(cmd.Start); err != nil {
		return err
	}
	for range 400 {
		if c, err := net.Dial("unix", m.socket(i)); err == nil {
			return c.Close()
		}
		time.Sleep(25 * time.Millisecond)
	}
	return errors.New("the back-end does not listen")
}

// endBackend ends a back-end in the ordinary way.
func (m *move) endBackend(i int) {
	cmd := m.backends[i]
	if cmd == nil || cmd.Process == nil {
		return
	}
	m.backends[i] = nil
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		m.t.Errorf("back-end %d: %v", i, err)
	}
	if m.t.Failed() {
		m.t.Logf("back-end %d said:\n%s", i, m.said[i].String())
	}
}

// start starts a machine at back-end i, one that waits for a guest with
// incoming.
func (m *move) start(i int, incoming string) (*machine, *qmp) {
	m.t.Helper()
	initrd, err := m.image.file()
	m.ok(err)
	ours, theirs, err := socketPair()
	m.ok(err)
	defer theirs.Close()
	c := m.config
	c.initrd, c.nic.socket = initrd, m.socket(i)
	c.extend = func(o *qemu.Options) {
		o.AppendQEMU("-chardev", fmt.Sprintf("socket,id=qmp,fd=%d", o.AddFile(theirs)), "-mon", "chardev=qmp,mode=control")
		if incoming != "" {
			o.AppendQEMU("-incoming", incoming)
		}
	}
	vm, err := startMachine(c)
	m.ok(err)
	m.t.Cleanup(vm.kill)
	conn, err := net.FileConn(ours)
	ours.Close()
	m.ok(err)
	m.t.Cleanup(func() { conn.Close() })
	q := newQMP(conn)
	m.ok(q.do("qmp_capabilities", nil, nil))
	return vm, q
}

// boot starts the guest and talks to it until its program runs.
func (m *move) boot() {
	m.t.Helper()
	m.vm, m.monitor = m.start(0, "")
	deadline := time.After(bootPatience)
	for {
		select {
		case msg, ok := <-m.vm.messages:
			if !ok {
				m.t.Fatalf("the guest has gone; console: %s", m.config.console.last(10))
			}
			switch msg.Kind {
			case proto.Ready:
				m.ok(m.vm.send(proto.Message{Kind: proto.Go}))
			case proto.Quiet:
				m.ok(m.vm.send(proto.Message{Kind: proto.Seen}))
			case proto.Agreed:
				return
			case proto.Error:
				m.t.Fatalf("the guest: %s", msg.Text)
			}
		case <-deadline:
			m.t.Fatalf("the guest does not come up; console: %s", m.config.console.last(10))
		}
	}
}

// migrate moves the guest to the other back-end.
func (m *move) migrate() {
	m.t.Helper()
	to := 1 - m.at
	uri := "unix:" + filepath.Join(m.dir, "migration.sock")
	vm, q := m.start(to, uri)
	m.ok(m.monitor.do("migrate-set-parameters", map[string]any{"max-bandwidth": int64(4 << 30), "downtime-limit": 500}, nil))
	if m.postcopy {
		on := map[string]any{"capabilities": []map[string]any{{"capability": "postcopy-ram", "state": true}}}
		m.ok(errors.Join(m.monitor.do("migrate-set-capabilities", on, nil), q.do("migrate-set-capabilities", on, nil)))
	}
	m.ok(m.monitor.do("migrate", map[string]any{"uri": uri}, nil))
	if m.postcopy {
		m.ok(m.monitor.do("migrate-start-postcopy", nil, nil))
	}
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var status struct {
			Status    string
			ErrorDesc string `json:"error-desc"`
		}
		m.ok(m.monitor.do("query-migrate", nil, &status))
		if status.Status == "completed" {
			break
		}
		if status.Status == "failed" || time.Now().After(end) {
			m.t.Fatalf("migration is %s: %s; console: %s", status.Status, status.ErrorDesc, m.config.console.last(10))
		}
	}
	m.ok(m.monitor.do("quit", nil, nil))
	m.vm.waitEnd(endPatience)
	m.vm, m.monitor, m.at = vm, q, to
}

// learned is the back-end at whose port the bridge has the guest.
func (m *move) learned() int {
	m.t.Helper()
	all, err := m.bridge.NeighList(0, syscall.AF_BRIDGE)
	m.ok(err)
	for _, n := range all {
		if n.HardwareAddr.String() != guestMAC {
			continue
		}
		for i, port := range m.ports {
			if n.LinkIndex == port {
				return i
			}
		}
	}
	return -1
}
