package umlguest

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// allowed is the set of CPUs that the calling thread may use.
func allowed(t *testing.T) (set unix.CPUSet) {
	t.Helper()
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	return set
}

// TestPin has runs side by side, each on a thread, take a CPU each until none is
// left, and have all of them afterwards.
func TestPin(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all := allowed(t)
	held := map[int]func(){}
	for {
		undo := pin()
		one := allowed(t)
		if one == all && all.Count() > 1 {
			break // no CPU was left
		}
		if one.Count() != 1 {
			t.Fatalf("pinned to %d CPUs, want 1", one.Count())
		}
		cpu := current()
		if held[cpu] != nil {
			if all.Count() > 1 {
				t.Fatalf("CPU %d twice", cpu)
			}
			break
		}
		held[cpu] = undo
		if err := unix.SchedSetaffinity(0, &all); err != nil { // as another thread would be
			t.Fatal(err)
		}
	}
	for _, undo := range held {
		undo()
		if got := allowed(t); got != all {
			t.Fatalf("not given back: %d CPUs of %d", got.Count(), all.Count())
		}
	}
}
