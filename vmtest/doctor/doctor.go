// Package doctor says what of the things that a guest with a real kernel needs is on
// this machine, and gets what is missing. It looks by trying: a tap is made, a
// namespace is made, a kernel is booted under KVM; nothing of it stays.
package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest"
	"github.com/vnetbench/vnetbench/vmtest/testpmd"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

// Check is what was found out about one thing.
type Check struct {
	Name     string // what, in a few words
	OK       bool
	Optional bool   // a guest runs without it
	Detail   string // where it is, or why it cannot be used, on one line
	Mend     string // the command that helps; empty if OK or if none does
}

// String is the check on one line.
func (c Check) String() string {
	state := "ok"
	switch {
	case !c.OK && c.Optional:
		state = "not here, not needed"
	case !c.OK:
		state = "MISSING"
	}
	line := fmt.Sprintf("%-18s %s: %s", c.Name, state, c.Detail)
	if c.Mend != "" && !strings.Contains(c.Detail, c.Mend) {
		line += ": `" + c.Mend + "`"
	}
	return line
}

// Healthy reports whether everything that a guest needs is there.
func Healthy(checks []Check) bool {
	for _, c := range checks {
		if !c.OK && !c.Optional {
			return false
		}
	}
	return true
}

// mendAll is the command that installs what can be installed.
const mendAll = "vnetbench doctor --install"

// Run makes every check, in the order in which one needs the other. It takes
// up to 15 s where KVM is there and hangs.
func Run(ctx context.Context) []Check {
	emulator, qemuErr := qemuguest.FindEmulator(ctx)
	checks := []Check{found("qemu", qemuErr, mendAll, emulator.Path+" "+emulator.Version)}
	newer, err := qemuguest.NewerEmulator(ctx)
	another := found("qemu, newer", err, mendAll, newer.Path+" "+newer.Version)
	another.Optional = true
	checks = append(checks, another)
	var any *qemuguest.Kernel
	for _, name := range qemuguest.Named {
		k, err := qemuguest.CheckKernel(name)
		if err == nil && any == nil {
			any = &k
		}
		c := found("kernel "+name, err, mendAll, k.Image)
		c.Optional = name != qemuguest.Named[0]
		checks = append(checks, c)
	}
	checks = append(checks, kvm(ctx, emulator, any))
	checks = append(checks, found("network namespace", qemuguest.CheckNamespace(), "", "can be made"))
	checks = append(checks, found("tap", qemuguest.CheckTap(), "", "/dev/net/tun, two queues can be made"))
	checks = append(checks, toolchain(), parentDeath(), dpdk())
	for _, name := range umlguest.Named {
		checks = append(checks, userMode(ctx, name))
	}
	return append(checks, packaged(ctx))
}

// packaged is Debian's own kernel for user mode, which a test boots in real time.
func packaged(ctx context.Context) Check {
	k, err := umlguest.FindPackaged(ctx)
	c := found("user mode, package", err, "apt-get install --no-install-recommends user-mode-linux", k.Path+" "+k.Version)
	c.Optional = true
	return c
}

// userMode is a kernel for guests in virtual time.
func userMode(ctx context.Context, name string) Check {
	k, err := umlguest.FindKernel(ctx, name)
	c := found("user mode "+name, err, "vnetbench kernel build "+name, k.Path)
	c.Optional = true
	return c
}

// found is a check whose error says by itself what is wrong.
func found(name string, err error, mend, detail string) Check {
	if err != nil {
		return Check{Name: name, Detail: err.Error(), Mend: mend}
	}
	return Check{Name: name, OK: true, Detail: detail}
}

// kvm boots a kernel under KVM, if there is one to boot.
func kvm(ctx context.Context, e qemuguest.Emulator, k *qemuguest.Kernel) Check {
	c := Check{Name: "kvm", Optional: true}
	if e.Path == "" || k == nil {
		c.Detail = "not tried: it takes QEMU and a kernel"
		return c
	}
	v := qemuguest.ProbeKVM(ctx, e, *k)
	c.OK, c.Detail = v.Works, v.Detail
	if !c.OK {
		c.Detail += " (guests run emulated, slower)"
	}
	return c
}

// toolchain is what builds the program for the guest.
func toolchain() Check {
	path, err := exec.LookPath("go")
	if err == nil {
		return Check{Name: "go", OK: true, Detail: path}
	}
	return Check{Name: "go", Optional: true,
		Detail: "no Go toolchain to build the guest's program with; set " + qemuguest.ProgramVariable + " to one built elsewhere"}
}

// parentDeath is what ends QEMU when vnetbench is killed.
func parentDeath() Check {
	path, err := exec.LookPath("setpriv")
	if err == nil {
		return Check{Name: "setpriv", OK: true, Detail: path}
	}
	return Check{Name: "setpriv", Optional: true, Mend: "apt-get install util-linux",
		Detail: "without it QEMU outlives a vnetbench that is killed with SIGKILL"}
}

// dpdk is the front-end of tests of the back-end, and the peer of its benchmark.
func dpdk() Check {
	path, err := testpmd.Find()
	c := found("dpdk-testpmd", err, mendAll, path)
	c.Optional = true
	return c
}
