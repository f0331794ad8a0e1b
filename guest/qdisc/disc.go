package qdisc

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Fate is what a discipline did with a packet that it was given.
type Fate uint8

// The fates. Only a queued packet comes out of Dequeue.
const (
	// Queued: the packet waits (NET_XMIT_SUCCESS).
	Queued Fate = iota
	// Congested: the packet was accepted, and packets of its flow, perhaps itself,
	// were dropped for it (NET_XMIT_CN): a TCP sender shrinks its window and goes on
	// as if the packet were sent.
	Congested
	// Refused: the packet was freed (NET_XMIT_DROP), and the sender knows.
	Refused
	// Lost: the packet was freed, and the sender is told that it was queued: netem's
	// listed drops.
	Lost
)

// Disc is a queueing discipline on its own, as the egress of a router uses it.
// It has neither clock nor timer: its caller says what time it is, which never
// goes backwards, and looks at Next for the time of its watchdog. It is not safe
// for concurrent use.
//
// A router's egress does, for each packet that it forwards and whenever Next is
// reached:
//
//	if d.Bypass() && d.Len() == 0 { send p } else { d.Enqueue(now, p) }
//	for p, ok := d.Dequeue(now); ok; p, ok = d.Dequeue(now) { send p }
type Disc interface {
	// Kind says which discipline it is.
	Kind() Kind
	// Enqueue takes a packet, which is the discipline's from now on, whatever its
	// fate.
	Enqueue(now vtime.Time, p *skb.SKB) Fate
	// Dequeue gives back the packet that leaves at now, if there is one. If packets
	// wait that may not leave yet, it sets the watchdog.
	Dequeue(now vtime.Time) (p *skb.SKB, ok bool)
	// Len returns the packets that wait.
	Len() int
	// Backlog returns the bytes that wait, as PktLen counts them.
	Backlog() int64
	// Bypass reports whether a packet that finds the discipline empty goes around it
	// and leaves no trace (TCQ_F_CAN_BYPASS, v6.1).
	Bypass() bool
	// Hold says how many packets, taken out before, wait in front of a stopped
	// driver. They count in the length that limits look at (gso_skb, v6.1).
	Hold(n int)
	// Counts returns what the discipline counted.
	Counts() Counts

	// Next is the time at which the watchdog fires, vtime.Never if it is not set.
	Next() vtime.Time
	// Window is the time from which the watchdog may fire if the processor takes a
	// timer interrupt anyway, and the time at which it does fire.
	Window() (soft, hard vtime.Time)
	// Fire ends the watchdog's wait, if it may fire at now, and says whether it did.
	// The caller dequeues then. At Next, Dequeue alone is enough.
	Fire(now vtime.Time) bool
}

// Counts count what a discipline did with the packets that it was given. Every
// packet that was In is Refused, Lost, Segmented into others, or Queued; and
// what was Queued was Sent or Culled, or waits.
type Counts struct {
	In        uint64 // packets given to Enqueue
	Refused   uint64 // packets, or segments that tbf cut, that found no room
	Lost      uint64 // listed drops of netem
	Segmented uint64 // packets that tbf cut
	Segments  uint64 // that it made of them
	Queued    uint64 // packets and segments that were queued
	Culled    uint64 // packets dropped after they were queued (fq_codel)
	Sent      uint64 // packets given back by Dequeue
	Marked    uint64 // packets that got a congestion mark (ECN)
	Throttled uint64 // times that fq put a flow aside until its next packet is due
	TooFar    uint64 // packets beyond fq's horizon
	Overlimit uint64 // times that tbf lacked tokens (overlimits of tc)
}

// common is the part that disciplines share.
type common struct {
	watchdog
	kind    Kind
	n       int   // packets that wait
	held    int   // packets in front of a stopped driver
	backlog int64 // bytes that wait
	counts  Counts
}

func (c *common) Kind() Kind     { return c.kind }
func (c *common) Len() int       { return c.n }
func (c *common) Backlog() int64 { return c.backlog }
func (c *common) Bypass() bool   { return false }
func (c *common) Hold(n int)     { c.held = n }
func (c *common) Counts() Counts { return c.counts }

// length is what limits in packets look at.
func (c *common) length() int { return c.n + c.held }

func (c *common) enqueued(bytes int64) {
	c.n++
	c.backlog += bytes
	c.counts.Queued++
}

func (c *common) dequeued(bytes int64) {
	c.n--
	c.backlog -= bytes
	c.counts.Sent++
}

// refuse drops a packet that was not queued.
func (c *common) refuse(p *skb.SKB) Fate {
	c.counts.Refused++
	p.Free()
	return Refused
}

// NewDisc returns the empty discipline that spec describes. Work, which is only
// that of segmentation, is counted on meter, which may be nil; pool provides the
// buffers of segments. An error wraps ErrUnknownKind or ErrSpec.
func NewDisc(spec Spec, meter vcpu.Meter, pool *skb.Pool) (Disc, error) {
	s, err := spec.withDefaults()
	if err != nil {
		return nil, err
	}
	c := common{kind: s.Kind, watchdog: idle}
	switch s.Kind {
	case FQ:
		return newFQ(c, &s), nil
	case FQCodel:
		return newFQCodel(c, &s), nil
	case TBF:
		if meter == nil {
			meter = noMeter{}
		}
		return newTBF(c, &s, splitter{meter, pool}), nil
	case Netem:
		return newNetem(c, &s), nil
	case NoQueue:
		return &direct{common: c}, nil
	}
	return newPFIFO(c, &s), nil
}

// noMeter counts nothing.
type noMeter struct{}

func (noMeter) Charge(vcpu.Op, int64) {}

// PktLen is the length that disciplines charge for a packet: its bytes on the
// wire, with the headers of each of its segments (qdisc_pkt_len_init, v6.1).
func PktLen(p *skb.SKB) int64 {
	return int64(p.Len) + int64(p.HdrLen)*int64(max(p.Segs, 1))
}
