package host

import (
	"fmt"
	"time"

	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
)

// groWindow is how long the receiver's GRO waits for the next segment of a
// packet that was cut on the way: about the length of a NAPI poll.
const groWindow = 10 * time.Microsecond

// wireExtra is what every packet takes on an Ethernet wire beside its frame:
// preamble, checksum and gap.
const wireExtra = 24

// Flow is what the network knows of a connection of the guest's.
type Flow struct {
	Port uint16 // the guest's

	// Request is the bytes of a request, each of which is answered by one byte; 0
	// for a flow that asks nothing.
	Request int64
}

// Ends is the composer's side of a Network.
type Ends interface {
	// Answer takes a packet of a receiver, with the headers f, on its way to the
	// guest; a composer that has nothing else to do with it calls Return.
	Answer(now vtime.Time, flow int, ack uint32, f *frame.TCPSpec)
	// Arrive is a packet that has come back to the host.
	Arrive(now vtime.Time, a *Inbound)
}

// Config describes a Network.
type Config struct {
	Scenario *vmtest.Scenario
	Loop     *sim.Loop
	Ends     Ends
	Flows    []Flow
	Rmem     int64         // the receivers' first buffer in bytes (tcp_rmem[1])
	Headers  frame.TCPSpec // what all packets of the receivers have in common
}

// Network is what lies behind the host: a link each way, and the receivers of
// all flows.
type Network struct {
	cfg      Config
	s        *vmtest.Scenario
	out      *link.Link
	back     *link.Link
	wscale   uint8
	cut      bool  // packets always cross the link segment by segment
	queue    int64 // of the link out, bytes; 0: no limit
	ends     []*endpoint
	arriving arrivals // on their way to the receivers
	acks     Queue
	free     *Inbound
	sacks    [link.MaxSACK]frame.SACKBlock
}

// synSeq marks a SYN among the arrivals: data begins at 1.
const synSeq = 0

// endpoint is the receiver of one flow.
type endpoint struct {
	c     *Network
	flow  int
	rcv   *link.Receiver
	timer sim.Timer

	answers uint32 // bytes that the receiver's program has sent
}

// NewNetwork returns an idle network.
func NewNetwork(n Config) (*Network, error) {
	s := n.Scenario
	c := &Network{cfg: n, s: s, cut: s.Link.Loss > 0 || !s.Receiver.GRO, queue: int64(s.Link.Queue)}
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
	c.arriving.timer = n.Loop.NewTimer(c, 0)
	for i := range n.Flows {
		e, err := c.newEndpoint(i)
		if err != nil {
			return nil, err
		}
		c.ends = append(c.ends, e)
	}
	return c, nil
}

// WindowScale is the shift that the receivers announce.
func (c *Network) WindowScale() uint8 { return c.wscale }

func (c *Network) newEndpoint(flow int) (*endpoint, error) {
	s := c.s
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
	if (c.cut || c.queue > 0) && s.Receiver.GRO {
		cfg.GRO = link.GROConfig{Window: groWindow}
	}
	rcv, err := link.NewReceiver(cfg)
	if err != nil {
		return nil, fmt.Errorf("flow %d: %w", flow, err)
	}
	e := &endpoint{c: c, flow: flow, rcv: rcv}
	e.timer = c.cfg.Loop.NewTimer(e, 0)
	return e, nil
}

// window is what the receiver offers at first: half its first buffer in whole
// segments, as far as 16 bits go (tcp_select_initial_window, v6.1).
func (c *Network) window() uint32 {
	mss := uint32(c.s.EffectiveMSS())
	half := uint32(min(c.cfg.Rmem/2, 1<<30))
	return min(max(half/mss, 1)*mss, 65535)
}

// Received is the payload that the flow's program read.
func (c *Network) Received(flow int) int64 { return int64(c.ends[flow].rcv.Stats.Bytes) }

// Send puts a packet of a flow on the link. TSVal is its timestamp. An ACK
// without data tells the receiver nothing and is dropped.
func (c *Network) Send(now vtime.Time, o *Outgoing, tsval uint32) {
	if o.Info.Flags&skb.SYN != 0 || o.Payload() > 0 || o.Info.Flags&skb.FIN != 0 {
		c.send(now, o, tsval)
	}
}

func (c *Network) send(now vtime.Time, o *Outgoing, tsval uint32) {
	if o.Info.Flags&skb.SYN != 0 {
		c.cross(now, o.Flow, &link.Segment{Seq: synSeq, TSVal: tsval}, int64(o.Info.Payload)+wireExtra)
		return
	}
	s := link.Segment{
		Seq: o.Seq, Len: int32(o.Payload()), MSS: o.GSO, TSVal: tsval,
		PSH: o.Info.Flags&skb.PSH != 0, FIN: o.Info.Flags&skb.FIN != 0, CWR: o.Info.Flags&skb.CWR != 0,
	}
	header := int64(o.Info.Payload)
	segs := int64(1)
	if s.MSS > 0 {
		segs = int64((s.Len + s.MSS - 1) / s.MSS)
	}
	bytes := link.WireBytes(int64(s.Len), segs, header, wireExtra)
	if segs == 1 || c.whole(now, bytes) {
		if segs == 1 {
			s.MSS = 0
		}
		c.cross(now, o.Flow, &s, bytes)
		return
	}
	c.crossCut(now, o, s, header)
}

// whole reports whether a packet may cross in one piece: nothing of it is lost,
// and the receiver's GRO makes it whole again.
func (c *Network) whole(now vtime.Time, bytes int64) bool {
	if c.cut || c.queue == 0 {
		return !c.cut
	}
	backlog, _ := c.out.Backlog(now)
	return backlog+bytes <= c.queue
}

// crossCut sends the segments of a packet one by one; PSH and FIN are the last
// one's.
func (c *Network) crossCut(now vtime.Time, o *Outgoing, whole link.Segment, header int64) {
	for off := int32(0); off < whole.Len; off += whole.MSS {
		s := whole
		s.MSS, s.Seq, s.Len = 0, whole.Seq+uint32(off), min(whole.MSS, whole.Len-off)
		if last := off+whole.MSS >= whole.Len; !last {
			s.PSH, s.FIN = false, false
		}
		c.cross(now, o.Flow, &s, int64(s.Len)+header+wireExtra)
	}
}

func (c *Network) cross(now vtime.Time, flow int32, s *link.Segment, bytes int64) {
	if _, at, fate := c.out.Send(now, bytes); fate == link.Arrives {
		c.arriving.push(arrival{at, flow, *s})
	}
}

// Run is the arrival of packets at the receivers, or of ACKs at the host.
func (c *Network) Run(now vtime.Time, arg uint64) {
	if arg == 0 {
		for c.arriving.n > 0 && c.arriving.peek().at <= now {
			a := c.arriving.pop()
			e := c.ends[a.flow]
			if a.seg.Seq == synSeq && a.seg.Len == 0 {
				c.accept(now, e, a.seg.TSVal)
				continue
			}
			e.rcv.Receive(now, &a.seg)
			e.drain(now)
		}
		c.arriving.rearm()
		return
	}
	c.cfg.Ends.Arrive(now, c.acks.Pop())
}

// Run is the receiver's timer.
func (e *endpoint) Run(now vtime.Time, _ uint64) {
	e.rcv.Step(now)
	e.drain(now)
}

// drain sends what the receiver acknowledges on its way back.
func (e *endpoint) drain(now vtime.Time) {
	var a link.Ack
	for e.rcv.Pop(&a) {
		e.c.answer(now, e, &a)
	}
	if n := e.c.cfg.Flows[e.flow].Request; n > 0 {
		if got := int64(e.rcv.Stats.Bytes); got%n == 0 && int64(e.answers)*n < got {
			e.respond(now)
		}
	}
	e.timer.Set(e.rcv.Next())
}

// respond answers a request.
func (e *endpoint) respond(now vtime.Time) {
	a, f := e.rcv.Answer(now), &e.c.cfg.Headers
	f.Payload = answerByte[:]
	e.c.answer(now, e, &a)
	f.Payload = nil
	e.answers++
}

// answerByte is what a receiver's program sends.
var answerByte [1]byte

// answer builds an ACK's headers and sends it back.
func (c *Network) answer(now vtime.Time, e *endpoint, a *link.Ack) {
	f := &c.cfg.Headers
	f.Timestamps = true
	f.DstPort, f.Seq, f.Ack, f.Flags = c.cfg.Flows[e.flow].Port, frame.Seq(1+e.answers), frame.Seq(a.Ack), skb.ACK
	if len(f.Payload) > 0 {
		f.Flags |= skb.PSH
	}
	if a.ECE {
		f.Flags |= skb.ECE
	}
	f.Window, f.TSVal, f.TSEcr = uint16(a.Wnd>>c.wscale), a.TSVal, a.TSEcr
	for i := range a.NSacks {
		c.sacks[i] = frame.SACKBlock{Start: frame.Seq(a.Sacks[i].Start), End: frame.Seq(a.Sacks[i].End)}
	}
	f.SACK = c.sacks[:a.NSacks]
	c.cfg.Ends.Answer(now, e.flow, a.Ack, f)
}

// Reach hands a packet to its receiver at once: it crossed another network than
// this one's link.
func (c *Network) Reach(now vtime.Time, flow int, s *link.Segment) {
	e := c.ends[flow]
	e.rcv.Receive(now, s)
	e.drain(now)
}

// Accept hands a SYN to its receiver, as Reach does a packet.
func (c *Network) Accept(now vtime.Time, flow int, tsval uint32) { c.accept(now, c.ends[flow], tsval) }

// accept answers a SYN.
func (c *Network) accept(now vtime.Time, e *endpoint, tsval uint32) {
	f := c.cfg.Headers
	f.DstPort, f.Seq, f.Ack, f.Flags = c.cfg.Flows[e.flow].Port, 0, 1, skb.SYN|skb.ACK
	f.Window, f.Timestamps, f.TSVal, f.TSEcr = uint16(c.window()), true, Millis(now), tsval
	f.MSS, f.HasWScale, f.WScale, f.SACKPermitted = uint16(c.s.EffectiveMSS()+12), true, c.wscale, true
	c.cfg.Ends.Answer(now, e.flow, 1, &f)
}

// Millis is a clock for the timestamp option: milliseconds, never 0.
func Millis(t vtime.Time) uint32 { return uint32(t/1e6) + 1 }

// Return puts a packet of a receiver on the link back to the host.
func (c *Network) Return(now vtime.Time, flow int, ack uint32, f *frame.TCPSpec) {
	p := c.take()
	p.Flow, p.Ack, p.SYN = int32(flow), ack, f.Flags&skb.SYN != 0
	p.Build(f)
	_, at, fate := c.back.Send(now, int64(len(p.Frame()))+wireExtra)
	if fate != link.Arrives {
		c.Put(p)
		return
	}
	p.At = at
	c.acks.Push(p)
	c.cfg.Loop.At(at, c, 1) // its place among events of that time is that of its sending
}

func (c *Network) take() *Inbound {
	p := c.free
	if p == nil {
		return &Inbound{}
	}
	c.free = p.next
	p.next = nil
	return p
}

// Put gives a packet of Return's back when it is delivered.
func (c *Network) Put(p *Inbound) {
	p.next = c.free
	c.free = p
}
