package qdisc_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// TestTBFOfARealKernel lets packets leave a tbf at the times at which they left a
// real one. Each may leave then; and from the tenth on, which waited for tokens,
// the watchdog is never set for later, nor for more than the timer's lateness
// earlier.
func TestTBFOfARealKernel(t *testing.T) {
	text, err := os.ReadFile("testdata/real/tbf_6.1.txt")
	if err != nil {
		t.Fatal(err)
	}
	const late = 512
	e := newEgress(t, mustParse(t, "tbf:rate=200M,burst=71680,limit=20971520"))
	n, last := 0, vtime.Time(0)
	for line := range strings.Lines(string(text)) {
		var at vtime.Time
		var bytes int
		if _, err := fmt.Sscan(line, &at, &bytes); err != nil {
			continue // a remark
		}
		n++
		e.add(last, pkt{len: bytes, segs: (bytes + 1447) / 1448})
		if n >= 10 {
			if e.drain(last); len(e.left) != n-1 {
				t.Fatalf("packet %d leaves at %d, with the one before", n, last)
			}
			if next := e.d.Next(); next > at || next <= at-late {
				t.Fatalf("packet %d is due at %d and left a real kernel at %d", n, next, at)
			}
		}
		if e.drain(at); len(e.left) != n {
			t.Fatalf("packet %d of %d bytes does not leave at %d", n, bytes, at)
		}
		last = at
	}
	if n != 150 {
		t.Errorf("%d packets, want 150", n)
	}
}
