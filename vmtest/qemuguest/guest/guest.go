// Package guest is the program that runs as process 1 of a QEMU guest: it loads
// modules, sets the network device up as the configuration in its initramfs
// says, sends the scenario's traffic (or runs a program that does), takes the
// kernel's and the driver's counters while nothing is under way, reports over a
// serial line, and switches the machine off. It runs on nothing but a Linux
// kernel: no libc, no shell, no other program. It has to be built without cgo.
package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// Main is the whole life of process 1. It does not return: the machine is off
// then. What goes wrong is said over the serial line and on the console.
func Main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "this program is process 1 of a test guest; vnetbench run --guest qemu starts it")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "vnetbench guest:", err)
	}
	powerOff()
}

// run does everything but the end.
func run() error {
	if err := mountAll(); err != nil {
		return err
	}
	ctl, err := openControl(proto.ControlTTY)
	if err != nil {
		return err
	}
	if err := experiment(ctl); err != nil {
		_ = ctl.send(proto.Message{Kind: proto.Error, Text: err.Error()})
		return err
	}
	return nil
}

// experiment is the order of the package proto.
func experiment(ctl *control) error {
	cfg, err := readConfig(proto.ConfigPath)
	if err != nil {
		return err
	}
	hello := proto.Message{Kind: proto.Hello, Kernel: kernelRelease(), CPUs: runtime.NumCPU()}
	if err := ctl.send(hello); err != nil {
		return err
	}
	if err := loadModules(cfg.Modules); err != nil {
		return err
	}
	if err := writeSysctls(cfg.Sysctls); err != nil {
		return err
	}
	nic, err := setUp(cfg)
	if err != nil {
		return err
	}
	ctl.progress("network", 0, 0)
	load, err := newLoad(cfg)
	if err != nil {
		return err
	}
	defer load.close()
	if err := ctl.ask(proto.Message{Kind: proto.Ready}, proto.Go); err != nil {
		return err
	}
	report, err := measure(ctl, cfg, nic, load)
	if err != nil {
		return err
	}
	return ctl.send(proto.Message{Kind: proto.Result, Report: report})
}

func readConfig(path string) (*proto.Config, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cfg := new(proto.Config)
	if err := json.Unmarshal(b, cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

// mountAll mounts what the kernel shows itself through.
func mountAll() error {
	for _, m := range []struct{ kind, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		err := unix.Mount(m.kind, m.dir, m.kind, 0, "")
		if err != nil && err != unix.EBUSY {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.dir, err)
		}
	}
	return nil
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// powerOff ends the machine: QEMU exits at a power-off, and with -no-reboot at
// a restart too.
func powerOff() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {}
}

// loadModules loads kernel modules in the order given. One that is there
// already is no error.
func loadModules(list []proto.Module) error {
	for _, m := range list {
		f, err := os.Open(m.File)
		if err != nil {
			return fmt.Errorf("module %s: %w", m.File, err)
		}
		err = unix.FinitModule(int(f.Fd()), m.Params, 0)
		f.Close()
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("module %s %q: %w", m.File, m.Params, err)
		}
	}
	return nil
}

// writeSysctls sets kernel parameters. A name without a slash is looked for
// below net/ipv4 and net/core.
func writeSysctls(set map[string]string) error {
	for name, value := range set {
		path, err := sysctlPath(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return fmt.Errorf("sysctl %s = %s: %w", name, value, err)
		}
	}
	return nil
}

func sysctlPath(name string) (string, error) {
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = []string{"net/ipv4/" + name, "net/core/" + name}
	}
	for _, c := range candidates {
		if _, err := os.Stat("/proc/sys/" + c); err == nil {
			return "/proc/sys/" + c, nil
		}
	}
	return "", fmt.Errorf("sysctl %s: kernel %s has none of that name", name, kernelRelease())
}
