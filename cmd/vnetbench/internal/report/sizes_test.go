package report

import (
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
)

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		runs []vmtest.SizeRun
		want string
		ok   bool
	}{
		{[]vmtest.SizeRun{{Lens: []int{172032, 8192}, Times: 95}}, "172032 8192, 95 times over", true},
		{[]vmtest.SizeRun{{Lens: []int{20480, 28672}, Times: 1}, {Lens: []int{172032}, Times: 99}}, "172032, 99 times", true},
		{[]vmtest.SizeRun{{Lens: []int{1448, 1200, 776}, Times: 1}, {Lens: []int{1448}, Times: 4}}, "1448, 4 times", false},
		{nil, "", false},
	} {
		if got, ok := pattern(c.runs); got != c.want || ok != c.ok {
			t.Errorf("pattern(%v) = %q, %v, want %q, %v", c.runs, got, ok, c.want, c.ok)
		}
	}
}
