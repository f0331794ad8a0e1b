package qemuguest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hugelgupf/vmtest/qemu"
	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// machineConfig is the virtual machine around the guest.
type machineConfig struct {
	emulator   Emulator
	kvm        bool
	kernel     Kernel
	initrd     *os.File // closed by start
	cpus       int
	memMB      int
	nic        nicConfig
	console    *console
	devices    []string            // arguments of devices that come before the network's
	kernelArgs []string            // after the usual ones
	extend     func(*qemu.Options) // adds to the command line; nil: nothing
}

// nicConfig is the network device that the machine gets.
type nicConfig struct {
	socket   string // abstract name of the vhost-user socket, or its path
	pairs    int
	ring     int
	eventIdx bool
	indirect bool
	packed   bool
	more     string // further properties of the device, each with a comma before it
}

// machine is a running QEMU.
type machine struct {
	cancel   context.CancelFunc
	control  net.Conn
	messages chan proto.Message // closed when the guest's line ends
	ended    chan struct{}      // closed when QEMU is gone
	err      error              // of QEMU; valid after ended
	cmdline  string
	console  *console
}

// startMachine starts QEMU. Nothing of it needs a name in the file system:
// control line and initramfs are handed over as descriptors, and the device's
// socket is abstract. QEMU dies with this
// process, however that ends, if setpriv is there to arrange it.
func startMachine(c machineConfig) (*machine, error) {
	defer c.initrd.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return nil, fmt.Errorf("control line: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &machine{cancel: cancel, control: conn, console: c.console,
		messages: make(chan proto.Message, 16), ended: make(chan struct{})}
	started := make(chan error)
	go m.run(ctx, c.options(theirs), started)
	if err := <-started; err != nil {
		cancel()
		conn.Close()
		return nil, fmt.Errorf("%w: %w", ErrEmulator, err)
	}
	go m.read()
	return m, nil
}

// run owns the OS thread that started QEMU: QEMU's parent-death signal is about
// that thread, not about the process.
func (m *machine) run(ctx context.Context, opts []qemu.Fn, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(m.ended)
	vm, err := qemu.StartContext(ctx, qemu.ArchAMD64, opts...)
	if err != nil {
		m.err = err
		started <- err
		return
	}
	m.cmdline = vm.CmdlineQuoted()
	started <- nil
	m.err = vm.Wait()
}

// read takes the guest's messages off the line. What is no message is noise of
// the line before the guest has set it up.
func (m *machine) read() {
	defer close(m.messages)
	in := bufio.NewScanner(m.control)
	in.Buffer(make([]byte, 4096), proto.MaxLine)
	for in.Scan() {
		msg, err := proto.Parse(in.Bytes())
		if err != nil {
			continue
		}
		select {
		case m.messages <- msg:
		case <-m.ended:
			return
		}
	}
}

func (m *machine) send(msg proto.Message) error {
	_ = m.control.SetWriteDeadline(time.Now().Add(5 * time.Second))
	if err := proto.Write(m.control, msg); err != nil {
		return fmt.Errorf("control line: %w", err)
	}
	return nil
}

// waitEnd waits for QEMU to go by itself, and kills it after the patience.
func (m *machine) waitEnd(patience time.Duration) {
	select {
	case <-m.ended:
	case <-time.After(patience):
	}
	m.kill()
}

// kill ends QEMU, if it still runs, and releases everything.
func (m *machine) kill() {
	m.cancel()
	<-m.ended
	m.control.Close()
	for range m.messages { // until read is gone
	}
}

// options are the command line, in the terms of the vmtest package.
func (c *machineConfig) options(control *os.File) []qemu.Fn {
	return []qemu.Fn{
		qemu.WithQEMUCommand(strings.Join(append(wrappers(), c.emulator.Path), " ")),
		qemu.WithKernel(c.kernel.Image),
		qemu.WithAppendKernel(slices.Concat(kernelArgs, c.kernelArgs)...),
		qemu.WithSerialOutput(c.console),
		func(_ *qemu.IDAllocator, o *qemu.Options) error {
			o.Initramfs = fmt.Sprintf("/proc/self/fd/%d", o.AddFile(c.initrd))
			o.AppendQEMU(c.board()...)
			o.AppendQEMU(c.devices...)
			o.AppendQEMU("-serial", "stdio",
				"-chardev", fmt.Sprintf("socket,id=ctl,fd=%d", o.AddFile(control)), "-serial", "chardev:ctl")
			o.AppendQEMU(c.nic.args(c.vectors())...)
			if c.extend != nil {
				c.extend(o)
			}
			return nil
		},
	}
}

// kernelArgs: the console on the first serial line, no test of the timer against
// the time that a loaded machine takes, an end instead of a halt
// when the kernel panics, and for the guest program (which is process 1 and gets
// what the kernel does not know as its environment) no signals of the Go
// runtime, which would interrupt its system calls.
var kernelArgs = []string{"console=ttyS0", "quiet", "loglevel=4", "panic=-1",
	"random.trust_cpu=on", "no_timer_check", "GODEBUG=asyncpreemptoff=1"}

// wrappers are commands in front of QEMU: the kernel kills it when this process
// ends, and it is not in our terminal's process group, so that Ctrl-C reaches us
// and not the guest. Both are of util-linux; a system without runs QEMU bare.
func wrappers() []string {
	var out []string
	if path, err := exec.LookPath("setpriv"); err == nil {
		out = append(out, path, "--pdeathsig", "KILL")
	}
	if path, err := exec.LookPath("setsid"); err == nil {
		out = append(out, path)
	}
	return out
}

func (c *machineConfig) board() []string {
	accel, cpu := "tcg,thread=multi", "max"
	if c.kvm {
		accel, cpu = "kvm", "host"
	}
	mem := strconv.Itoa(c.memMB) + "M"
	return []string{"-accel", accel, "-cpu", cpu, "-smp", strconv.Itoa(c.cpus), "-m", mem,
		"-object", "memory-backend-memfd,id=mem,share=on,size=" + mem, "-numa", "node,memdev=mem",
		"-nodefaults", "-monitor", "none", "-no-reboot"}
}

// vectors is the number of MSI-X vectors of the device. QEMU before 8 crashes
// with vhost-user and MSI-X when there is no KVM: it gets none, and the device
// interrupts by its one pin.
func (c *machineConfig) vectors() int {
	if c.emulator.Major < 8 && !c.kvm {
		return 0
	}
	return 2*c.nic.pairs + 2
}

// interrupts says the choice of vectors in words.
func (c *machineConfig) interrupts() string {
	if v := c.vectors(); v > 0 {
		return fmt.Sprintf("%d MSI-X vectors", v)
	}
	return "one interrupt pin (this QEMU crashes with MSI-X and no KVM)"
}

func (d *nicConfig) args(vectors int) []string {
	onOff := map[bool]string{false: "off", true: "on"}
	return []string{
		"-chardev", d.chardev(),
		"-netdev", fmt.Sprintf("vhost-user,id=n0,chardev=vu,queues=%d", d.pairs),
		"-device", fmt.Sprintf("virtio-net-pci,netdev=n0,mac=%s,romfile=,mq=%s,vectors=%d,rx_queue_size=%d,tx_queue_size=%d,event_idx=%s,indirect_desc=%s,packed=%s%s",
			guestMAC, onOff[d.pairs > 1], vectors, d.ring, d.ring, onOff[d.eventIdx], onOff[d.indirect], onOff[d.packed], d.more),
	}
}

// chardev is the connection to the device. A name with a slash is a path.
func (d *nicConfig) chardev() string {
	if strings.Contains(d.socket, "/") {
		return "socket,id=vu,reconnect=1,path=" + d.socket
	}
	return "socket,id=vu,abstract=on,path=" + d.socket
}

// socketPair is the two ends of a stream of our own.
func socketPair() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}
