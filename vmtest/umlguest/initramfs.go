package umlguest

import (
	"bytes"
	"fmt"
	"os"

	"github.com/u-root/mkuimage/cpio"
)

// writeInitramfs writes the archive of a guest's root file system: the program
// and its lines of configuration.
func writeInitramfs(path, init, conf string) error {
	program, err := os.ReadFile(init)
	if err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	var buf bytes.Buffer
	w := cpio.Newc.Writer(&buf)
	for _, r := range []cpio.Record{
		cpio.Directory("dev", 0o755), cpio.Directory("proc", 0o755),
		cpio.CharDev("dev/console", 0o600, 5, 1), cpio.CharDev("dev/null", 0o666, 1, 3),
		file("init", program, 0o755), file("conf", []byte(conf), 0o644), cpio.TrailerRecord,
	} {
		if err := w.WriteRecord(r); err != nil {
			return fmt.Errorf("initramfs: %w", err)
		}
	}
	return os.WriteFile(path, buf.Bytes(), 0o600)
}

func file(name string, data []byte, perm uint64) cpio.Record {
	return cpio.StaticRecord(data, cpio.Info{Name: name, Mode: cpio.S_IFREG | perm, NLink: 1})
}
