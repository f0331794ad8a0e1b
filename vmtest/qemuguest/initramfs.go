package qemuguest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/u-root/mkuimage/cpio"
	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// userProgram is where a program of the user's lies in the guest.
const userProgram = "/bin/program"

// image is what a guest's initramfs holds.
type image struct {
	init    []byte // the guest program
	program []byte // the user's; empty: none
	modules []module
	params  map[string]string // of modules, by name
	config  proto.Config      // its Modules are filled in
}

// file returns the archive as a file without a name, so that none is left
// behind whatever happens to this process.
func (im *image) file() (*os.File, error) {
	b, err := im.archive()
	if err != nil {
		return nil, fmt.Errorf("initramfs: %w", err)
	}
	fd, err := unix.MemfdCreate("initramfs", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("initramfs: memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "initramfs")
	if _, err := f.Write(b); err != nil {
		f.Close()
		return nil, fmt.Errorf("initramfs: %w", err)
	}
	return f, nil
}

// archive is the initramfs as a cpio archive.
func (im *image) archive() ([]byte, error) {
	records := []cpio.Record{
		cpio.Directory("bin", 0o755), cpio.Directory("dev", 0o755), cpio.Directory("modules", 0o755),
		cpio.Directory("proc", 0o755), cpio.Directory("sys", 0o755), cpio.Directory("tmp", 0o1777),
		cpio.CharDev("dev/console", 0o600, 5, 1), cpio.CharDev("dev/null", 0o666, 1, 3),
		file("init", im.init, 0o755),
	}
	if len(im.program) > 0 {
		records = append(records, file(userProgram[1:], im.program, 0o755))
	}
	cfg := im.config
	cfg.Modules = []proto.Module{}
	for i, m := range im.modules {
		name := fmt.Sprintf("modules/%02d-%s.ko", i, m.name)
		records = append(records, file(name, m.data, 0o644))
		cfg.Modules = append(cfg.Modules, proto.Module{File: "/" + name, Params: im.params[m.name]})
	}
	j, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	records = append(records, file(proto.ConfigPath[1:], j, 0o644), cpio.TrailerRecord)
	var buf bytes.Buffer
	w := cpio.Newc.Writer(&buf)
	for _, r := range records {
		if err := w.WriteRecord(r); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), nil
}

func file(name string, data []byte, perm uint64) cpio.Record {
	return cpio.StaticRecord(data, cpio.Info{Name: name, Mode: cpio.S_IFREG | perm, NLink: 1})
}
