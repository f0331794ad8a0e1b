package umlguest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dirPrefix begins the names of runs' directories, before the number of the process
// that has made one.
const dirPrefix = "vnb-uml-"

// runDir makes a directory for the sockets and files of one run. It collects what
// runs have left whose process was killed: their directories, and their guests, of
// which a kernel ends with its process, but not what it was running.
func runDir() (string, error) {
	base := os.TempDir()
	old, _ := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
	for _, d := range old {
		if abandoned(d) {
			endGuestsOf(d)
			_ = os.RemoveAll(d)
		}
	}
	dir, err := os.MkdirTemp(base, dirPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", err
	}
	if len(dir) > 80 { // a socket's path has 107 bytes
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("%w: the path %s is too long for a socket; set TMPDIR to a shorter one", ErrStart, dir)
	}
	return dir, nil
}

// abandoned reports whether the process that made a run's directory is gone.
func abandoned(dir string) bool {
	pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
	n, err := strconv.Atoi(pid)
	return err == nil && n > 0 && errors.Is(unix.Kill(n, 0), unix.ESRCH)
}

// endGuestsOf kills the processes that run in a directory.
func endGuestsOf(dir string) {
	procs, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, path := range procs {
		at, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(at, dir+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
