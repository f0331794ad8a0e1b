package main

import (
	"fmt"
	"net"

	"github.com/safchain/ethtool"
)

// resizeEvery is after how many bytes the rings get another size.
const resizeEvery = 64 << 10

// sizes are those that the rings get in turn; none is the one they have.
var sizes = []uint32{64, 128}

// resizer changes the sizes of the device's rings while the connection uses them,
// as `ethtool -G` does.
type resizer struct {
	tool *ethtool.Ethtool
	name string
	left int // bytes until then

	resized, refused int
	err              error // of the last time
}

func newResizer() (*resizer, error) {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return nil, err
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return &resizer{tool: tool, name: i.Name, left: resizeEvery}, nil
		}
	}
	return nil, fmt.Errorf("no interface among %v", all)
}

// passed notes that n bytes were sent back.
func (r *resizer) passed(n int) error {
	if r.left -= n; r.left > 0 {
		return nil
	}
	r.left = resizeEvery
	size := sizes[(r.resized+r.refused)%len(sizes)]
	ring, err := r.tool.GetRing(r.name)
	if err != nil {
		return fmt.Errorf("rings of %s: %w", r.name, err)
	}
	ring.RxPending, ring.TxPending = size, size
	if _, r.err = r.tool.SetRing(r.name, ring); r.err != nil {
		r.refused++
		return nil
	}
	r.resized++
	if ring, err = r.tool.GetRing(r.name); err == nil && (ring.RxPending != size || ring.TxPending != size) {
		err = fmt.Errorf("rings of %s have %d and %d entries, want %d", r.name, ring.RxPending, ring.TxPending, size)
	}
	return err
}

// String is what became of it.
func (r *resizer) String() string {
	return fmt.Sprintf("rings resized %d times, refused %d times, last %v", r.resized, r.refused, r.err)
}
