// Package sink is the host's side of a net device that throws away what the
// guest sends, and remembers how much it was. It is without file descriptors,
// clock, goroutines and locks.
package sink

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Port discards frames. It is a netdev.Port and a vhost.Port. The zero value is
// ready to use and takes everything. It is not safe for concurrent use.
type Port struct {
	// Sizes, if it has room left, gets the length in bytes of each frame.
	Sizes []int
	// Limit is how many frames may be taken between two calls of Drain before
	// Send answers Full; 0 is no limit.
	Limit int
	// Copy makes Send read every byte of a frame, into memory of the port, as a
	// wire would.
	Copy bool

	stats Stats
	wire  []byte
	since int // frames since Drain
	acked virtio.Features
	on    bool
}

// Stats counts what a port took.
type Stats struct {
	Frames  int64 // frames
	Bytes   int64 // their bytes, without the net header
	GSO     int64 // frames of them that are to be segmented
	Largest int64 // bytes of the longest
	Flushes int64 // ends of a batch
	Full    int64 // frames that were refused
}

// Stats returns the counters.
func (p *Port) Stats() Stats { return p.stats }

// Drain makes room for Limit further frames.
func (p *Port) Drain() { p.since = 0 }

// Send counts a frame; its buffers are free at now.
func (p *Port) Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, _ netdev.Token) (vtime.Time, netdev.SendResult) {
	if p.Limit > 0 && p.since >= p.Limit {
		p.stats.Full++
		return now, netdev.Full
	}
	p.since++
	n := netdev.FrameLen(iov)
	if p.Copy {
		p.copy(n, iov)
	}
	p.stats.Frames++
	p.stats.Bytes += int64(n)
	p.stats.Largest = max(p.stats.Largest, int64(n))
	if h.GSOType != virtio.GSONone {
		p.stats.GSO++
	}
	if len(p.Sizes) < cap(p.Sizes) {
		p.Sizes = append(p.Sizes, n)
	}
	return now, netdev.Sent
}

// copy copies a frame of n bytes.
func (p *Port) copy(n int, iov [][]byte) {
	if len(p.wire) < n {
		p.wire = make([]byte, n)
	}
	w := p.wire
	for _, b := range iov {
		w = w[copy(w, b):]
	}
}

// Flush counts the end of a batch.
func (p *Port) Flush(vtime.Time) { p.stats.Flushes++ }

// Negotiated remembers the features; a sink needs none.
func (p *Port) Negotiated(acked virtio.Features) error {
	p.acked = acked
	return nil
}

// Acked is what Negotiated was last told.
func (p *Port) Acked() virtio.Features { return p.acked }

// Enable remembers whether the guest can receive.
func (p *Port) Enable(on bool) error {
	p.on = on
	return nil
}

// Enabled is what Enable was last told.
func (p *Port) Enabled() bool { return p.on }

// RxFD is -1: a sink never has frames for the guest.
func (p *Port) RxFD() int { return -1 }

// TxFD is -1: there is nothing to wait for.
func (p *Port) TxFD() int { return -1 }

// Receive has nothing.
func (p *Port) Receive(vtime.Time, *netdev.RX, int) (int, bool, error) { return 0, false, nil }

// Err is always nil.
func (p *Port) Err() error { return nil }

// Close does nothing.
func (p *Port) Close() error { return nil }
