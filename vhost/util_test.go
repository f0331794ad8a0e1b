package vhost_test

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
)

func itoa(n int) string { return strconv.Itoa(n) }

// dupOf returns a descriptor of f's file that is nobody's yet, and closes f.
func dupOf(t testing.TB, f *os.File) int {
	t.Helper()
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// readCount reads an eventfd.
func readCount(fd int) uint64 {
	var buf [8]byte
	n, _ := osio.ReadEvent(fd, &buf)
	return n
}

// breakRing makes the available index jump by more than the ring holds.
func breakRing(r *frontend.Ring) { r.Poke(r.Config.Avail+2, 300) }

// dup returns another descriptor of fd's file.
func dup(t testing.TB, fd int) int {
	t.Helper()
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// socketDir is a folder for sockets with a path that is short enough for their
// addresses.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
