package qemuguest

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// ErrGuestProgram says that the program for the guest could not be had.
var ErrGuestProgram = errors.New("no guest program")

const (
	modulePath   = "github.com/vnetbench/vnetbench"
	guestPackage = modulePath + "/vmtest/qemuguest/guestprog"

	// ProgramVariable names a guest program that was built before, so that no
	// Go toolchain is needed: CGO_ENABLED=0 go build -o FILE
	// github.com/vnetbench/vnetbench/vmtest/qemuguest/guestprog.
	ProgramVariable = "VNETBENCH_GUESTPROG"
)

// guestProgram returns the guest program's executable: the one that the user
// names, or one that is built now.
func guestProgram(ctx context.Context) ([]byte, error) {
	if path := os.Getenv(ProgramVariable); path != "" {
		return readStatic(path)
	}
	if _, err := exec.LookPath("go"); err != nil {
		return nil, fmt.Errorf("%w: there is no Go toolchain to build it with: install Go, or build it elsewhere and set %s", ErrGuestProgram, ProgramVariable)
	}
	dir, err := os.MkdirTemp("", "vnb")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guestprog")
	if err := buildInto(ctx, out); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

// buildInto builds from the sources that this binary was built from, if they
// are still there; else from what the working directory's module knows of the
// package; else from the published version that this binary is.
func buildInto(ctx context.Context, out string) error {
	attempts := []goCommand{{dir: sourceDir(), args: []string{"build"}}, {args: []string{"build"}}}
	if v := ownVersion(); v != "" {
		attempts = append(attempts, goCommand{args: []string{"install"}, version: "@" + v})
	}
	var err error
	for _, a := range attempts {
		if err = a.run(ctx, out); err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%w: run inside a module that has %s, or set %s: %w", ErrGuestProgram, modulePath, ProgramVariable, err)
}

// sourceDir is the directory of this file when it was compiled, empty if the
// compiler was told to forget it or if it is gone.
func sourceDir() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return ""
	}
	dir := filepath.Dir(file)
	if _, err := os.Stat(filepath.Join(dir, "guestprog")); err != nil {
		return ""
	}
	return dir
}

// goCommand is a way to build the guest program.
type goCommand struct {
	dir     string // where to run; empty: here
	args    []string
	version string // of the package; empty: the module's
}

// run has the go command build for the guest's machine.
func (g goCommand) run(ctx context.Context, out string) error {
	args := append(slices.Clone(g.args), "-trimpath", "-ldflags=-s -w")
	if g.version == "" {
		args = append(args, "-o", out)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, guestPackage+g.version)...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOBIN="+filepath.Dir(out))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w: %s", args[0], err, lastLine(said.String()))
	}
	return nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// ownVersion is the version of this module in the running binary, empty if it
// was built from a working tree.
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath && m.Version != "(devel)" {
			return m.Version
		}
	}
	return ""
}

// readStatic reads an executable that runs in the guest, without a loader.
func readStatic(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGuestProgram, err)
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%w: %s is no executable for Linux: %w", ErrGuestProgram, path, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%w: %s is dynamically linked: build it static (CGO_ENABLED=0 go build, or cc -static)", ErrGuestProgram, path)
		}
	}
	if f.Machine != elf.EM_X86_64 {
		return nil, fmt.Errorf("%w: %s is for %v, want x86-64", ErrGuestProgram, path, f.Machine)
	}
	return b, nil
}
