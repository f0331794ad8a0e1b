package qemuguest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/qemuguest"
)

// ownTemp gives the test, and processes that it starts, a directory for
// temporary files that nobody else uses.
func ownTemp(t *testing.T) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
}

// inventory is what a run could leave behind: this process's descriptors, its
// children, temporary files, and interfaces and sockets of the namespace that
// it runs in.
func inventory(t *testing.T) map[string]bool {
	t.Helper()
	have := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		kind, _, _ := strings.Cut(to, ":")
		if err == nil && (kind == "socket" || kind == "net" || kind == "/dev/net/tun" || strings.HasPrefix(kind, "/memfd")) {
			have["descriptor "+to] = true
		}
	}
	for _, pid := range children(t, os.Getpid()) {
		have["process "+pid] = true
	}
	for _, pattern := range []string{"/sys/class/net/*", "/run/netns/*", filepath.Join(os.TempDir(), "*")} {
		names, _ := filepath.Glob(pattern)
		for _, n := range names {
			have[n] = true
		}
	}
	sockets, _ := os.ReadFile("/proc/net/unix")
	for line := range strings.Lines(string(sockets)) {
		if i := strings.Index(line, "@vnetbench-"+strconv.Itoa(os.Getpid())); i >= 0 {
			have[strings.TrimSpace(line[i:])] = true
		}
	}
	return have
}

// children lists the children of a process, with what they run.
func children(t *testing.T, pid int) []string {
	t.Helper()
	var out []string
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for child := range strings.FieldsSeq(string(b)) {
			cmd, _ := os.ReadFile("/proc/" + child + "/cmdline")
			name, _, _ := strings.Cut(string(cmd), "\x00")
			out = append(out, child+" "+name)
		}
	}
	return out
}

func checkNothingLeft(t *testing.T, before map[string]bool) {
	t.Helper()
	for thing := range inventory(t) {
		if !before[thing] {
			t.Errorf("left behind: %s", thing)
		}
	}
}

// TestStop is Ctrl-C: at boot, and while the scenario is measured. The second
// returns what was measured until then. Neither leaves anything behind.
func TestStop(t *testing.T) {
	needGuest(t, "6.1")
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, phase := range []string{"boot", "measure"} {
		t.Run(phase, func(t *testing.T) {
			ownTemp(t)
			before := inventory(t)
			s := scenario(2)
			s.Duration = time.Minute
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var stopped time.Time
			r, err := qemuguest.New(qemuguest.Config{}).Run(ctx, s, vmtest.Options{Progress: func(p vmtest.Progress) {
				if p.Phase == phase && stopped.IsZero() {
					time.AfterFunc(300*time.Millisecond, stop)
					stopped = time.Now()
				}
			}})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want %v", err, context.Canceled)
			}
			if took := time.Since(stopped); took > 20*time.Second {
				t.Errorf("stopping took %v", took)
			}
			if (r != nil) != (phase == "measure") || r != nil && r.Totals.Packets == 0 {
				t.Errorf("what was measured: %+v", r)
			}
			checkNothingLeft(t, before)
		})
	}
}

// helperVariable makes the test binary run a guest until a signal ends it.
const helperVariable = "VNETBENCH_TEST_HELPER"

func TestMain(m *testing.M) {
	if left := os.Getenv(dyingVariable); left != "" {
		dyingEmulator(left)
		return
	}
	if os.Getenv(helperVariable) != "" {
		runUntilSignal()
		return
	}
	code := m.Run()
	qemuguest.Rows.Print(os.Stdout)
	os.Exit(code)
}

// runUntilSignal is the process that TestCrash and TestInterrupt end. It prints
// what it had measured when it was interrupted.
func runUntilSignal() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := scenario(1)
	s.Duration = time.Minute
	r, err := qemuguest.New(qemuguest.Config{}).Run(ctx, s, vmtest.Options{Progress: func(p vmtest.Progress) {
		fmt.Println("phase", p.Phase)
	}})
	if r != nil {
		fmt.Println("measured", r.Totals.Packets > 0, err)
	}
}

// helper starts runUntilSignal in a process group of its own, and waits until it
// has said the line. It returns the pid of its QEMU.
func helper(t *testing.T, until string) (cmd *exec.Cmd, out *bufio.Scanner, qemu string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"=1")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	out = bufio.NewScanner(pipe)
	expect(t, out, until)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, c := range children(t, cmd.Process.Pid) {
			if pid, name, _ := strings.Cut(c, " "); strings.Contains(name, "qemu-system") {
				return cmd, out, pid
			}
		}
	}
	t.Fatal("no QEMU came up")
	return nil, nil, ""
}

func expect(t *testing.T, out *bufio.Scanner, line string) {
	t.Helper()
	var said []string
	for out.Scan() {
		if out.Text() == line {
			return
		}
		said = append(said, out.Text())
	}
	t.Fatalf("the process said %q, want %q", said, line)
}

// TestCrash kills a process that runs a guest, which then has no chance to
// clean up: QEMU dies with it, and nothing else had a name.
func TestCrash(t *testing.T) {
	needGuest(t, "6.1")
	ownTemp(t)
	before := inventory(t)
	cmd, _, qemu := helper(t, "phase boot")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	checkGone(t, qemu)
	checkNothingLeft(t, before)
}

// TestInterrupt is Ctrl-C as a terminal sends it, to the whole process group:
// the guest is not hit by it, and reports what was measured.
func TestInterrupt(t *testing.T) {
	needGuest(t, "6.1")
	ownTemp(t)
	before := inventory(t)
	cmd, out, qemu := helper(t, "phase measure")
	if err := unix.Kill(-cmd.Process.Pid, unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	expect(t, out, "measured true context canceled")
	_ = cmd.Wait()
	checkGone(t, qemu)
	checkNothingLeft(t, before)
}

func checkGone(t *testing.T, pid string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("QEMU, process %s, outlives its parent", pid)
		}
	}
}

func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
