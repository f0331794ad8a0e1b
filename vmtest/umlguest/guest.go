// Package umlguest runs scenarios on a real Linux kernel in user mode, in virtual
// time: the kernel is an ordinary process, built for ARCH=um, whose clock is this
// package's calendar and whose virtio-net device is this module's own. It needs
// neither KVM nor root. The same scenario and seed give the same packets at the
// same nanoseconds.
//
// What lies behind the guest's driver is the code of the simulated guest: the
// device, the host's workers with their costs, the link, and the receivers.
package umlguest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Config describes a guest. The zero value is complete.
type Config struct {
	// Patience is how long, in wall time, a kernel that runs may say nothing
	// before the run fails with ErrStuck. 0 is 30 s.
	Patience time.Duration
	// Messages keeps kernels that can share memory with the calendar (6.12) to
	// messages. The packets and their times are the same, the run takes longer.
	Messages bool
}

// Guest runs scenarios. It implements vmtest.Guest, and is for use by one
// goroutine at a time.
type Guest struct {
	cfg   Config
	usage Usage
}

var _ vmtest.Guest = (*Guest)(nil)

// New returns a guest. What it needs of the machine is looked for when a scenario
// is checked or run.
func New(cfg Config) *Guest {
	if cfg.Patience <= 0 {
		cfg.Patience = 30 * time.Second
	}
	return &Guest{cfg: cfg}
}

// Name is uml.
func (*Guest) Name() string { return "uml" }

// Usage is what the last Run took of this machine, those attempts included whose
// flows came to share a queue.
func (g *Guest) Usage() Usage { return g.usage }

// Kernels lists the named kernels that are built, or, if none is, all of them, so
// that the first run says what is missing.
func (*Guest) Kernels() []string {
	var have []string
	for _, name := range Named {
		if _, err := builtKernel(name); err == nil {
			have = append(have, name)
		}
	}
	if len(have) == 0 {
		return append(have, Named...)
	}
	return have
}

// Environment describes the program; a run in virtual time does not depend on the
// machine.
func (*Guest) Environment() vmtest.Environment {
	return vmtest.Environment{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()}
}

// modelled is the release whose rules a model has that goes with a kernel: its
// own, or, for the kernel at a path, the newest of Named.
func modelled(kernel string) string {
	if _, err := tcp.Release(kernel); err == nil && !strings.Contains(kernel, "/") {
		return kernel
	}
	return Named[0]
}

// Run boots a guest, runs the scenario in it, and ends it; the guests and the
// calendar share one CPU of those that the process may use. If ctx ends, it returns
// what was measured until then, with ctx's error. An error that wraps ErrKernel,
// ErrCompiler or ErrStart is about this machine; one that wraps ErrEnded,
// ErrProtocol or ErrStuck is about the guest, and has its name, the virtual time,
// what was due, and the last lines of its console.
func (g *Guest) Run(ctx context.Context, s vmtest.Scenario, o vmtest.Options) (run *vmtest.Run, err error) {
	if err := g.Check(s); err != nil {
		return nil, err
	}
	if s, err = s.Applied(); err != nil {
		return nil, err
	}
	k, err := FindKernel(ctx, s.Kernel)
	if err != nil {
		return nil, err
	}
	far := k
	if s.Receiver.Kernel != "" && s.Receiver.Kind == vmtest.ReceiverKernel {
		if far, err = FindKernel(ctx, s.Receiver.Kernel); err != nil {
			return nil, fmt.Errorf("receiver.kernel: %w", err)
		}
	}
	// A guest ends with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer pin()()
	g.usage = Usage{}
	for lot := range lots {
		last := lot == lots-1 || !separable(&s)
		if run, err = g.attempt(ctx, s, &o, k, far, lot, !last); !errors.Is(err, errSameQueue) {
			break
		}
	}
	return run, err
}

// attempt boots the guests and runs the scenario once, with a lot's random
// numbers. With separate, it ends with errSameQueue if two flows have one queue.
func (g *Guest) attempt(ctx context.Context, s vmtest.Scenario, o *vmtest.Options, k, far Kernel, lot int, separate bool) (run *vmtest.Run, err error) {
	if o.Progress != nil {
		o.Progress(vmtest.Progress{Phase: "boot"})
	}
	w, err := newWorld(ctx, s, o)
	if err != nil {
		return nil, err
	}
	w.lot, w.separate, w.cal.patience, w.messages = lot, separate, g.cfg.Patience, g.cfg.Messages
	start, own := time.Now(), threadTime()
	defer func() {
		g.usage.add(w, time.Since(start), threadTime()-own)
		if cerr := w.close(); err == nil {
			err = cerr
		}
	}()
	if err := w.boot(k, far); err != nil {
		return nil, err
	}
	if err = w.run(); err != nil && !errors.Is(err, ctx.Err()) {
		w.rec.out = nil // a trace that is not whole is not written
		return nil, err
	}
	return w.outcome(k), err
}
