package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest"
)

// needQEMU skips a test that needs a virtual machine; where CI=true, not having one
// is a failure.
func needQEMU(t *testing.T, kernel string) {
	t.Helper()
	_, noEmulator := qemuguest.FindEmulator(context.Background())
	_, noKernel := qemuguest.FindKernel(kernel)
	_, noTap := os.Stat("/dev/net/tun")
	why := ""
	switch {
	case os.Geteuid() != 0:
		why = "needs root for a network namespace and a tap"
	case noEmulator != nil:
		why = noEmulator.Error()
	case noKernel != nil:
		why = noKernel.Error()
	case noTap != nil:
		why = noTap.Error()
	}
	if why == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED, NOT TESTED:", why)
}

// command runs the command line and returns its status and what it says.
func command(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var files [2]*os.File
	for i := range files {
		f, err := os.Create(filepath.Join(t.TempDir(), "text"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	status = execute(args, files[0], files[1])
	var said [2]string
	for i, f := range files {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		said[i] = string(b)
	}
	return status, said[0], said[1]
}

// fieldsOf is the line of a table that begins with a word, split.
func fieldsOf(t *testing.T, text, first string) []string {
	t.Helper()
	for l := range strings.Lines(text) {
		if f := strings.Fields(l); len(f) > 1 && strings.HasPrefix(strings.Join(f, " "), first) {
			return f
		}
	}
	t.Fatalf("no line %q in\n%s", first, text)
	return nil
}

// A simulated guest and one in QEMU make the same runs, and what is beyond doubt has
// the same sign. The command goes on where it was. VNETBENCH_LONG=1 makes all runs
// of both plans, five times each.
func TestSimulatorAgreesWithQEMU(t *testing.T) {
	needQEMU(t, "6.1")
	if os.Getenv("VNETBENCH_LONG") != "" {
		for _, plan := range []string{"agreement", "agreement-effects"} {
			t.Run(plan, func(t *testing.T) { agreesInOrder(t, plan) })
		}
		return
	}
	dir := t.TempDir()
	args := []string{"compare", "agreement", "--guests", "sim,qemu", "--runs", "1", "--kernel", "6.1", "--out", dir,
		"--set", "release=orphan", "--set", "write=256,16k", "--set", "warmup=200ms", "--set", "duration=400ms"}
	status, out, errs := command(t, args...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	// Packets of 16 KB writes are fewer, by far, whatever the machine is doing.
	for _, first := range []string{"write 256 -> 16k 6.1 queue_pairs=1 orphan", "write 256 -> 16k 6.1 queue_pairs=2 orphan"} {
		f := fieldsOf(t, out, first)
		for _, s := range f[9:11] { // packets/MB
			if times, err := strconv.ParseFloat(s, 64); err != nil || times > 0.5 {
				t.Errorf("%s: packets times %s in\n%s", first, s, out)
			}
		}
	}
	if status, again, errs := command(t, args...); status != 0 || again != out {
		t.Errorf("again: status %d, %s\n%s\nnot\n%s", status, errs, again, out)
	}
	status, _, errs = command(t, append(args, "--set", "think=1ms")...)
	if status != exitUsage || !strings.Contains(errs, "another scenario") {
		t.Errorf("another scenario in the same folder: status %d, %s", status, errs)
	}
}

// leastRank is what the figures' rank correlations have to be in the long form.
const leastRank = 0.6

func agreesInOrder(t *testing.T, plan string) {
	status, out, errs := command(t, "compare", plan, "--guests", "sim,qemu")
	if status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	t.Log(out)
	for _, figure := range []string{"packets/MB", "kicks/MB", "tx calls/MB", "rx calls/MB"} {
		f := fieldsOf(t, out, figure+" ")
		if rank, err := strconv.ParseFloat(f[len(strings.Fields(figure))], 64); err != nil || rank < leastRank {
			t.Errorf("%s: rank correlation %s", figure, f[len(strings.Fields(figure))])
		}
	}
}
