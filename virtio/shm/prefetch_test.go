package shm_test

import (
	"slices"
	"testing"

	"github.com/vnetbench/vnetbench/virtio/shm"
)

// A prefetch changes nothing, whatever the buffers are: empty, at the end of an
// allocation, or nil.
func TestPrefetchIsHarmless(t *testing.T) {
	page := make([]byte, 4096)
	for i := range page {
		page[i] = byte(i)
	}
	was := slices.Clone(page)
	bufs := [][]byte{page, page[4095:], page[4096:], nil, {}}
	for n := range len(bufs) + 1 {
		shm.WillRead(bufs[:n])
		shm.WillWrite(bufs[:n])
	}
	if !slices.Equal(page, was) {
		t.Error("memory changed")
	}
	if n := testing.AllocsPerRun(10, func() { shm.WillRead(bufs); shm.WillWrite(bufs) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
