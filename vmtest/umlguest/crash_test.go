package umlguest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

// A process that this test starts of itself: a kernel that behaves badly, or a run
// that is going to be killed.
func TestMain(m *testing.M) {
	switch what := os.Getenv("VNETBENCH_TEST_PROCESS"); what {
	case "":
		os.Exit(m.Run())
	case "run":
		s := vmtest.Default()
		s.Kernel, s.Receiver.Kind, s.Duration = os.Getenv("VNETBENCH_TEST_KERNEL"), vmtest.ReceiverKernel, time.Hour
		_, err := umlguest.New(umlguest.Config{}).Run(context.Background(), s, vmtest.Options{})
		fmt.Println(err)
	default:
		badKernel(what)
	}
	os.Exit(0)
}

// badKernel plays a kernel in user mode, which is started in its directory.
func badKernel(what string) {
	if what == "deaf" {
		time.Sleep(time.Hour)
	}
	clock, err := net.Dial("unix", "clock")
	if err != nil {
		panic(err)
	}
	say := func(op, seq uint32, time uint64) {
		b := binary.LittleEndian.AppendUint32(nil, op)
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(b, seq), time)
		_, _ = clock.Write(b)
	}
	say(1, 1, 0) // START
	switch what {
	case "nonsense":
		say(77, 2, 0)
	case "device":
		device, err := net.Dial("unix", "net")
		if err != nil {
			panic(err)
		}
		_, _ = device.Write([]byte("this is no message of vhost-user"))
	case "forever": // it asks for the time that it has, again and again
		for seq := uint32(2); ; seq += 2 {
			say(2, seq, 0)
			say(3, seq+1, 0)
			for b := make([]byte, 16); b[0] != 6; { // RUN
				if _, err := io.ReadFull(clock, b); err != nil {
					return
				}
			}
		}
	case "asleep": // it waits, and wants nothing
		say(2, 2, 1<<63-1)
		say(3, 3, 0)
	}
	fmt.Println("last words")
	time.Sleep(time.Hour)
}

// actingKernel is a file that is taken for a kernel and acts badly.
func actingKernel(t *testing.T, what string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(mustTempDir(t), "linux")
	text := "#!/bin/sh\n[ \"$1\" = --version ] && echo 6.12 && exit\nexport VNETBENCH_TEST_PROCESS=" + what + "\nexec " + self + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Whatever a kernel does, the run ends, and says who, when, what was due, and what
// it printed last; the other guest is ended too.
func TestBadKernels(t *testing.T) {
	good := kernel(t, "6.12")
	for _, c := range []struct {
		what  string
		cause error
		text  string
	}{
		{"deaf", umlguest.ErrStart, "did not connect"},
		{"silent", umlguest.ErrStuck, "due is WAIT"},
		{"nonsense", umlguest.ErrProtocol, "operation 77"},
		{"device", umlguest.ErrProtocol, "its device"},
		{"forever", umlguest.ErrStuck, "time stands still"},
		{"asleep", umlguest.ErrStuck, "guest sender: nothing, it waits for a call"},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := scenario(t, "kernel="+actingKernel(t, c.what), "receiver.kind=kernel")
			s.Receiver.Kernel = good
			_, err := umlguest.New(umlguest.Config{Patience: time.Second}).Run(context.Background(), s, vmtest.Options{})
			if !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "guest ") {
				t.Errorf("%v, want %v of a guest with %q", err, c.cause, c.text)
			}
			if left := kernelsRunning(t); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

// A guest that is killed while another sends ends the run with its name.
func TestReceiverKilled(t *testing.T) {
	s := scenario(t, "kernel="+kernel(t, "6.12"), "receiver.kind=kernel", "duration=10s")
	killed := false
	progress := func(p vmtest.Progress) {
		if pids := kernelsRunning(t); p.Phase == "measure" && !killed && len(pids) > 0 {
			killed = true
			_ = syscall.Kill(pids[len(pids)-1], syscall.SIGKILL)
		}
	}
	_, err := umlguest.New(umlguest.Config{}).Run(context.Background(), s, vmtest.Options{Progress: progress})
	if !killed || !errors.Is(err, umlguest.ErrEnded) || !strings.Contains(err.Error(), "panicked or was killed") {
		t.Errorf("%v, want ErrEnded", err)
	}
	if left := kernelsRunning(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// A process that is killed in the middle of a run leaves nothing that the next run
// does not collect: no directory, and no process in one.
func TestCollects(t *testing.T) {
	name := kernel(t, "6.12")
	tmp := mustTempDir(t)
	t.Setenv("TMPDIR", tmp)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "VNETBENCH_TEST_PROCESS=run", "VNETBENCH_TEST_KERNEL="+name)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); len(processesIn(tmp)) < 4 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if len(processesIn(tmp)) == 0 {
		t.Fatal("no guest was started")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if dirs, _ := filepath.Glob(filepath.Join(tmp, "vnb-uml-*")); len(dirs) != 1 {
		t.Fatalf("directories %v after the kill, want one", dirs)
	}
	run(t, scenario(t, "kernel="+name, "duration=1ms"))
	for deadline := time.Now().Add(20 * time.Second); len(processesIn(tmp)) > 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	dirs, _ := filepath.Glob(filepath.Join(tmp, "vnb-uml-*"))
	if left := processesIn(tmp); len(left) > 0 || len(dirs) > 0 {
		t.Errorf("processes %v and directories %v are left", left, dirs)
	}
}

// processesIn are the processes whose working directory is below dir.
func processesIn(dir string) (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, path := range found {
		if at, err := os.Readlink(path); err == nil && strings.HasPrefix(at, dir+"/") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}
