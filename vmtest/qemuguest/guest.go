// Package qemuguest runs scenarios on a real Linux under QEMU: it boots a kernel
// with a program of ours, gives it a virtio-net device that is this module's own
// device behind vhost-user in this process, and a receiver behind a tap in a
// network namespace of its own, and lays what the device counted beside what the
// guest's driver says. It needs root, QEMU and a kernel. It runs in real time.
//
// It leaves nothing behind, however it ends: namespace, tap, sockets and
// initramfs have no names and go with the process that holds them, and QEMU is
// killed with it.
//
// A test of another project:
//
//	g := qemuguest.New(qemuguest.Config{Program: "./my-static-sender"})
//	s := vmtest.Default()
//	s.Kernel, s.QueuePairs, s.Duration = "6.1", 2, 2*time.Second
//	run, err := g.Run(ctx, s, vmtest.Options{Log: os.Stderr})
package qemuguest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/vnetbench/vnetbench/vmtest"
)

// Config describes a guest. The zero value is our own sender.
type Config struct {
	// Program is a static executable for x86-64 that runs in the guest in the
	// place of our sender, once, between the two points at which both sides
	// take their counters. Its environment says where the receiver is: see
	// programEnv. Empty: our sender.
	Program string
	// Args are its arguments.
	Args []string
	// PlainPort makes the host's side of the device take no offloads: the
	// device itself then cuts large packets and completes checksums.
	PlainPort bool
	// QEMU is the path of the QEMU to use. Empty: FindEmulator's.
	QEMU string
}

// Guest runs scenarios. It implements vmtest.Guest, and is for use by one
// goroutine at a time.
type Guest struct {
	cfg Config

	once     sync.Once
	emulator Emulator
	err      error // of the search for it

	guestprog []byte // built once
	kvm       *KVM
}

// New returns a guest. What it needs of the machine is looked for when it is
// first used.
func New(cfg Config) *Guest { return &Guest{cfg: cfg} }

// Name is qemu.
func (g *Guest) Name() string { return "qemu" }

// Kernels lists the named kernels that are installed, or, if none is, all of
// them, so that the first run says what is missing.
func (g *Guest) Kernels() []string {
	var have []string
	for _, name := range Named {
		if _, err := FindKernel(name); err == nil {
			have = append(have, name)
		}
	}
	if len(have) == 0 {
		return append(have, Named...)
	}
	return have
}

// Environment describes this machine. The accelerator is known after the first
// run.
func (g *Guest) Environment() vmtest.Environment {
	e := vmtest.Environment{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		CPU: vmtest.CPUModel(), CPUs: runtime.NumCPU(), Version: "devel"}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		e.Version = info.Main.Version
	}
	em, err := g.findEmulator(context.Background())
	if err != nil {
		return e
	}
	e.QEMU = em.Version
	if v, ok := recalledKVM(em); ok {
		e.Accel = accelName(v.Works)
	}
	return e
}

func accelName(kvm bool) string {
	if kvm {
		return "kvm"
	}
	return "tcg"
}

func (g *Guest) findEmulator(ctx context.Context) (Emulator, error) {
	g.once.Do(func() {
		if g.cfg.QEMU != "" {
			g.emulator, g.err = EmulatorAt(ctx, g.cfg.QEMU)
			return
		}
		g.emulator, g.err = FindEmulator(ctx)
	})
	return g.emulator, g.err
}

// Run boots a guest, runs the scenario in it and switches it off. If ctx ends
// while the scenario is measured, the guest is told to stop and Run returns
// what was measured until then, with ctx's error; before that there is nothing
// to return. An error that wraps ErrEmulator, ErrKernel, ErrGuestProgram,
// ErrNamespace or one of hostnet/tap is about this machine; ErrMismatch comes
// with the run that it is about.
func (g *Guest) Run(ctx context.Context, s vmtest.Scenario, o vmtest.Options) (run *vmtest.Run, err error) {
	if err := g.Check(s); err != nil {
		return nil, err
	}
	if s, err = s.Applied(); err != nil {
		return nil, err
	}
	b, err := g.prepare(ctx, &s, &o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := b.close(); err == nil {
			err = cerr
		}
	}()
	if o.Progress != nil {
		o.Progress(vmtest.Progress{Phase: "boot"})
	}
	err = b.live(ctx)
	if b.session.vm == nil || b.back == nil {
		return nil, err
	}
	if err == nil {
		b.session.vm.waitEnd(endPatience)
	}
	b.halt()
	if b.session.start == nil || err != nil && ctx.Err() == nil {
		return nil, err
	}
	run = b.session.account(b)
	if err == nil {
		err = mismatch(b.session.start, b.session.end)
	}
	return run, err
}

// bench is what a run uses.
type bench struct {
	plain    bool // Config.PlainPort
	emulator Emulator
	kernel   Kernel
	kvm      KVM
	image    *image
	network  *network
	watch    *watch
	trace    *vmtest.TraceWriter
	console  *console
	back     *backend
	session  *session
}

// prepare makes everything but the machine. What it made is closed if it fails.
func (g *Guest) prepare(ctx context.Context, s *vmtest.Scenario, o *vmtest.Options) (b *bench, err error) {
	b = &bench{console: &console{to: o.Log}, session: &session{scenario: s, options: o}, plain: g.cfg.PlainPort}
	defer func() {
		if err != nil {
			_ = b.close()
		}
	}()
	if b.emulator, err = g.findEmulator(ctx); err != nil {
		return b, err
	}
	if b.kernel, err = FindKernel(s.Kernel); err != nil {
		return b, err
	}
	if b.image, err = g.image(ctx, s, b.kernel); err != nil {
		return b, err
	}
	b.kvm = g.probe(ctx, b.emulator, b.kernel)
	if b.network, err = newNetwork(s); err != nil {
		return b, err
	}
	if o.Trace != nil {
		if b.trace, err = vmtest.NewTraceWriter(o.Trace, *s); err != nil {
			return b, err
		}
	}
	b.watch = newWatch(s.Flows, b.trace)
	b.session.recv = newReceiver(b.network.listen, s.Flows)
	return b, b.log(o.Log)
}

// probe finds out once whether KVM works.
func (g *Guest) probe(ctx context.Context, e Emulator, k Kernel) KVM {
	if g.kvm == nil {
		v := RememberedKVM(ctx, e, k)
		g.kvm = &v
	}
	return *g.kvm
}

// log says what the machine will be.
func (b *bench) log(w io.Writer) error {
	if w == nil {
		return nil
	}
	c := b.machine(nil, "")
	_, err := fmt.Fprintf(w, "vnetbench: QEMU %s, %s (KVM: %s), kernel %s, %d CPUs, %d MB, %d queue pairs, %s\n",
		b.emulator.Version, accelName(b.kvm.Works), b.kvm.Detail, b.kernel.Image, c.cpus, c.memMB, c.nic.pairs, c.interrupts())
	return err
}

// machine is the virtual machine for the scenario.
func (b *bench) machine(initrd *os.File, socket string) machineConfig {
	s := b.session.scenario
	cpus := max(s.CPUs(), s.QueuePairs)
	return machineConfig{
		emulator: b.emulator, kvm: b.kvm.Works, kernel: b.kernel, initrd: initrd, console: b.console,
		cpus: cpus, memMB: 256 + 64*cpus + s.Flows/8,
		nic: nicConfig{socket: socket, pairs: s.QueuePairs, ring: s.Ring.Size,
			eventIdx: s.Ring.EventIdx, indirect: s.Ring.Indirect, packed: s.Ring.Kind == vmtest.RingPacked},
	}
}

// maxBoots bounds how often a machine is started whose kernel dies of the fault of
// its QEMU that patchesSafely is about.
const maxBoots = 3

// live boots the guest and talks to it until it has reported. A kernel that dies of
// its QEMU's fault before it has said a word, and so before anything was sent or
// counted, is booted again; that is logged.
func (b *bench) live(ctx context.Context) error {
	for n := 1; ; n++ {
		if err := b.boot(); err != nil {
			return err
		}
		err := b.session.run(ctx)
		if n == maxBoots || !errors.Is(err, ErrGuest) || !b.diedOfPatching() {
			return err
		}
		if log := b.session.options.Log; log != nil {
			fmt.Fprintf(log, "vnetbench: QEMU %s showed the guest's kernel a breakpoint that it had taken away, a fault mended in 8.1; boot %d of %d\n",
				b.emulator.Version, n+1, maxBoots)
		}
		b.halt()
		b.back, b.session.vm, b.session.back, b.session.broken = nil, nil, nil, nil
		b.console.forget()
	}
}

// diedOfPatching reports whether the kernel said that it ran into a breakpoint, on
// a QEMU that may show it one that is no more, and nothing else was heard of it.
func (b *bench) diedOfPatching() bool {
	c := b.machine(nil, "")
	return c.cpus > 1 && !b.kvm.Works && !b.emulator.patchesSafely() && b.session.hello.Kind == "" && b.console.breakpoint()
}

// boot starts the machine, and the device once QEMU has connected to it.
func (b *bench) boot() error {
	door, err := openFrontDoor()
	if err != nil {
		return err
	}
	initrd, err := b.image.file()
	if err != nil {
		door.l.Close()
		return err
	}
	s := b.session
	if s.vm, err = startMachine(b.machine(initrd, door.name)); err != nil {
		door.l.Close()
		return err
	}
	fd, err := door.accept(s.vm.ended)
	if err != nil {
		return fmt.Errorf("%w; console: %s", err, b.console.last(5))
	}
	b.back, err = startBackend(s, b.ports(), fd)
	s.back = b.back
	return err
}

// halt ends machine and device. What they counted stays.
func (b *bench) halt() {
	if b.session.vm != nil {
		b.session.vm.kill()
	}
	if b.back != nil {
		b.back.close()
	}
}

// close ends and releases everything, in the order of the packets. The error is
// that of writing the trace.
func (b *bench) close() error {
	b.halt()
	if b.session.recv != nil {
		b.session.recv.close()
	}
	if b.network != nil {
		b.network.close()
	}
	if b.trace == nil {
		return nil
	}
	if err := b.trace.Close(); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}
