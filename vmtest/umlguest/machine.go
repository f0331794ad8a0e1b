package umlguest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost/osio"
)

// ErrStart says that a guest could not be started on this machine.
var ErrStart = errors.New("cannot start the guest")

// machine is the process of a kernel in user mode.
type machine struct {
	cmd     *exec.Cmd
	console *console
	ended   chan struct{} // closed when the process is gone
	err     error         // of it, valid then
	random  bool          // the address space is random: personality(2) was refused
}

// machineConfig is what a machine is started with.
type machineConfig struct {
	kernel string // executable
	shim   string // preloaded
	dir    string // where its files are
	memMB  int
	seed   uint64
	params []string // of the kernel
	device bool     // it has a network device
}

// Names of the files in a machine's directory: the initramfs, the sockets of its
// clock and of its device, and what it writes there of packets that it captured.
const (
	initrdFile  = "initrd"
	clockFile   = "clock"
	deviceFile  = "net"
	packetsFile = "packets"
)

// args is the kernel's command line. The kernel mixes it into its random numbers,
// so that nothing in it may differ from run to run: paths are relative.
func (c *machineConfig) args() []string {
	a := []string{
		"mem=" + strconv.Itoa(c.memMB) + "M", "initrd=" + initrdFile, "con=null", "con0=null,fd:1", "quiet",
		"uml_dir=.", "umid=uml", "time-travel=ext:" + clockFile,
	}
	if c.device {
		a = append(a, "virtio_uml.device="+deviceFile+":1")
	} else {
		a = append(a, "hostfs=/proc/self/cwd") // the directory that it may write to; no relative path: v6.12 refuses those
	}
	return append(a, c.params...)
}

// startMachine starts a kernel. It ends with the thread that starts it, so that
// is locked for as long as the machine is wanted.
func startMachine(c machineConfig) (*machine, error) {
	m := &machine{ended: make(chan struct{})}
	var err error
	if m.console, err = openConsole(filepath.Join(c.dir, "console")); err != nil {
		return nil, err
	}
	m.cmd = exec.Command(c.kernel, c.args()...)
	m.cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + c.dir, "LD_PRELOAD=" + c.shim,
		"VNETBENCH_SEED=" + strconv.FormatUint(c.seed, 10)}
	if t := os.Getenv("TMPDIR"); t != "" {
		m.cmd.Env = append(m.cmd.Env, "TMPDIR="+t) // where the guest's memory is; else /dev/shm
	}
	m.cmd.Dir = c.dir
	m.cmd.Stdout, m.cmd.Stderr = m.console.f, m.console.f
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	old, refused := fixedAddresses()
	m.random = refused != nil
	err = m.cmd.Start()
	restoreAddresses(old)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrStart, c.kernel, err)
	}
	go func() {
		m.err = m.cmd.Wait()
		close(m.ended)
	}()
	return m, nil
}

// addrNoRandomize is ADDR_NO_RANDOMIZE of personality(2).
const addrNoRandomize = 0x0040000

// fixedAddresses gives what this thread starts an address space without chance,
// as setarch -R does. The guest's physical memory depends on it.
func fixedAddresses() (old uintptr, err error) {
	old, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, 0xffffffff, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if _, _, errno = unix.RawSyscall(unix.SYS_PERSONALITY, old|addrNoRandomize, 0, 0); errno != 0 {
		return old, errno
	}
	return old, nil
}

func restoreAddresses(old uintptr) { unix.RawSyscall(unix.SYS_PERSONALITY, old, 0, 0) }

// wait waits a moment for the end of a process whose sockets are closed.
func (m *machine) wait() {
	select {
	case <-m.ended:
	case <-time.After(5 * time.Second):
	}
}

// poweredOff reports whether the process ended as a guest does that switches
// itself off.
func (m *machine) poweredOff() bool {
	select {
	case <-m.ended:
		return m.err == nil
	default:
		return false
	}
}

// state says in words what became of the process.
func (m *machine) state() string {
	select {
	case <-m.ended:
	default:
		return "it closed its clock"
	}
	var exit *exec.ExitError
	if errors.As(m.err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && (ws.Signaled() || exit.ExitCode() == 134) {
			return "its kernel panicked or was killed (" + exit.Error() + ")"
		}
	}
	if m.err != nil {
		return "its process ended: " + m.err.Error()
	}
	return "it switched itself off"
}

// kill ends the process and those that it started.
func (m *machine) kill() {
	_ = unix.Kill(-m.cmd.Process.Pid, unix.SIGKILL)
	<-m.ended
}

// door is a listening socket that one guest connects to.
type door struct{ fd int }

func openDoor(path string) (door, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return door{-1}, fmt.Errorf("socket: %w", err)
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err == nil {
		err = unix.Listen(fd, 1)
	}
	if err != nil {
		osio.Close(fd)
		return door{-1}, fmt.Errorf("%s: %w", path, err)
	}
	return door{fd}, nil
}

// take accepts the guest's connection.
func (d *door) take() (int, error) {
	fd, _, err := unix.Accept4(d.fd, unix.SOCK_CLOEXEC)
	return fd, err
}

// accept waits for the guest to connect, or for its end.
func (d *door) accept(m *machine, patience time.Duration) (int, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		fds := [1]unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}
		if n, _ := unix.Poll(fds[:], 50); n > 0 {
			return d.take()
		}
		select {
		case <-m.ended:
			return -1, fmt.Errorf("%w: %s; its console: %s", ErrStart, m.state(), m.console.last(8))
		default:
		}
	}
	return -1, fmt.Errorf("%w: it did not connect within %v; is the kernel built with UML_TIME_TRAVEL_SUPPORT? Its console: %s",
		ErrStart, patience, m.console.last(8))
}

// close closes a door that may be none.
func (d *door) close() {
	if d != nil {
		osio.Close(d.fd)
		d.fd = -1
	}
}
