package qemuguest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrEmulator says that QEMU cannot be run. It comes wrapped in a line that says
// what to do.
var ErrEmulator = errors.New("no QEMU")

// emulatorName is the program that is looked for in PATH.
const emulatorName = "qemu-system-x86_64"

// EmulatorVariable is the environment variable with the path of the QEMU to use
// instead of the one in PATH.
const EmulatorVariable = "VNETBENCH_QEMU"

// Emulator is a QEMU of this machine.
type Emulator struct {
	Path    string
	Version string // as it says itself, without the distribution's words
	Major   int    // its first number
	Minor   int    // its second
}

// FindEmulator finds the QEMU that EmulatorVariable names, or else the one in PATH,
// and asks for its version.
func FindEmulator(ctx context.Context) (Emulator, error) {
	if path := os.Getenv(EmulatorVariable); path != "" {
		return EmulatorAt(ctx, path)
	}
	path, err := exec.LookPath(emulatorName)
	if err != nil {
		return Emulator{}, fmt.Errorf("%w: %s is not in PATH: `vnetbench doctor --install`, or `apt-get install qemu-system-x86`", ErrEmulator, emulatorName)
	}
	return EmulatorAt(ctx, path)
}

// EmulatorAt asks the QEMU at a path for its version.
func EmulatorAt(ctx context.Context, path string) (Emulator, error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return Emulator{}, fmt.Errorf("%w: %s --version: %w", ErrEmulator, path, err)
	}
	e := Emulator{Path: path}
	e.Version, e.Major, e.Minor = parseVersion(string(out))
	if e.Major == 0 {
		return e, fmt.Errorf("%w: %s --version says %q", ErrEmulator, path, firstLine(string(out)))
	}
	return e, nil
}

// Emulators are the QEMUs of this machine: FindEmulator's, if there is one, and those
// that were unpacked below EmulatorDir. A test of front-ends runs them all; a
// guest only uses another than the first if it is asked to.
func Emulators(ctx context.Context) (all []Emulator) {
	if e, err := FindEmulator(ctx); err == nil {
		all = append(all, e)
	}
	dir, err := EmulatorDir()
	if err != nil {
		return all
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*", "usr", "bin", emulatorName))
	for _, p := range paths {
		if e, err := EmulatorAt(ctx, p); err == nil && !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return all
}

// EmulatorDir is where QEMUs are unpacked, each in a directory of its own.
func EmulatorDir() (string, error) {
	dir, err := CacheDir()
	return filepath.Join(dir, "qemu"), err
}

// NewerEmulator is the first of Emulators without the faults of the QEMU of Debian 12
// that matter here.
func NewerEmulator(ctx context.Context) (Emulator, error) {
	for _, e := range Emulators(ctx) {
		if e.patchesSafely() {
			return e, nil
		}
	}
	return Emulator{}, fmt.Errorf("%w that is 8.1 or newer", ErrEmulator)
}

// patchesSafely reports whether the emulated processors of one machine see code that
// one of them changes as real ones do. Before 8.1 one of them could translate the
// old code while another wrote the new, and then run it for good: a kernel dies of
// a breakpoint that it has taken away again. That is rare, and more frequent on a
// loaded host.
func (e Emulator) patchesSafely() bool { return !e.before(8, 1) }

// before reports whether the QEMU is older than a release.
func (e Emulator) before(major, minor int) bool {
	return e.Major < major || e.Major == major && e.Minor < minor
}

// parseVersion reads "QEMU emulator version 7.2.22 (Debian ...)".
func parseVersion(s string) (version string, major, minor int) {
	_, rest, ok := strings.Cut(firstLine(s), "version ")
	if !ok {
		return "", 0, 0
	}
	version, _, _ = strings.Cut(rest, " ")
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, _ = strconv.Atoi(first)
	minor, _ = strconv.Atoi(second)
	return version, major, minor
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.TrimSpace(line)
}
