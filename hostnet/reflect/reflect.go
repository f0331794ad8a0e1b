// Package reflect is the host's side of a net device that sends every frame back
// to the guest that sent it, with the two station addresses exchanged. It is
// without clock, goroutines and locks; its two descriptors are eventfds.
package reflect

import (
	"math"

	"github.com/vnetbench/vnetbench/hostnet/internal/fifo"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// DefaultRoom is how many bytes of frames a port holds at most.
const DefaultRoom = 1 << 20

// Port keeps what the guest sends until the guest's receive queue takes it. When
// it has no room it answers Full, so that no frame is lost. It is a netdev.Port
// and a vhost.Port. It is not safe for concurrent use.
type Port struct {
	frames *fifo.Queue

	ready  int  // eventfd, readable while frames wait
	room   int  // eventfd, not writable while the guest waits for room
	full   bool // room is not writable
	signal bool // ready is readable
	gone   bool // the guest does not receive: what it sends is dropped
	out    []byte
	stats  Stats
	fault  error
}

// Stats counts what a port did.
type Stats struct {
	Taken    int64 // frames that the guest sent
	Returned int64 // frames that the guest's receive queue took, delivered or not
	Full     int64 // frames that were refused for want of room
	Lost     int64 // frames that were dropped since the guest does not receive
}

// New makes a port. The error is that of eventfd2.
func New() (*Port, error) {
	ready, err := osio.Eventfd(0)
	if err != nil {
		return nil, err
	}
	room, err := osio.Eventfd(0)
	if err != nil {
		osio.Close(ready)
		return nil, err
	}
	return &Port{frames: fifo.New(DefaultRoom), ready: ready, room: room, gone: true}, nil
}

// Stats returns the counters.
func (p *Port) Stats() Stats { return p.stats }

// Send copies a frame; its buffers are free at now.
func (p *Port) Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, _ netdev.Token) (vtime.Time, netdev.SendResult) {
	n := netdev.FrameLen(iov)
	switch {
	case p.gone || !p.frames.Ever(n):
		p.stats.Lost++
		return now, netdev.Sent
	case !p.frames.Fits(n):
		p.stats.Full++
		p.block()
		return now, netdev.Full
	}
	p.frames.Put(h, iov, n)
	p.stats.Taken++
	return now, netdev.Sent
}

// Flush makes the port readable if frames wait.
func (p *Port) Flush(vtime.Time) {
	if p.frames.Len() > 0 && !p.signal {
		p.signal = true
		p.keep(osio.WriteEvent(p.ready))
	}
}

// Receive gives waiting frames to the guest, at most budget of them.
func (p *Port) Receive(now vtime.Time, rx *netdev.RX, budget int) (n int, more bool, err error) {
	var h virtio.NetHdr
	for ; n < budget && p.frames.Len() > 0 && rx.Waiting() == 0; n++ {
		f := p.frames.Pop(&h, &p.out)
		var src frame.MAC
		copy(src[:], f[6:])
		copy(f[6:], f[:6])
		copy(f, src[:])
		rx.Deliver(now, &h, f)
		p.stats.Returned++
	}
	p.unblock()
	if p.frames.Len() == 0 {
		p.quiet()
	}
	return n, p.frames.Len() > 0, p.fault
}

// block makes room unwritable: the count of an eventfd stands at its largest.
func (p *Port) block() {
	if !p.full {
		p.full = true
		p.keep(osio.AddEvent(p.room, math.MaxUint64-1))
	}
}

// unblock makes room writable once half of the buffer is free.
func (p *Port) unblock() {
	if p.full && p.frames.Used() <= p.frames.Cap()/2 {
		p.full = false
		p.clear(p.room)
	}
}

// quiet makes ready unreadable.
func (p *Port) quiet() {
	if p.signal {
		p.signal = false
		p.clear(p.ready)
	}
}

func (p *Port) clear(fd int) {
	var buf [8]byte
	_, err := osio.ReadEvent(fd, &buf)
	p.keep(err)
}

// keep remembers the first error.
func (p *Port) keep(err error) {
	if err != nil && p.fault == nil {
		p.fault = err
	}
}

// Negotiated clears the error of an earlier session. What the guest may not
// receive the device completes or segments itself.
func (p *Port) Negotiated(virtio.Features) error {
	p.fault = nil
	return nil
}

// Enable says whether the guest receives. Frames that wait for one that does not
// are lost, so that it can go on sending.
func (p *Port) Enable(on bool) error {
	p.gone = !on
	if p.gone {
		p.stats.Lost += int64(p.frames.Clear())
		p.unblock()
		p.quiet()
	}
	return p.fault
}

// RxFD is readable while frames wait.
func (p *Port) RxFD() int { return p.ready }

// TxFD is writable unless a frame was refused and there is no room yet.
func (p *Port) TxFD() int { return p.room }

// Err is the first error of an eventfd.
func (p *Port) Err() error { return p.fault }

// Close closes the descriptors.
func (p *Port) Close() error {
	osio.Close(p.ready)
	osio.Close(p.room)
	return nil
}
