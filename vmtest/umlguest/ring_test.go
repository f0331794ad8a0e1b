package umlguest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vmtest"
)

// TestPackedRings gives real kernels packed rings. With napi each packet is at the
// same nanosecond as with split rings, and so is each kick and call. Without it, two
// pairs of 6.12 get a call for each packet until a queue stops, where a split ring
// has none: the driver takes the first call for the last (see ring.Driver.Called).
func TestPackedRings(t *testing.T) {
	for _, name := range []string{"6.1", "6.12"} {
		t.Run(name, func(t *testing.T) {
			set := []string{"kernel=" + kernel(t, name), "queue_pairs=2", "release=napi", "duration=2ms"}
			split, text := run(t, scenario(t, set...))
			packed, other := run(t, scenario(t, append(set, "ring=packed")...))
			a, b := split.Totals, packed.Totals
			if a.Kicks != b.Kicks || a.TxCalls != b.TxCalls || a.RxCalls != b.RxCalls || a.Kicks == 0 {
				t.Errorf("%d kicks, %d and %d calls by split rings, %d, %d and %d by packed ones",
					a.Kicks, a.TxCalls, a.RxCalls, b.Kicks, b.TxCalls, b.RxCalls)
			}
			if diff := cmp.Diff(packets(text), packets(other)); diff != "" {
				t.Errorf("packets by -split +packed rings:\n%s", diff)
			}
		})
	}
	t.Run("without napi", func(t *testing.T) {
		set := []string{"kernel=" + kernel(t, "6.12"), "queue_pairs=2", "release=" + vmtest.ReleaseOrphan, "duration=2ms"}
		split, _ := run(t, scenario(t, set...))
		packed, _ := run(t, scenario(t, append(set, "ring=packed")...))
		if split.Totals.TxCalls != 0 || packed.Totals.TxCalls < packed.Totals.Packets*99/100 {
			t.Errorf("transmit calls: %d by split rings, %d for %d packets by packed ones", split.Totals.TxCalls,
				packed.Totals.TxCalls, packed.Totals.Packets)
		}
	})
}

// packets are the lines of a trace that are packets.
func packets(trace string) (lines []string) {
	for line := range strings.Lines(trace) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}
