package vhost_test

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
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
