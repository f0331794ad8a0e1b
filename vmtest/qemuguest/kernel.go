package qemuguest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// ErrKernel says that a kernel, or what belongs to it, is not here. It comes
// wrapped in a line that says what to do.
var ErrKernel = errors.New("no guest kernel")

// Named are the releases that Kernel takes by name, the default first: those of
// Debian 12's cloud kernels.
var Named = []string{"6.1", "6.12"}

// Kernel is a kernel that a guest can boot.
type Kernel struct {
	Name    string // as it was asked for
	Image   string // path of the vmlinuz
	Modules string // directory that holds the modules, with the release as its name; empty: none
}

// FindKernel finds the kernel that name stands for: one of Named, or a path to
// a vmlinuz, with the path of its modules behind a colon if it has any. A named
// kernel is looked for below / and below CacheDir, the newest first.
func FindKernel(name string) (Kernel, error) {
	if strings.Contains(name, "/") {
		return kernelFromPaths(name)
	}
	known := false
	for _, n := range Named {
		known = known || n == name
	}
	if !known {
		return Kernel{}, fmt.Errorf("%w: %q is neither %s nor a path VMLINUZ[:MODULES] (a path has a slash)", ErrKernel, name, strings.Join(Named, ", "))
	}
	for _, root := range kernelRoots() {
		if k, ok := findIn(root, name); ok {
			return k, readable(k)
		}
	}
	return Kernel{}, fmt.Errorf("%w: Debian's cloud kernel %s is not installed: `vnetbench doctor --install`", ErrKernel, name)
}

func kernelFromPaths(spec string) (Kernel, error) {
	image, modules, _ := strings.Cut(spec, ":")
	k := Kernel{Name: spec, Image: image, Modules: modules}
	return k, readable(k)
}

// kernelRoots are the directories with a boot and a lib/modules below.
func kernelRoots() []string {
	roots := []string{"/"}
	dir, err := CacheDir()
	if err != nil {
		return roots
	}
	below, _ := filepath.Glob(filepath.Join(dir, "kernels", "*"))
	return append(roots, below...)
}

// findIn looks for boot/vmlinuz-NAME.*-cloud-*: the highest version with its
// modules.
func findIn(root, name string) (Kernel, bool) {
	images, _ := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-"+name+".*-cloud-*"))
	sort.Slice(images, func(i, j int) bool { return versionLess(images[j], images[i]) })
	for _, image := range images {
		release := strings.TrimPrefix(filepath.Base(image), "vmlinuz-")
		modules := filepath.Join(root, "lib", "modules", release)
		if _, err := os.Stat(modules); err == nil {
			return Kernel{Name: name, Image: image, Modules: modules}, true
		}
	}
	return Kernel{}, false
}

// readable checks that image and modules can be read.
func readable(k Kernel) error {
	f, err := os.Open(k.Image)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("%w: %s cannot be read: run as root, or `chmod +r %s`", ErrKernel, k.Image, k.Image)
		}
		return fmt.Errorf("%w: %w", ErrKernel, err)
	}
	f.Close()
	if k.Modules == "" {
		return nil
	}
	if _, err := os.ReadDir(k.Modules); err != nil {
		return fmt.Errorf("%w: modules: %w", ErrKernel, err)
	}
	return nil
}

// versionLess compares texts with the numbers in them taken as numbers.
func versionLess(a, b string) bool {
	for a != "" && b != "" {
		na, ra := number(a)
		nb, rb := number(b)
		if na >= 0 && nb >= 0 {
			if na != nb {
				return na < nb
			}
			a, b = ra, rb
			continue
		}
		if a[0] != b[0] {
			return a[0] < b[0]
		}
		a, b = a[1:], b[1:]
	}
	return len(a) < len(b)
}

// number reads a number at the start of s, -1 if there is none.
func number(s string) (int, string) {
	n, i := -1, 0
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9' && i < 9; i++ {
		n = max(n, 0)*10 + int(s[i]-'0')
	}
	return n, s[i:]
}

// CacheDir is where what belongs to guests is kept between runs: fetched
// kernels, and what was found out about KVM.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache directory: %w (set HOME or XDG_CACHE_HOME)", err)
	}
	return filepath.Join(dir, "vnetbench"), nil
}

// CheckKernel finds a kernel and looks whether it has what a guest needs.
func CheckKernel(name string) (Kernel, error) {
	k, err := FindKernel(name)
	if err != nil {
		return k, err
	}
	tree, err := openModules(k.Modules)
	if err == nil {
		_, err = tree.resolve(baseModules...)
	}
	if err != nil {
		return k, fmt.Errorf("%w: %w", ErrKernel, err)
	}
	return k, nil
}
