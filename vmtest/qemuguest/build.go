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
	"runtime/debug"
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

// guestProgram returns the guest program's executable. It builds with the
// module of the working directory, if that knows the package: it is ours, or
// requires ours; else with the version that this binary was built from.
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
	if err := buildInto(ctx, dir, out); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

func buildInto(ctx context.Context, dir, out string) error {
	here := goCommand(ctx, dir, "build", "-trimpath", "-ldflags=-s -w", "-o", out, guestPackage)
	if here == nil {
		return nil
	}
	version := ownVersion()
	if version == "" || ctx.Err() != nil {
		return fmt.Errorf("%w: run inside a module that has %s, or set %s: %w", ErrGuestProgram, modulePath, ProgramVariable, here)
	}
	if err := goCommand(ctx, dir, "install", "-trimpath", "-ldflags=-s -w", guestPackage+"@"+version); err != nil {
		return fmt.Errorf("%w: %w", ErrGuestProgram, err)
	}
	return nil
}

// goCommand runs the go command for the guest's machine.
func goCommand(ctx context.Context, bin string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOBIN="+bin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w: %s", args[0], err, lastLine(out.String()))
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
