package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest"
	"github.com/vnetbench/vnetbench/vmtest/testpmd"
)

// Errors of Install.
var (
	// ErrNoAPT says that this machine has no apt-get.
	ErrNoAPT = errors.New("no apt-get here")
	// ErrNotRoot says that packages cannot be installed by this user.
	ErrNotRoot = errors.New("not root")
	// ErrNoPackage says that the machine's package sources have no such kernel.
	ErrNoPackage = errors.New("no such kernel package")
)

// packages are the metapackages, in the order of preference, that depend on a
// named kernel's own package, whose name changes with each update.
var packages = map[string][]string{
	"6.1":  {"linux-image-cloud-amd64"},
	"6.12": {"linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64"},
}

// emulatorPackage is the package of QEMU for x86.
const emulatorPackage = "qemu-system-x86"

// testpmdPackage is the package of dpdk-testpmd.
const testpmdPackage = "dpdk-dev"

// system is what Install does to the machine.
type system interface {
	// run runs a command, its output going to w.
	run(ctx context.Context, w io.Writer, dir, name string, args ...string) error
	has(name string) bool    // whether a command exists
	emulator() bool          // whether QEMU is there
	newer() bool             // whether a QEMU is there that is newer than Debian 12's
	kernel(name string) bool // whether a named kernel is there
	root() bool
	emulators() (dir string, err error) // where an unpacked QEMU goes
	kernels() (dir string, err error)   // where unpacked kernels go
}

// Install gets what Run finds missing and what can be had from the machine's
// own Debian package sources: QEMU and, for root, DPDK's testpmd are installed; kernels are
// unpacked into the user's cache directory, so that the machine itself never
// boots one of them. So is the newer QEMU of Debian's backports, where there is
// one. What is there already is left alone. Progress goes to w.
func Install(ctx context.Context, w io.Writer) error { return install(ctx, w, machine{}) }

func install(ctx context.Context, w io.Writer, s system) error {
	var missing []string
	for _, name := range qemuguest.Named {
		if !s.kernel(name) {
			missing = append(missing, name)
		}
	}
	wantsTestpmd, wantsNewer := !s.has(testpmd.Program) && s.root(), !s.newer()
	if s.emulator() && !wantsNewer && len(missing) == 0 && !wantsTestpmd {
		fmt.Fprintln(w, "nothing is missing")
		return nil
	}
	if !s.has("apt-get") {
		return fmt.Errorf("%w: install %s with your package manager, and give a kernel with --kernel VMLINUZ:MODULES", ErrNoAPT, emulatorPackage)
	}
	if err := update(ctx, w, s); err != nil {
		return err
	}
	if !s.emulator() {
		if err := installEmulator(ctx, w, s); err != nil {
			return err
		}
	}
	var errs []error
	if wantsTestpmd {
		errs = append(errs, s.run(ctx, w, "", "apt-get", "-o", "DPkg::Lock::Timeout=300", "-q", "install", "-y", "--no-install-recommends", testpmdPackage))
	}
	for _, name := range missing {
		errs = append(errs, fetchKernel(ctx, w, s, name))
	}
	if wantsNewer {
		if err := fetchNewer(ctx, w, s); err != nil {
			fmt.Fprintf(w, "a newer QEMU, which only tests of several need, cannot be had: %v\n", err)
		}
	}
	return errors.Join(errs...)
}

// update reads the package lists anew, which only root can; without, those that
// are there have to do.
func update(ctx context.Context, w io.Writer, s system) error {
	if !s.root() {
		return nil
	}
	return s.run(ctx, w, "", "apt-get", "-o", "DPkg::Lock::Timeout=300", "-q", "update")
}

func installEmulator(ctx context.Context, w io.Writer, s system) error {
	if !s.root() {
		return fmt.Errorf("%w: `sudo apt-get install --no-install-recommends %s`", ErrNotRoot, emulatorPackage)
	}
	return s.run(ctx, w, "", "apt-get", "-o", "DPkg::Lock::Timeout=300", "-q", "install", "-y", "--no-install-recommends", emulatorPackage)
}

// fetchKernel unpacks a kernel's package. The directory gets its name at the
// end, so that a half of one is never taken for a kernel.
func fetchKernel(ctx context.Context, w io.Writer, s system, name string) error {
	pkg, err := resolve(ctx, s, name)
	if err != nil {
		return err
	}
	dir, err := s.kernels()
	if err != nil {
		return err
	}
	tmp, err := fetchDir(dir)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := s.run(ctx, w, tmp, "apt-get", "-o", "APT::Sandbox::User=root", "-q", "download", pkg); err != nil {
		return fmt.Errorf("kernel %s: %w", name, err)
	}
	debs := packagesIn(tmp)
	if len(debs) != 1 {
		return fmt.Errorf("kernel %s: apt-get download %s left %d packages, want 1", name, pkg, len(debs))
	}
	out, err := unpack(ctx, w, s, tmp, debs)
	if err != nil {
		return fmt.Errorf("kernel %s: %w", name, err)
	}
	return adopt(w, "kernel "+name, out, filepath.Join(dir, strings.TrimPrefix(pkg, "linux-image-")))
}

// fetchDir makes a directory below dir to download to.
func fetchDir(dir string) (tmp string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(dir, ".fetch")
}

// packagesIn are the files of packages in a directory.
func packagesIn(dir string) []string {
	debs, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	return debs
}

// unpack unpacks packages into a directory below tmp, which it returns.
func unpack(ctx context.Context, w io.Writer, s system, tmp string, debs []string) (out string, err error) {
	out = filepath.Join(tmp, "root")
	for _, deb := range debs {
		if err := s.run(ctx, w, tmp, "dpkg-deb", "-x", deb, out); err != nil {
			return "", err
		}
	}
	return out, os.Chmod(out, 0o755)
}

// adopt gives what was unpacked its name, in place of what had it, and says so.
func adopt(w io.Writer, what, out, final string) error {
	if err := os.RemoveAll(final); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s\n", what, final)
	return os.Rename(out, final)
}

// resolve finds the package of a named kernel behind its metapackage.
func resolve(ctx context.Context, s system, name string) (string, error) {
	for _, meta := range packages[name] {
		var out bytes.Buffer
		if err := s.run(ctx, &out, "", "apt-cache", "depends", meta); err != nil {
			continue
		}
		if pkg := dependency(out.String(), "linux-image-"+name+"."); pkg != "" {
			return pkg, nil
		}
	}
	return "", fmt.Errorf("%w: this machine's package sources have no %s of kernel %s; give one with --kernel VMLINUZ:MODULES",
		ErrNoPackage, strings.Join(packages[name], " or "), name)
}

// dependency returns the first package in the output of apt-cache depends that
// begins with prefix.
func dependency(out, prefix string) string {
	for line := range strings.Lines(out) {
		_, pkg, ok := strings.Cut(line, "Depends: ")
		if pkg = strings.TrimSpace(pkg); ok && strings.HasPrefix(pkg, prefix) {
			return pkg
		}
	}
	return ""
}

// machine is this machine.
type machine struct{}

func (machine) run(ctx context.Context, w io.Writer, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, w, w
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

func (machine) has(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

func (machine) emulator() bool {
	_, err := qemuguest.FindEmulator(context.Background())
	return err == nil
}

func (machine) newer() bool {
	_, err := qemuguest.NewerEmulator(context.Background())
	return err == nil
}

func (machine) emulators() (string, error) { return qemuguest.EmulatorDir() }

func (machine) kernel(name string) bool {
	_, err := qemuguest.CheckKernel(name)
	return err == nil
}

func (machine) root() bool { return os.Geteuid() == 0 }

func (machine) kernels() (string, error) {
	dir, err := qemuguest.CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "kernels"), nil
}
