package umlguest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// ErrCompiler says that the programs that go with a kernel could not be compiled.
var ErrCompiler = errors.New("cannot compile the guest's program")

//go:embed guest/init.c.txt
var initSource []byte

//go:embed guest/random.c.txt
var shimSource []byte

// programs returns the paths of the guest's program and of the library that is
// preloaded into the kernel. They are compiled once and kept.
func programs(ctx context.Context) (init, shim string, err error) {
	dir, err := cacheDir()
	if err != nil {
		return "", "", err
	}
	cc, err := exec.LookPath("gcc")
	if err != nil {
		return "", "", fmt.Errorf("%w: there is no gcc; run: apt-get install gcc libc6-dev", ErrCompiler)
	}
	version, err := exec.CommandContext(ctx, cc, "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("%w: gcc --version: %w", ErrCompiler, err)
	}
	dir = filepath.Join(dir, "programs-"+hashOf(initSource, shimSource, version))
	init, shim = filepath.Join(dir, "init"), filepath.Join(dir, "random.so")
	if isFile(init) && isFile(shim) {
		return init, shim, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}
	if err := compile(ctx, cc, init, initSource, "-static"); err != nil {
		return "", "", err
	}
	return init, shim, compile(ctx, cc, shim, shimSource, "-shared", "-fPIC")
}

// compile makes a file of a source text, in one step for whoever looks.
func compile(ctx context.Context, cc, to string, source []byte, flags ...string) error {
	tmp, err := os.CreateTemp(filepath.Dir(to), "cc-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	tmp.Close()
	cmd := exec.CommandContext(ctx, cc, append(flags, "-O2", "-x", "c", "-o", tmp.Name(), "-")...)
	cmd.Stdin = bytes.NewReader(source)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s: %w: %s; run: apt-get install gcc libc6-dev", ErrCompiler, filepath.Base(to), err, firstLine(said.String()))
	}
	if err := os.Chmod(tmp.Name(), 0o755); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), to)
}

func firstLine(s string) string {
	line, _, _ := bytes.Cut([]byte(s), []byte("\n"))
	return string(line)
}

func modTime(path string) time.Time {
	st, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}
