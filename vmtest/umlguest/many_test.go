package umlguest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

// Several senders and receivers in one run: every flow gets through, each guest's
// queues are counted apart, the totals are the senders', and a second run is the
// same.
func TestMany(t *testing.T) {
	for _, kind := range []string{"2 senders, model", "2 senders, 3 receivers"} {
		t.Run(kind, func(t *testing.T) {
			s := scenario(t, "kernel="+kernel(t, "6.12"), "flows=6", "write=16k", "guests.senders=2", "queue_pairs=2", "link.rate=1G")
			if strings.Contains(kind, "receivers") {
				s.Receiver.Kind, s.Guests.Receivers = vmtest.ReceiverKernel, 3
			}
			r, trace := run(t, s)
			for _, f := range r.Flows {
				if f.Bytes == 0 || f.SentBytes == nil || *f.SentBytes < f.Bytes {
					t.Errorf("flow %d: %d bytes arrived, it wrote %v", f.Flow, f.Bytes, f.SentBytes)
				}
			}
			checkGuests(t, r, &s)
			burden(t)
			if again, second := run(t, s); *again.TraceHash != *r.TraceHash || second != trace {
				t.Errorf("hashes %s and %s of one scenario", *r.TraceHash, *again.TraceHash)
			}
		})
	}
}

// checkGuests checks each guest's share of a run.
func checkGuests(t *testing.T, r *vmtest.Run, s *vmtest.Scenario) {
	t.Helper()
	packets, calls := map[string]int64{}, map[string]int64{}
	var kicks int64
	for _, q := range r.Queues {
		if q.Dir != "tx" {
			continue
		}
		packets[q.Guest] += q.Packets
		calls[q.Guest] += q.Calls
		if strings.HasPrefix(q.Guest, "sender") {
			kicks += q.Kicks
		}
	}
	want := []string{"sender 0", "sender 1"}
	if s.Receiver.Kind == vmtest.ReceiverKernel {
		want = append(want, "receiver 0", "receiver 1", "receiver 2")
	}
	for _, name := range want {
		if packets[name] == 0 || calls[name] == 0 {
			t.Errorf("%s: %d packets, %d TX calls", name, packets[name], calls[name])
		}
	}
	if len(packets) != len(want) || kicks != r.Totals.Kicks {
		t.Errorf("guests %v; %d kicks of senders, %d in all", packets, kicks, r.Totals.Kicks)
	}
}

// Thirty-two guests at once take less than 1 GB. The long form is behind
// VNETBENCH_LONG; the short one has eight, and multiplies.
func TestManyMemory(t *testing.T) {
	n := 8
	if os.Getenv("VNETBENCH_LONG") != "" {
		n = 32
	}
	s := scenario(t, "kernel="+kernel(t, "6.12"), "receiver.kind=kernel", "write=16k", "link.rate=10G", fmt.Sprintf("flows=%d", n/2),
		fmt.Sprintf("guests.senders=%d", n/2), fmt.Sprintf("guests.receivers=%d", n/2))
	var guests, here int64
	progress := func(p vmtest.Progress) {
		if p.Phase == "measure" {
			guests, here = max(guests, residentBelow(t, os.Getpid())), max(here, resident(os.Getpid()))
		}
	}
	if _, err := umlguest.New(umlguest.Config{}).Run(context.Background(), s, vmtest.Options{Progress: progress}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d guests: %d MB in their processes, %d MB in this one", n, guests/1e6, here/1e6)
	if all := guests*32/int64(n) + here; guests == 0 || all > 1e9 {
		t.Errorf("%d MB for 32 guests, want at most 1000", all/1e6)
	}
}

// residentBelow is the memory of the processes below one. What several of them
// share counts in each.
func residentBelow(t *testing.T, pid int) (sum int64) {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		text, _ := os.ReadFile(path)
		for child := range strings.FieldsSeq(string(text)) {
			id, err := strconv.Atoi(child)
			if err != nil {
				t.Fatal(err)
			}
			sum += resident(id) + residentBelow(t, id)
		}
	}
	return sum
}

// resident is a process's memory in bytes, as /proc has it.
func resident(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}
