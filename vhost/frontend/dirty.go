package frontend

import (
	"math/bits"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
)

// PageSize is the number of bytes of guest memory that a bit of a dirty log is
// for.
const PageSize = 4096

// DirtyLog is the log of guest memory that the back-end has written.
type DirtyLog struct {
	fd   int
	mem  *osio.Mapping
	size uint64
}

// NewDirtyLog makes an empty log for guest memory up to the address top.
func NewDirtyLog(top uint64) (*DirtyLog, error) {
	size := (top/PageSize/8 + 4096) &^ 4095
	fd, err := osio.Memfd("guest dirty log", int64(size))
	if err != nil {
		return nil, err
	}
	m, err := osio.Map(fd, 0, size)
	if err != nil {
		osio.Close(fd)
		return nil, err
	}
	return &DirtyLog{fd: fd, mem: m, size: size}, nil
}

// Close lets the log go.
func (l *DirtyLog) Close() {
	_ = l.mem.Unmap()
	osio.Close(l.fd)
}

// Pages returns the guest physical addresses of the pages in the log, ascending.
func (l *DirtyLog) Pages() (pages []uint64) {
	for i, b := range l.mem.Bytes() {
		for ; b != 0; b &= b - 1 {
			pages = append(pages, (uint64(i)*8+uint64(bits.TrailingZeros8(b)))*PageSize)
		}
	}
	return pages
}

// Clear empties the log.
func (l *DirtyLog) Clear() { clear(l.mem.Bytes()) }

// ShareLog hands a log over and waits for the answer.
func (g *Guest) ShareLog(l *DirtyLog) error {
	_, err := g.Ask(wire.SetLogBase, wire.LogArea{Size: l.size}, l.fd)
	return err
}

// SwitchLog begins or ends logging, in QEMU's order: the features, then every
// ring's address with or without the flag.
func (g *Guest) SwitchLog(on bool) error {
	f := g.Features | wire.FeatureProtocol
	if on {
		f |= wire.FeatureLogAll
	}
	if err := g.Tell(wire.SetFeatures, wire.U64(f)); err != nil {
		return err
	}
	for _, r := range g.Rings {
		a := r.Addr()
		if on {
			a.Flags, a.Log = 1, r.Config.Used
		}
		if err := g.Tell(wire.SetVringAddr, a); err != nil {
			return err
		}
	}
	return nil
}
