package umlguest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vnetbench/vnetbench/vmtest"
)

// ErrKernel says that there is no kernel of the name that was asked for, or that
// it does not run here.
var ErrKernel = errors.New("no kernel for user mode")

// Named are the kernels that BuildKernel builds, the default first.
var Named = []string{"6.12", "6.1"}

//go:embed kernel.config
var fragment []byte

// Kernel is a Linux that was built for ARCH=um.
type Kernel struct {
	Name    string // as asked for: one of Named, or a path
	Path    string // of the executable
	Version string // as it says itself
	Init    string // path of the program for its guests
	Shim    string // path of what is preloaded
}

// cacheDir is where kernels and programs are kept, in the user's cache directory.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKernel, err)
	}
	return filepath.Join(dir, "vnetbench", "uml"), nil
}

// hashOf names contents.
func hashOf(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d ", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// FindKernel returns a kernel that BuildKernel has built, or the one at a path,
// which has a slash. Its error wraps ErrKernel and says what to do.
func FindKernel(ctx context.Context, name string) (Kernel, error) {
	k := Kernel{Name: name, Path: name}
	var err error
	if !strings.Contains(name, "/") {
		if k.Path, err = builtKernel(name); err != nil {
			return k, err
		}
	}
	if k.Path, err = filepath.Abs(k.Path); err != nil {
		return k, err
	}
	if k.Version, err = versionOf(ctx, k.Path); err != nil {
		return k, err
	}
	k.Init, k.Shim, err = programs(ctx)
	return k, err
}

// builtKernel is the newest kernel of that name that was built with our
// configuration.
func builtKernel(name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	if v := packageVersion(name); v != "" {
		if path := filepath.Join(dir, keyOf(v), "linux"); isFile(path) {
			return path, nil
		}
	}
	found, _ := filepath.Glob(filepath.Join(dir, name+".*-"+hashOf(fragment), "linux"))
	if len(found) == 0 {
		return "", fmt.Errorf("%w: %s is not built; run: vnetbench kernel build %s", ErrKernel, name, name)
	}
	slices.SortFunc(found, func(a, b string) int { return modTime(a).Compare(modTime(b)) })
	return found[len(found)-1], nil
}

// keyOf names a build: the version of the source package, and the configuration.
func keyOf(packageVersion string) string { return packageVersion + "-" + hashOf(fragment) }

func checkName(name string) error {
	if slices.Contains(Named, name) {
		return nil
	}
	return fmt.Errorf("%w: %q; there are %s, or give the PATH of a kernel built with ARCH=um, with a slash in it; the nearest is %q",
		ErrKernel, name, strings.Join(Named, " and "), vmtest.Nearest(name, Named))
}

// versionOf asks a kernel for its version.
func versionOf(ctx context.Context, path string) (string, error) {
	if !isFile(path) {
		return "", fmt.Errorf("%w: %s is no file", ErrKernel, path)
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s --version: %w; it has to be a Linux that was built with ARCH=um", ErrKernel, path, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}
