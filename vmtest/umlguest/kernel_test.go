package umlguest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

// kernel returns a named kernel, and skips the test if it is not built. With
// CI=true that is a failure: the kernels are built before the tests.
func kernel(t testing.TB, name string) string {
	t.Helper()
	_, err := umlguest.FindKernel(context.Background(), name)
	switch {
	case err == nil:
		return name
	case os.Getenv("CI") == "true" || !errors.Is(err, umlguest.ErrKernel):
		t.Fatal(err)
	}
	t.Skipf("SKIPPED, no real kernel was tested: %v", err)
	return ""
}

func scenario(t *testing.T, settings ...string) vmtest.Scenario {
	t.Helper()
	s := vmtest.Default()
	s.WarmUp, s.Duration = time.Millisecond, 4*time.Millisecond
	for _, text := range settings {
		st, err := vmtest.ParseSetting(text)
		if err == nil {
			err = s.Set(st.Key, st.Value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// run runs a scenario and returns its trace too.
func run(t *testing.T, s vmtest.Scenario) (*vmtest.Run, string) {
	t.Helper()
	return runWith(t, umlguest.Config{}, s)
}

func runWith(t *testing.T, c umlguest.Config, s vmtest.Scenario) (*vmtest.Run, string) {
	t.Helper()
	var trace bytes.Buffer
	r, err := umlguest.New(c).Run(context.Background(), s, vmtest.Options{Trace: &trace})
	if err != nil {
		t.Fatal(err)
	}
	return r, trace.String()
}

// burden keeps a CPU busy until the test ends.
func burden(t *testing.T) {
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	for range 2 {
		go func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
}

// The same scenario gives the same packets at the same nanoseconds, also beside
// a busy CPU.
func TestSameTrace(t *testing.T) {
	for _, name := range umlguest.Named {
		for _, c := range []struct {
			name     string
			settings []string
		}{
			{"model", nil},
			{"guest", []string{"receiver.kind=kernel"}},
			{"pairs", []string{"queue_pairs=2", "flows=4", "release=orphan", "receiver.kind=kernel"}},
			{"bbr", []string{"cc=bbr", "link.rate=100M", "link.delay=1ms", "ip=6", "duration=40ms"}},
			{"lossy", []string{"link.loss=0.01", "cc=reno", "receiver.kind=kernel"}},
		} {
			t.Run(name+"-"+c.name, func(t *testing.T) {
				s := scenario(t, append([]string{"duration=2ms", "kernel=" + kernel(t, name)}, c.settings...)...)
				first, trace := run(t, s)
				if name != "6.1" { // which knows messages only
					quiet, same := runWith(t, umlguest.Config{Messages: true}, s)
					if *quiet.TraceHash != *first.TraceHash || same != trace {
						t.Errorf("hash %s with shared memory, %s with messages", *first.TraceHash, *quiet.TraceHash)
					}
				}
				burden(t)
				second, again := run(t, s)
				if *first.TraceHash != *second.TraceHash || trace != again {
					t.Errorf("hashes %s and %s of one scenario", *first.TraceHash, *second.TraceHash)
				}
				if first.Totals.Packets == 0 || strings.Count(trace, "\tack\t") == 0 {
					t.Error("no packets, or no ACKs")
				}
			})
		}
	}
}

// Report 000 on real kernels behind virtio: the packet that the pacing rate allows
// and a rest, in turn, until v6.10; afterwards no rest.
func TestLeftover(t *testing.T) {
	for name, want := range map[string][]int{"6.1": {49980, 14280}, "6.12": {49980}} {
		t.Run(name, func(t *testing.T) {
			p, err := vmtest.PlanByName("tso-leftover")
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Set([]vmtest.Setting{{Key: "kernel", Value: kernel(t, name)}, {Key: "duration", Value: "60ms"}}); err != nil {
				t.Fatal(err)
			}
			p.Fit(umlguest.New(umlguest.Config{}))
			runs, err := p.Runs()
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(runs, func(r vmtest.PlannedRun) bool { return strings.Contains(r.Label, "mss1428") })
			r, _ := run(t, runs[i].Scenario)
			if len(r.Sizes) == 0 || !slices.Equal(r.Sizes[0].Lens, want) || r.Sizes[0].Times < 20 {
				t.Errorf("sizes %+v, want %v again and again", r.Sizes, want)
			}
		})
	}
}

// Every pair of a device sends, the driver asks for its pairs over the control
// queue, and the queues' sums are the totals.
func TestPairs(t *testing.T) {
	r, _ := run(t, scenario(t, "kernel="+kernel(t, "6.12"), "queue_pairs=2", "flows=8"))
	var packets int64
	for _, q := range r.Queues {
		if q.Dir != "tx" {
			continue
		}
		packets += q.Packets
		if q.Packets == 0 || q.Kicks == 0 {
			t.Errorf("queue %d: %d packets, %d kicks", q.Queue, q.Packets, q.Kicks)
		}
	}
	if packets < r.Totals.Packets {
		t.Errorf("%d packets in queues, %d in all", packets, r.Totals.Packets)
	}
}

// A run that its flows' bytes end is over when all have arrived.
func TestBytes(t *testing.T) {
	for _, kind := range []string{vmtest.ReceiverModel, vmtest.ReceiverKernel} {
		s := scenario(t, "kernel="+kernel(t, "6.12"), "bytes=300000", "link.loss=0.02", "receiver.kind="+kind)
		s.Duration, s.WarmUp = 0, 0
		r, _ := run(t, s)
		for _, f := range r.Flows {
			if f.SentBytes == nil || *f.SentBytes != 300000 || *f.RecvBytes < 300000 {
				t.Errorf("%s receiver, flow %d: wrote %v, %d arrived, want 300000", kind, f.Flow, f.SentBytes, *f.RecvBytes)
			}
		}
	}
}

// A guest that cannot do what it is told says so, and nothing is left of it.
func TestGuestError(t *testing.T) {
	t.Setenv("TMPDIR", mustTempDir(t))
	s := scenario(t, "kernel="+kernel(t, "6.12"))
	s.Sysctl["tcp_no_such"] = "1"
	_, err := umlguest.New(umlguest.Config{}).Run(context.Background(), s, vmtest.Options{})
	if !errors.Is(err, umlguest.ErrEnded) || !strings.Contains(err.Error(), "tcp_no_such") {
		t.Errorf("%v, want ErrEnded that names the sysctl", err)
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// A run that is cut short gives what there is.
func TestInterrupt(t *testing.T) {
	s := scenario(t, "kernel="+kernel(t, "6.12"), "duration=1000s", "link.rate=1G")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	start := time.Now()
	r, err := umlguest.New(umlguest.Config{}).Run(ctx, s, vmtest.Options{})
	if !errors.Is(err, context.DeadlineExceeded) || r == nil {
		t.Fatalf("run %v, %v; want what was measured, and the context's error", r, err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("it took %v to stop", d)
	}
}

// A kernel that panics is reported with its last words.
func TestKernelDies(t *testing.T) {
	k, err := umlguest.FindKernel(context.Background(), kernel(t, "6.12"))
	if err != nil {
		t.Fatal(err)
	}
	// A kernel without a first program panics as it boots.
	dir := mustTempDir(t)
	script := filepath.Join(dir, "linux")
	text := "#!/bin/sh\n[ \"$1\" = --version ] || set -- \"$@\" rdinit=/none\nexec " + k.Path + " \"$@\"\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = umlguest.New(umlguest.Config{}).Run(context.Background(), scenario(t, "kernel="+script), vmtest.Options{})
	if !errors.Is(err, umlguest.ErrEnded) || !strings.Contains(err.Error(), "guest sender at ") || !strings.Contains(err.Error(), "Kernel panic") {
		t.Errorf("%v, want ErrEnded with the guest, the virtual time and the console's last words", err)
	}
}

// kernelsRunning are the processes of guests of this process.
func kernelsRunning(t *testing.T) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, _, _ := strings.Cut(string(text), " ")
		rest := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		cmd, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if len(rest) > 1 && rest[1] == strconv.Itoa(os.Getpid()) && bytes.Contains(cmd, []byte("uml_dir=")) {
			n, _ := strconv.Atoi(pid)
			pids = append(pids, n)
		}
	}
	return pids
}

// A kernel that hangs ends the run, with what it owes; the watchdog is real.
func TestKernelHangs(t *testing.T) {
	s := scenario(t, "kernel="+kernel(t, "6.12"), "duration=10s")
	stopped := false
	progress := func(p vmtest.Progress) {
		if p.Phase == "measure" && !stopped {
			stopped = true
			for _, pid := range kernelsRunning(t) {
				_ = syscall.Kill(pid, syscall.SIGSTOP)
			}
		}
	}
	_, err := umlguest.New(umlguest.Config{Patience: 2 * time.Second}).Run(context.Background(), s, vmtest.Options{Progress: progress})
	if !stopped || !errors.Is(err, umlguest.ErrStuck) || !strings.Contains(err.Error(), "guest sender at 1.00") || !strings.Contains(err.Error(), "due is ") {
		t.Errorf("%v, want ErrStuck with the guest, the virtual time and what is due", err)
	}
	if left := kernelsRunning(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// Runs leave no descriptor and no process behind.
func TestLeavesNothing(t *testing.T) {
	s := scenario(t, "kernel="+kernel(t, "6.12"), "receiver.kind=kernel", "duration=1ms")
	run(t, s)
	before, _ := os.ReadDir("/proc/self/fd")
	for range 2 {
		run(t, s)
	}
	after, _ := os.ReadDir("/proc/self/fd")
	if len(after) > len(before) || len(kernelsRunning(t)) > 0 {
		t.Errorf("%d descriptors before, %d after; processes %v", len(before), len(after), kernelsRunning(t))
	}
}

// mustTempDir is a directory with a short path: sockets go below it.
func mustTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "vnt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
