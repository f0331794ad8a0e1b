package qemuguest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest"
)

// TestEmulators is TestGuest with every QEMU that is here, every kernel, and both
// layouts of a ring, over two queue pairs. TestGuest and TestOtherKernel have split
// rings with the first QEMU.
func TestEmulators(t *testing.T) {
	for _, kernel := range qemuguest.Named {
		needGuest(t, kernel)
		for i, e := range qemuguest.Emulators(t.Context()) {
			for _, ring := range []string{"split", "packed"} {
				if wanted := ring == "packed" && (i == 0 || kernel == "6.12") || ring == "split" && i > 0 && kernel == "6.1"; !wanted && !qemuguest.Long() {
					continue
				}
				t.Run(fmt.Sprintf("QEMU %s/%s/%s", e.Version, kernel, ring), func(t *testing.T) {
					qemuguest.Rows.Add(t, e, kernel, ring == "packed", "2 queue pairs: the driver's counts, every byte")
					r := run(t, scenario(2, "kernel", kernel, "ring", ring, "warmup", "100ms", "duration", "300ms"), qemuguest.Config{QEMU: e.Path})
					checkKicks(t, r)
					checkBytes(t, r)
					if !strings.HasPrefix(r.KernelVersion, kernel+".") {
						t.Errorf("kernel %s, want %s", r.KernelVersion, kernel)
					}
				})
			}
		}
	}
}
