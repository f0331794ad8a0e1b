package qemuguest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// KVM is what was found out about hardware virtualisation.
type KVM struct {
	Works  bool
	Detail string // why not, or that a kernel booted
}

// kvmPatience bounds the attempt to boot a kernel under KVM.
const kvmPatience = 15 * time.Second

// booted is what a kernel says that came up and found no root file system.
const booted = "Unable to mount root fs"

// ProbeKVM finds out whether KVM runs an ordinary guest, by booting one to the
// point where it misses its root file system, and remembers it for
// RememberedKVM. The device file alone proves nothing: a machine that is itself
// virtual may have one that fails at the first guest, or hangs.
func ProbeKVM(ctx context.Context, e Emulator, k Kernel) KVM {
	v := probeKVM(ctx, e, k)
	if ctx.Err() == nil {
		remember(e, v)
	}
	return v
}

func probeKVM(ctx context.Context, e Emulator, k Kernel) KVM {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return KVM{Detail: err.Error()}
	}
	f.Close()
	ctx, cancel := context.WithTimeout(ctx, kvmPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.Path, "-accel", "kvm", "-cpu", "host", "-m", "256M",
		"-nodefaults", "-nographic", "-serial", "stdio", "-monitor", "none", "-no-reboot",
		"-kernel", k.Image, "-append", "console=ttyS0 panic=-1")
	runtime.LockOSThread() // Pdeathsig is the death of the thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return KVM{Detail: err.Error()}
	}
	if err := cmd.Start(); err != nil {
		return KVM{Detail: err.Error()}
	}
	ok := contains(out, booted)
	cancel()
	_ = cmd.Wait()
	return verdict(ok, stderr.String())
}

func verdict(ok bool, stderr string) KVM {
	if ok {
		return KVM{true, "a kernel booted"}
	}
	if line := firstLine(stderr); line != "" {
		return KVM{Detail: strings.TrimPrefix(line, emulatorName+": ")}
	}
	return KVM{Detail: fmt.Sprintf("/dev/kvm is there, but a kernel did not boot within %v", kvmPatience)}
}

// contains reads r to its end or to a line with the text.
func contains(r io.Reader, text string) bool {
	in := bufio.NewScanner(r)
	for in.Scan() {
		if strings.Contains(in.Text(), text) {
			return true
		}
	}
	return false
}

// kvmRecord is the verdicts as they are kept between runs: they hold until the next
// boot of this machine.
type kvmRecord struct {
	Boot     string
	Verdicts map[string]KVM // by path and version of the QEMU
}

// maxVerdicts bounds what is kept: who has more QEMUs has them tried again.
const maxVerdicts = 16

// readKVM reads the verdicts of this boot. The path is empty if there is no place
// for them.
func readKVM() (path string, r kvmRecord) {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	none := kvmRecord{Boot: strings.TrimSpace(string(boot)), Verdicts: make(map[string]KVM)}
	dir, err := CacheDir()
	if err != nil {
		return "", none
	}
	path = filepath.Join(dir, "kvm.json")
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &r) != nil || r.Boot != none.Boot || r.Verdicts == nil {
		return path, none
	}
	return path, r
}

// RememberedKVM is ProbeKVM, once for each boot of this machine and each QEMU.
func RememberedKVM(ctx context.Context, e Emulator, k Kernel) KVM {
	if v, ok := recalledKVM(e); ok {
		return v
	}
	return ProbeKVM(ctx, e, k)
}

// recalledKVM is the verdict that is kept, if one is.
func recalledKVM(e Emulator) (KVM, bool) {
	_, r := readKVM()
	v, ok := r.Verdicts[e.key()]
	return v, ok
}

func (e Emulator) key() string { return e.Path + " " + e.Version }

// remember keeps a verdict; that it cannot be kept is no error.
func remember(e Emulator, v KVM) {
	path, r := readKVM()
	if path == "" {
		return
	}
	if len(r.Verdicts) >= maxVerdicts {
		clear(r.Verdicts)
	}
	r.Verdicts[e.key()] = v
	b, err := json.Marshal(r)
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return
	}
	_ = os.WriteFile(path, b, 0o644)
}
