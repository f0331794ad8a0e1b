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
	if path, r := kvmRecordOf(e); path != "" && ctx.Err() == nil {
		r.KVM = v
		remember(path, r)
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

// kvmRecord is the verdict as it is kept between runs: it holds until the next
// boot, or another QEMU.
type kvmRecord struct {
	Boot, Emulator string
	KVM            KVM
}

// kvmRecordOf is where the verdict for this boot of the machine and this QEMU is
// kept, and the record without the verdict. The path is empty if there is no
// place for it.
func kvmRecordOf(e Emulator) (path string, r kvmRecord) {
	dir, err := CacheDir()
	if err != nil {
		return "", r
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return filepath.Join(dir, "kvm.json"), kvmRecord{Boot: strings.TrimSpace(string(boot)), Emulator: e.Path + " " + e.Version}
}

// RememberedKVM is ProbeKVM, once for each boot of this machine and version of
// QEMU.
func RememberedKVM(ctx context.Context, e Emulator, k Kernel) KVM {
	if v, ok := recalledKVM(e); ok {
		return v
	}
	return ProbeKVM(ctx, e, k)
}

// recalledKVM is the verdict that is kept, if one is.
func recalledKVM(e Emulator) (KVM, bool) {
	path, want := kvmRecordOf(e)
	var have kvmRecord
	b, err := os.ReadFile(path)
	ok := err == nil && json.Unmarshal(b, &have) == nil && have.Boot == want.Boot && have.Emulator == want.Emulator
	return have.KVM, ok
}

// remember writes the verdict; that it cannot be kept is no error.
func remember(path string, r kvmRecord) {
	b, err := json.Marshal(r)
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return
	}
	_ = os.WriteFile(path, b, 0o644)
}
