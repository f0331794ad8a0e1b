package simguest

import (
	"fmt"
	"time"

	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// groWindow is how long the receiver's GRO waits for the next segment of a
// packet that was cut on the way: about the length of a NAPI poll.
const groWindow = 10 * time.Microsecond

// wireExtra is what every packet takes on an Ethernet wire beside its frame:
// preamble, checksum and gap.
const wireExtra = 24

// cable is the network behind the host: a link each way, and the receivers of
// all flows.
type cable struct {
	w        *world
	out      *link.Link
	back     *link.Link
	wscale   uint8
	cut      bool  // packets always cross the link segment by segment
	queue    int64 // of the link out, bytes; 0: no limit
	ends     []*endpoint
	arriving inbound // on their way to the receivers
	acks     host.Queue
	peer     *peer // the guest that receives, if it is not the sender's; else nil
	free     []*host.Inbound
	spec     frame.TCPSpec
	sacks    [link.MaxSACK]frame.SACKBlock
}

// synSeq marks a SYN among the arrivals: data begins at 1.
const synSeq = 0

// synFrame is the length of a SYN's frame.
const synFrame = 74

// endpoint is the receiver of one flow.
type endpoint struct {
	c     *cable
	k     *conn
	rcv   *link.Receiver
	timer sim.Timer
	due   vtime.Time // reading of the receiving guest's clock that its timer is set to

	// With TopologyVeth:
	tick  timer // the receiver's timers
	ready bool  // on the program's list
	eof   bool  // the program has seen the end

	accepted bool       // the program has accepted the connection
	asked    vtime.Time // when the SYN came
}

func newCable(w *world) (*cable, error) {
	s := &w.s
	c := &cable{w: w, cut: s.Link.Loss > 0 || !s.Receiver.GRO, queue: int64(s.Link.Queue)}
	cfg := link.Config{RateBps: int64(s.Link.Rate), Delay: s.Link.Delay}
	var err error
	if c.back, err = link.New(cfg); err != nil {
		return nil, err
	}
	cfg.QueueBytes, cfg.Loss, cfg.Dice = int64(s.Link.Queue), s.Link.Loss, sim.NewRand(s.Seed, "link loss")
	if c.out, err = link.New(cfg); err != nil {
		return nil, err
	}
	for c.wscale = 0; 65535<<c.wscale < int64(s.Receiver.Rmem) && c.wscale < 14; c.wscale++ {
	}
	c.arriving.timer = w.loop.NewTimer(c, 0)
	c.spec = frame.TCPSpec{SrcMAC: hostMAC, DstMAC: guestMAC, Src: hostAddr[s.IP], Dst: guestAddr[s.IP],
		SrcPort: serverPort, Timestamps: true}
	if w.ce != nil && s.Receiver.Kind == vmtest.ReceiverKernel && w.soft == nil {
		c.peer = newPeer(c)
	}
	for _, k := range w.conns {
		e, err := c.newEndpoint(k)
		if err != nil {
			return nil, err
		}
		c.ends = append(c.ends, e)
	}
	return c, nil
}

// receives reports whether a guest with a kernel of its own receives.
func (c *cable) receives() bool { return c.peer != nil || c.w.soft != nil }

func (c *cable) newEndpoint(k *conn) (*endpoint, error) {
	s := &c.w.s
	kernel := s.Receiver.Kernel
	if kernel == "" {
		kernel = s.Kernel
	}
	var major, minor int
	if _, err := fmt.Sscanf(kernel, "%d.%d", &major, &minor); err != nil {
		return nil, fmt.Errorf("receiver.kernel: %q is not a release such as 6.12", kernel)
	}
	rules, quick := link.RulesOf(major, minor)
	cfg := link.ReceiverConfig{
		ISS: 1, MSS: int32(s.EffectiveMSS()), InitialWindow: c.window(), WindowScale: c.wscale,
		WindowMax: max(uint32(s.Receiver.Rmem/2), c.window()), QuickWindow: quick, Rules: rules,
	}
	if c.receives() {
		cfg.Process = true
		cfg.Buffer = link.BufferConfig{Size: c.buffer(), Measured: c.known() && major*1000+minor >= 6006}
		if c.peer != nil {
			cfg.Buffer.Max = c.largest()
		}
		c.w.deferAck = rules.BacklogDefer
	}
	if (c.cut || c.queue > 0) && s.Receiver.GRO && c.peer == nil {
		cfg.GRO = link.GROConfig{Window: groWindow}
	}
	rcv, err := link.NewReceiver(cfg)
	if err != nil {
		return nil, fmt.Errorf("flow %d: %w", k.id, err)
	}
	e := &endpoint{c: c, k: k, rcv: rcv}
	e.timer = c.w.loop.NewTimer(e, 0)
	if c.w.soft != nil {
		e.tick = c.w.newTimer(e, 0)
	}
	return e, nil
}

// buffer is the receive buffer: the first one if the scenario sets it, and it then
// stays; else the largest, to which it would grow.
func (c *cable) buffer() uint32 {
	if c.known() {
		return uint32(c.w.kernel.Sysctl.Rmem[1])
	}
	return uint32(c.w.s.Receiver.Rmem)
}

// largest is what the receive buffer may grow to.
func (c *cable) largest() uint32 {
	if _, set := c.w.s.Sysctl["tcp_rmem"]; set {
		return uint32(c.w.kernel.Sysctl.Rmem[2])
	}
	return uint32(c.w.s.Receiver.Rmem)
}

// known reports whether the scenario says what the receive buffer is at first. Where
// it does not, the buffer is assumed to bound nothing, so that the window is not
// made from it either.
func (c *cable) known() bool {
	_, set := c.w.s.Sysctl["tcp_rmem"]
	return set || c.w.soft != nil || c.peer != nil
}

// window is what the receiver offers at first: half its first buffer in whole
// segments, as far as 16 bits go (tcp_select_initial_window, v6.1).
func (c *cable) window() uint32 {
	mss := uint32(c.w.s.EffectiveMSS())
	half := uint32(min(c.w.kernel.Sysctl.Rmem[1]/2, 1<<30))
	return min(max(half/mss, 1)*mss, 65535)
}

// received is the payload that the flow's program read.
func (c *cable) received(k *conn) int64 { return int64(c.ends[k.id].rcv.Stats.Bytes) }

var _ host.Owner = (*world)(nil)

// Taken finds out whose packet the worker took off the device.
func (w *world) Taken(now vtime.Time, pair int, o *host.Outgoing, _ *virtio.NetHdr, iov [][]byte) {
	o.Rule = w.rec.rule(pair)
	if o.Info.Layer != frame.LayerL4 || o.Info.Proto != frame.ProtoTCP {
		return
	}
	if id := int(o.Info.SrcPort) - basePort; id >= 0 && id < len(w.conns) {
		o.Flow = int32(id)
	}
	if w.cable.peer != nil {
		var opt frame.Options
		frame.ParseOptions(frame.TCP(iov[0][o.Info.L4:]).Options(), &opt)
		o.TSEcr = opt.TSEcr
	}
	w.rec.taken(now, o)
}

// Sent puts a packet that the worker has finished on the link.
func (w *world) Sent(now vtime.Time, _ int, o *host.Outgoing) {
	w.rec.sent(now, o)
	switch {
	case o.Flow < 0:
	case o.Info.Flags&skb.SYN != 0 || o.Payload() > 0 || o.Info.Flags&skb.FIN != 0 || w.cable.peer != nil:
		w.cable.send(now, o)
	}
}

// Broken keeps the error of a queue, which should never have one.
func (w *world) Broken(err error) { w.broken(err) }

func (c *cable) send(now vtime.Time, o *host.Outgoing) {
	if o.Info.Flags&skb.SYN != 0 {
		c.cross(now, o.Flow, &link.Segment{Seq: synSeq}, int64(o.Info.Payload)+wireExtra)
		return
	}
	n, header := o.Payload(), int64(o.Info.Payload)
	if o.GSO == 0 || n <= int(o.GSO) {
		if _, at, fate := c.out.Send(now, int64(n)+header+wireExtra); fate == link.Arrives {
			segment(c.arriving.push(at, o.Flow), now, o)
		}
		return
	}
	var s link.Segment
	segment(&s, now, o)
	s.MSS = o.GSO
	segs := int64((s.Len + s.MSS - 1) / s.MSS)
	if bytes := link.WireBytes(int64(n), segs, header, wireExtra); c.whole(now, bytes) {
		c.cross(now, o.Flow, &s, bytes)
		return
	}
	c.crossCut(now, o, s, header)
}

// segment fills s in from a packet that leaves now, as one segment.
func segment(s *link.Segment, now vtime.Time, o *host.Outgoing) {
	flags := o.Info.Flags
	*s = link.Segment{
		Seq: uint32(o.Info.Seq), Len: int32(o.Payload()), TSVal: tsMillis(now), TSEcr: o.TSEcr,
		PSH: flags&skb.PSH != 0, FIN: flags&skb.FIN != 0, CWR: flags&skb.CWR != 0,
	}
}

// whole reports whether a packet may cross in one piece: nothing of it is lost,
// and the receiver's GRO makes it whole again.
func (c *cable) whole(now vtime.Time, bytes int64) bool {
	if c.cut || c.queue == 0 {
		return !c.cut
	}
	backlog, _ := c.out.Backlog(now)
	return backlog+bytes <= c.queue
}

// crossCut sends the segments of a packet one by one; PSH and FIN are the last
// one's.
func (c *cable) crossCut(now vtime.Time, o *host.Outgoing, whole link.Segment, header int64) {
	for off := int32(0); off < whole.Len; off += whole.MSS {
		s := whole
		s.MSS, s.Seq, s.Len = 0, whole.Seq+uint32(off), min(whole.MSS, whole.Len-off)
		if last := off+whole.MSS >= whole.Len; !last {
			s.PSH, s.FIN = false, false
		}
		c.cross(now, o.Flow, &s, int64(s.Len)+header+wireExtra)
	}
}

func (c *cable) cross(now vtime.Time, flow int32, s *link.Segment, bytes int64) {
	if _, at, fate := c.out.Send(now, bytes); fate == link.Arrives {
		*c.arriving.push(at, flow) = *s
	}
}

// Run is the arrival of packets at the receivers, or of ACKs at the host.
func (c *cable) Run(now vtime.Time, arg uint64) {
	if arg == 0 {
		c.arrivals(now)
		return
	}
	a := c.acks.Pop()
	pair := c.w.dev.SteerRX(c.w.conns[a.Flow].hash)
	c.w.workers[pair].Arrive(now, a)
}

// arrivals gives the packets that arrive now to their receivers, and those that
// arrive later and before anything else happens.
func (c *cable) arrivals(now vtime.Time) {
	for c.arriving.n > 0 {
		a := c.arriving.peek()
		if a.at > now {
			if c.peer != nil || !c.w.loop.Pass(a.at) {
				break
			}
			now = a.at
		}
		c.arriving.pop()
		e := c.ends[a.flow]
		switch {
		case a.seg.Seq == synSeq && a.seg.Len == 0:
			if c.peer != nil {
				c.peer.buffers.take(synFrame)
				e.asked = c.reading(now)
			}
			c.accept(now, e.k)
		case c.peer != nil:
			c.peer.arrive(now, a)
		case e.take(now, &a.seg):
			return
		}
	}
	c.arriving.rearm()
	if c.peer != nil {
		c.peer.next(now)
	}
}

// take gives a packet to the receiver. If it is the last of this time, the
// receiver has more to do at this time, such as the read of a program that was
// waiting, and no event could come between, it does that here, after what the
// cable does at the end of its event, and returns true.
func (e *endpoint) take(now vtime.Time, s *link.Segment) (done bool) {
	c := e.c
	if e.rcv.Receive(now, s) {
		return false // nothing to send, and its timer is set
	}
	e.answer(now)
	last := c.arriving.n == 0 || c.arriving.peek().at > now
	if !last || e.rcv.Next() > now || c.w.soft != nil || !c.w.loop.Alone() {
		e.arm()
		return false
	}
	c.arriving.rearm()
	e.timer.Stop()
	e.expire(now)
	return true
}

// Run is the receiver's timer.
func (e *endpoint) Run(now vtime.Time, _ uint64) {
	if s := e.c.w.soft; s != nil {
		s.later(e)
		return
	}
	e.expire(now)
}

func (e *endpoint) expire(now vtime.Time) {
	e.rcv.Step(e.c.reading(now))
	e.drain(now)
}

// drain sends what the receiver acknowledges on its way back, and sets its timer.
func (e *endpoint) drain(now vtime.Time) {
	e.answer(now)
	e.arm()
}

func (e *endpoint) answer(now vtime.Time) {
	var a link.Ack
	for e.rcv.Pop(&a) {
		e.c.answer(now, e.k, &a)
	}
	e.arrived(now)
}

func (e *endpoint) arm() {
	if e.c.w.soft != nil {
		e.tick.Set(e.rcv.Next())
		return
	}
	next := e.rcv.Next()
	if e.c.peer != nil {
		if e.timer.Armed() && e.due == next {
			return // it is not programmed anew
		}
		e.due = next
		next = e.c.w.cost.cpu.Expiry(e.c.w.loop.Now(), next)
	}
	e.timer.Set(next)
}

// reading is what the clock of a guest that receives shows.
func (c *cable) reading(now vtime.Time) vtime.Time {
	if c.peer == nil {
		return now
	}
	return c.w.cost.cpu.Reading(now)
}

// answer builds an ACK's headers and sends it back.
func (c *cable) answer(now vtime.Time, k *conn, a *link.Ack) {
	f := &c.spec
	f.DstPort, f.Seq, f.Ack, f.Flags = k.data.SrcPort, frame.Seq(1+k.ask.answers), frame.Seq(a.Ack), skb.ACK
	if a.ECE {
		f.Flags |= skb.ECE
	}
	f.Window, f.TSVal, f.TSEcr = uint16(a.Wnd>>c.wscale), a.TSVal, a.TSEcr
	for i := range a.NSacks {
		c.sacks[i] = frame.SACKBlock{Start: frame.Seq(a.Sacks[i].Start), End: frame.Seq(a.Sacks[i].End)}
	}
	f.SACK = c.sacks[:a.NSacks]
	c.w.lower.answer(now, k, a.Ack, f)
}

// Delivered is an ACK that the device has delivered.
func (w *world) Delivered(now vtime.Time, a *host.Inbound) {
	w.rec.ack(now, a)
	w.cable.put(a)
}

// take returns a packet for the guest, put takes it back.
func (c *cable) take() *host.Inbound {
	if len(c.free) == 0 {
		return &host.Inbound{}
	}
	p := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	return p
}

func (c *cable) put(p *host.Inbound) { c.free = append(c.free, p) }
