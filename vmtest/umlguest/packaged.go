package umlguest

import (
	"context"
	"fmt"
	"path/filepath"
)

// Where Debian's package user-mode-linux has its kernel, and the kernel's modules by
// release.
const (
	packagedPath    = "/usr/bin/linux.uml"
	packagedModules = "/usr/lib/uml/modules"
)

// PackagedModules are the modules that the packaged kernel's driver of our device
// needs, below its modules' kernel directory, in the order in which they are loaded.
var PackagedModules = []string{"net/core/failover.ko", "drivers/net/net_failover.ko", "drivers/net/virtio_net.ko"}

// Packaged is Debian's kernel for user mode, which has no virtual time: only tests in
// real time boot it.
type Packaged struct {
	Path    string // executable
	Version string // release, such as 6.1.176
	Modules string // directory that PackagedModules are in
}

// FindPackaged returns Debian's packaged kernel. It asks the kernel for its release,
// and looks for the driver's modules. Its error wraps ErrKernel, and names what is not
// there.
func FindPackaged(ctx context.Context) (Packaged, error) {
	if !isFile(packagedPath) {
		return Packaged{}, fmt.Errorf("%w: no %s", ErrKernel, packagedPath)
	}
	v, err := versionOf(ctx, packagedPath)
	if err != nil {
		return Packaged{}, err
	}
	p := Packaged{Path: packagedPath, Version: v, Modules: filepath.Join(packagedModules, v, "kernel")}
	for _, m := range PackagedModules {
		if file := filepath.Join(p.Modules, m); !isFile(file) {
			return p, fmt.Errorf("%w: %s has no module %s", ErrKernel, packagedPath, file)
		}
	}
	return p, nil
}
