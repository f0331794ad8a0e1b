package qemuguest

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// Rows is the table of what was tried with which real front-end.
var Rows rows

type rows struct {
	mu   sync.Mutex
	list []string
}

// Add notes that the test is about a front-end; its result is taken at its end.
func (r *rows) Add(t testing.TB, e Emulator, kernel string, packed bool, what string) {
	t.Cleanup(func() {
		result := "pass"
		if t.Failed() {
			result = "FAIL"
		}
		ring := map[bool]string{false: "split", true: "packed"}[packed]
		r.add("QEMU "+e.Version, "Linux "+kernel, ring, what, result)
	})
}

func (r *rows) add(cells ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, strings.Join(cells, "\t"))
}

// Print prints the table, if there is one.
func (r *rows) Print(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return
	}
	if _, err := NewerEmulator(context.Background()); err != nil {
		r.list = append(r.list, fmt.Sprintf("QEMU 8.1 or newer\t-\t-\t-\tnot here: %v", err))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "front-end\tguest\tring\twhat\tresult")
	for _, row := range r.list {
		fmt.Fprintln(t, row)
	}
	_ = t.Flush()
}

// Long reports whether every cell is wanted; otherwise each QEMU, kernel and ring is
// there, but not in every combination.
func Long() bool { return os.Getenv("VNETBENCH_LONG") != "" }

// onEmulators runs a test with each QEMU that is here.
func onEmulators(t *testing.T, f func(t *testing.T, e Emulator)) {
	for _, e := range Emulators(t.Context()) {
		t.Run("QEMU "+e.Version, func(t *testing.T) { f(t, e) })
	}
}
