package simguest

import (
	"slices"

	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// peer is the one CPU of the guest that receives all flows. Its work is free,
// but each read of a socket reads the clock once (tcp_rcv_space_adjust in
// tcp_recvmsg, v6.1 and v6.12), in process context, and what arrives meanwhile
// is taken in at the end of that.
type peer struct {
	c     *cable
	timer sim.Timer

	reading *endpoint // whose socket the program reads; nil if it waits
	step    uint8
	taken   bool      // the read copied something
	waiting []arrival // came during the read
	buffers *rxBuffers
	ready   []*endpoint // have something to read, in the order in which it came
}

// headerBytes is the headers of a packet over IPv4 with a timestamp.
const headerBytes = 14 + 20 + 32

func newPeer(c *cable) *peer {
	p := &peer{c: c, buffers: newRxBuffers(framesBefore(c.w.s.Kernel))}
	p.timer = c.w.loop.NewTimer(p, 0)
	return p
}

// arrive is a packet at the peer's device.
func (p *peer) arrive(now vtime.Time, a *arrival) {
	if p.reading != nil {
		p.waiting = append(p.waiting, *a)
		return
	}
	p.input(now, a)
}

// input is the softirq: acknowledgement, and the program may read.
func (p *peer) input(now vtime.Time, a *arrival) {
	e, at := p.c.ends[a.flow], p.c.reading(now)
	if a.seg.Len == 0 && !a.seg.FIN { // the handshake's last packet
		p.buffers.take(headerBytes)
		e.rcv.Established(at)
		e.rcv.SetRTT(at.Sub(e.asked))
		return
	}
	a.seg.TrueSize, a.seg.Frags = p.buffers.take(a.seg.Len + headerBytes)
	if a.seg.Frags > 0 {
		a.seg.HeadSize = headSize
	}
	e.rcv.Receive(at, &a.seg)
	e.drain(now)
	p.note(e)
}

// note puts an endpoint that can be read on the list once.
func (p *peer) note(e *endpoint) {
	if e == p.reading || e.eof || !e.rcv.Readable() {
		return
	}
	if slices.Contains(p.ready, e) {
		return
	}
	p.ready = append(p.ready, e)
}

// next begins the program's next read, or lets it wait.
func (p *peer) next(now vtime.Time) {
	for p.reading == nil && len(p.ready) > 0 {
		e := p.ready[0]
		p.ready = p.ready[:copy(p.ready, p.ready[1:])]
		if !e.rcv.Readable() {
			continue
		}
		p.reading, p.step, p.taken = e, stepTake, false
		e.rcv.Lock()
		p.goOn(now)
	}
}

// Steps of a read.
const (
	stepTake    = iota // a packet was copied, and the clock is being read
	stepBacklog        // a packet of the backlog is being taken in
	stepRelease        // the same, at the end of the read
)

// Run is the end of a clock read.
func (p *peer) Run(now vtime.Time, _ uint64) {
	p.take(now, false)
	switch r := p.reading.rcv; p.step {
	case stepTake:
		r.Eat(p.c.reading(now))
		p.taken = true
	default:
		r.Backlog(p.c.reading(now))
		p.reading.drain(now)
	}
	p.goOn(now)
	if p.next(now); p.reading == nil && len(p.waiting) > 0 {
		p.take(now, true)
		p.next(now)
	}
}

// goOn does what a read does until it reads the clock the next time, or ends
// (tcp_recvmsg, v6.1 and v6.12).
func (p *peer) goOn(now vtime.Time) {
	e := p.reading
	r := e.rcv
	if p.step == stepTake {
		if r.Take() {
			p.readClock(now)
			return
		}
		r.CleanUp(p.c.reading(now))
		e.drain(now)
		p.step = stepRelease
	}
	if r.Backlogged() {
		p.readClock(now)
		return
	}
	r.Callback(p.c.reading(now))
	e.drain(now)
	r.Unlock()
	p.reading, e.eof = nil, e.eof || !p.taken
	p.note(e)
}

func (p *peer) readClock(now vtime.Time) {
	p.timer.Set(now.Add(p.c.w.cost.cpu.Cost(vcpu.OpClockRead, 1)))
}

// take lets in what waits. What came at just the end of a clock read is not
// seen before the guest waits again, as in processor.interrupt.
func (p *peer) take(now vtime.Time, all bool) {
	n := 0
	for n < len(p.waiting) && (all || p.waiting[n].at < now) {
		p.input(now, &p.waiting[n])
		n++
	}
	p.waiting = p.waiting[:copy(p.waiting, p.waiting[n:])]
}
