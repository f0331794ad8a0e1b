package qemuguest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/qemuguest"
)

// dyingVariable makes the test binary a QEMU whose guest dies as often as the file
// that it names has bytes, and then the QEMU that is installed.
const dyingVariable = "VNETBENCH_TEST_DYING"

func dyingEmulator(left string) {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("QEMU emulator version 7.2.22")
		return
	}
	if slices.Contains(os.Args, "kvm") {
		fmt.Fprintln(os.Stderr, "no KVM")
		os.Exit(1)
	}
	if n, err := os.ReadFile(left); err == nil && len(n) > 0 {
		_ = os.WriteFile(left, n[1:], 0o644)
		die(os.Args)
		return
	}
	path, err := exec.LookPath("qemu-system-x86_64")
	if err == nil {
		err = syscall.Exec(path, os.Args, os.Environ())
	}
	fmt.Println(err)
	os.Exit(1)
}

// die connects to the device, as QEMU does, and says what such a kernel says.
func die(args []string) {
	for _, a := range args {
		if name, ok := strings.CutPrefix(a, "socket,id=vu,abstract=on,path="); ok {
			if _, err := net.Dial("unix", "@"+name); err != nil {
				fmt.Println(err)
			}
		}
	}
	fmt.Println("[    0.321] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI")
	fmt.Print(strings.Repeat("[    0.322]  ? a line of its trace\n", 60))
	fmt.Println("[    0.323] Kernel panic - not syncing: Fatal exception in interrupt")
	time.Sleep(100 * time.Millisecond)
}

// TestBootedAgain: a kernel that dies of its QEMU's fault before it has said a word
// is booted again, which is logged and bounded; one that dies of something else
// is not.
func TestBootedAgain(t *testing.T) {
	needGuest(t, "6.1")
	if e, err := qemuguest.FindEmulator(context.Background()); err != nil || e.Major > 7 {
		t.Logf("QEMU %s, %v: this is about 7.2", e.Version, err)
	}
	for _, c := range []struct {
		deaths, boots int
		cpus          int
		alive         bool
	}{{1, 2, 2, true}, {5, 3, 2, false}, {5, 1, 1, false}} {
		left := filepath.Join(t.TempDir(), "left")
		if err := os.WriteFile(left, make([]byte, c.deaths), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Setenv(dyingVariable, left)
		var log strings.Builder
		s := scenario(1, "flows", fmt.Sprint(c.cpus), "duration", "50ms", "warmup", "20ms")
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		r, err := qemuguest.New(qemuguest.Config{QEMU: os.Args[0]}).Run(ctx, s, vmtest.Options{Log: &log})
		cancel()
		if said := strings.Count(log.String(), "a fault mended in 8.1"); said != c.boots-1 {
			t.Errorf("%+v: booted again %d times, want %d:\n%s", c, said, c.boots-1, log.String())
		}
		if alive := r != nil && err == nil; alive != c.alive || !alive && !errors.Is(err, qemuguest.ErrGuest) {
			t.Errorf("%+v: %v, result %v", c, err, r != nil)
		}
	}
}
