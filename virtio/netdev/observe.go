package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Point is one of the two sides of the device at which an Observer sees frames.
type Point uint8

// The sides of the device.
const (
	// AtGuest: a frame as the guest gave it, with the header that the guest
	// wrote, or as the guest gets it.
	AtGuest Point = iota
	// AtPort: a frame as the port was given it and took it, or as the port
	// delivered it.
	AtPort
)

// String returns "guest" or "port".
func (p Point) String() string { return [...]string{"guest", "port"}[min(p, AtPort)] }

// Sighting says where and when a frame was seen.
type Sighting struct {
	Time vtime.Time // of a frame that a port committed, of the queue's last Poll
	At   Point
	Dir  Dir // DirTX or DirRX, as the guest sees it
	Pair int
}

// Observer sees every frame on both sides of the device. Frame is called on the
// threads of the pairs' owners, several at once. Neither h nor what iov names may
// be kept or changed; the frame is the first n bytes of iov. Frames that the
// device drops are not seen on the side that they do not reach; what the guest
// sends and the device refuses is not seen at all. A device with an observer
// takes each frame by itself and is slower.
type Observer interface {
	Frame(s Sighting, h *virtio.NetHdr, iov [][]byte, n int)
}

// watchedPort is a port in front of an Observer.
type watchedPort struct {
	Port
	to   Observer
	pair int
}

// Send gives the frame to the port, and tells the observer if it was taken.
func (p *watchedPort) Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, tok Token) (vtime.Time, SendResult) {
	done, r := p.Port.Send(now, h, iov, tok)
	if r != Full {
		p.to.Frame(Sighting{now, AtPort, DirTX, p.pair}, h, iov, FrameLen(iov))
	}
	return done, r
}

// watched returns the port that the transmit queue of a pair uses.
func (d *Device) watched(p Port, pair int) Port {
	if p == nil || d.cfg.Observer == nil {
		return p
	}
	return &watchedPort{p, d.cfg.Observer, pair}
}

// saw tells the observer, if there is one, of the guest's frame in t.view.
func (t *TX) saw(now vtime.Time) {
	if t.observed {
		t.tell(now)
	}
}

func (t *TX) tell(now vtime.Time) {
	o := t.pair.dev.cfg.Observer
	o.Frame(Sighting{now, AtGuest, DirTX, t.pair.index}, &t.view.raw, t.view.iov, t.view.len)
}

// saw tells the observer, if there is one, of the frame in r.view.
func (r *RX) saw(at Point) {
	if o := r.pair.dev.cfg.Observer; o != nil {
		o.Frame(Sighting{r.clock, at, DirRX, r.pair.index}, &r.view.hdr, r.view.iov, r.view.len)
	}
}
