package umlguest

import (
	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// wireExtra is what every packet takes on an Ethernet wire beside its frame:
// preamble, checksum and gap.
const wireExtra = 24

// lane is one direction of the link between guests: it carries whole frames.
type lane struct {
	link   *link.Link
	cut    bool  // packets always cross segment by segment
	limit  int64 // of the link's queue, bytes; 0: none
	queue  host.Queue
	timer  sim.Timer
	arrive func(now vtime.Time, a *host.Inbound)
	free   []*host.Inbound
	cutter frame.Segmenter
}

// newLanes returns the directions to the receiving guests and back.
func newLanes(s *vmtest.Scenario, loop *sim.Loop) (out, back *lane, err error) {
	cfg := link.Config{RateBps: int64(s.Link.Rate), Delay: s.Link.Delay}
	back = &lane{}
	if back.link, err = link.New(cfg); err != nil {
		return nil, nil, err
	}
	cfg.QueueBytes, cfg.Loss, cfg.Dice = int64(s.Link.Queue), s.Link.Loss, sim.NewRand(s.Seed, "link loss")
	out = &lane{cut: s.Link.Loss > 0 || !s.Receiver.GRO, limit: int64(s.Link.Queue)}
	if out.link, err = link.New(cfg); err != nil {
		return nil, nil, err
	}
	out.timer, back.timer = loop.NewTimer(out, 0), loop.NewTimer(back, 0)
	return out, back, nil
}

// take returns a packet to be filled, put takes it back when it is delivered.
func (x *lane) take() *host.Inbound {
	if len(x.free) == 0 {
		return &host.Inbound{}
	}
	a := x.free[len(x.free)-1]
	x.free = x.free[:len(x.free)-1]
	return a
}

func (x *lane) put(a *host.Inbound) { x.free = append(x.free, a) }

// send puts a packet on the link, whole or in segments.
func (x *lane) send(now vtime.Time, a *host.Inbound, o *host.Outgoing) {
	segs := int64(1)
	if o.GSO > 0 {
		segs = int64((int32(o.Payload()) + o.GSO - 1) / o.GSO)
	}
	bytes := int64(o.Len) + (segs-1)*int64(o.Info.Payload) + segs*wireExtra
	if segs <= 1 || x.whole(now, bytes) {
		x.cross(now, a, bytes)
		return
	}
	if err := x.cutter.Reset(a.Big, &o.Info, int(o.GSO)); err != nil {
		x.put(a)
		return
	}
	for {
		p := x.take()
		p.Hdr = virtio.NetHdr{Flags: virtio.HdrDataValid}
		p.Flow, p.Big = a.Flow, room(p.Big, o.Info.Payload+int(o.GSO))
		n, err := x.cutter.Next(p.Big)
		if n == 0 || err != nil {
			x.put(p)
			break
		}
		p.Big = p.Big[:n]
		x.cross(now, p, int64(n)+wireExtra)
	}
	x.put(a)
}

// whole reports whether a packet may cross in one piece, since nothing of it is
// lost: the receiver's GRO would make it whole again.
func (x *lane) whole(now vtime.Time, bytes int64) bool {
	if x.cut || x.limit == 0 {
		return !x.cut
	}
	backlog, _ := x.link.Backlog(now)
	return backlog+bytes <= x.limit
}

// room returns n bytes, those of b if it has as many.
func room(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

func (x *lane) cross(now vtime.Time, a *host.Inbound, bytes int64) {
	_, at, fate := x.link.Send(now, bytes)
	if fate != link.Arrives {
		x.put(a)
		return
	}
	a.At = at
	if x.queue.Peek() == nil {
		x.timer.Set(at)
	}
	x.queue.Push(a)
}

// Run is the arrival of packets at the other end.
func (x *lane) Run(now vtime.Time, _ uint64) {
	for a := x.queue.Peek(); a != nil && a.At <= now; a = x.queue.Peek() {
		x.arrive(now, x.queue.Pop())
	}
	if a := x.queue.Peek(); a != nil {
		x.timer.Set(a.At)
	}
}

// keep copies the frame that a worker has taken.
func (x *lane) keep(o *host.Outgoing, h *virtio.NetHdr, iov [][]byte) *host.Inbound {
	a := x.take()
	a.Hdr, a.Flow = *h, o.Flow
	a.Big = room(a.Big, o.Len)
	gather(a.Big, iov)
	return a
}
