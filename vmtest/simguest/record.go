package simguest

import (
	"io"

	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
	"github.com/vnetbench/vnetbench/vmtest/trace"
)

// recorder keeps the trace hash, which covers every packet that the device
// takes and every ACK that it delivers, and writes the trace, if one is wanted,
// at the point that the scenario names.
type recorder struct {
	hash sim.Hash
	at   string
	out  *vmtest.TraceWriter // nil: no trace

	lens []int32 // of flow 0's packets with payload since sizes was reset, up to maxLens

	wanted bool          // rules are to be written
	rules  []*[]tcp.Rule // of packets in the rings, by queue

	started bool       // a packet was written
	base    vtime.Time // its time, from which all others count

	// What the guest's clock shows is recorded, if the guest records.
	clock *vcpu.Table
}

// Kinds of events in the hash.
const (
	hashData = iota + 1
	hashAck
)

func newRecorder(s *vmtest.Scenario, trace io.Writer) (*recorder, error) {
	r := &recorder{at: s.Trace.At, lens: make([]int32, 0, maxLens), wanted: s.Trace.Rules}
	if trace == nil {
		return r, nil
	}
	var err error
	r.out, err = vmtest.NewTraceWriter(trace, *s)
	return r, err
}

// skb records a packet at a point above the device.
func (r *recorder) skb(at string, now vtime.Time, p *skb.SKB) {
	if r.out == nil || r.at != at {
		return
	}
	r.out.Ruled(vmtest.TracePacket{TNs: r.since(now), Flow: int(p.Flow), Seq: p.Seq, AckNo: p.Ack, Len: int(p.Len), Flags: p.Flags}, tcp.Rule(p.Rule))
}

func (r *recorder) qdisc(now vtime.Time, p *skb.SKB) { r.skb("qdisc", now, p) }

// maxLens bounds the lengths that are kept.
const maxLens = 4096

// size keeps the length of a packet of flow 0.
func (r *recorder) size(flow int32, n int) {
	if flow == 0 && n > 0 && len(r.lens) < cap(r.lens) {
		r.lens = append(r.lens, int32(n))
	}
}

// sizes writes the lengths that were kept as patterns that repeat.
func (r *recorder) sizes() []vmtest.SizeRun {
	lens := make([]int, len(r.lens))
	for i, n := range r.lens {
		lens[i] = int(n)
	}
	out := []vmtest.SizeRun{}
	for _, run := range trace.Runs(lens) {
		out = append(out, vmtest.SizeRun{Lens: run.Lens, Times: run.Times})
	}
	return out
}

// taken records a packet that the device took, sent one that the worker has
// finished.
func (r *recorder) taken(now vtime.Time, o *host.Outgoing) {
	r.hash.Event(now, hashData, uint32(o.Flow), uint64(o.Info.Seq)<<32|uint64(o.Payload()))
	r.size(o.Flow, o.Payload())
	if r.out != nil {
		r.outgoing("device", now, o)
	}
}

func (r *recorder) sent(now vtime.Time, o *host.Outgoing) {
	if r.out != nil {
		r.outgoing("host", now, o)
	}
}

func (r *recorder) outgoing(at string, now vtime.Time, o *host.Outgoing) {
	if r.at != at {
		return
	}
	r.out.Ruled(vmtest.TracePacket{TNs: r.since(now), Flow: int(o.Flow), Seq: uint32(o.Info.Seq),
		AckNo: uint32(o.Info.Ack), Len: o.Payload(), Flags: o.Info.Flags}, o.Rule)
}

// dataSKB records a packet that leaves the sender's namespace, ackSKB one that
// reaches it.
func (r *recorder) dataSKB(now vtime.Time, p *skb.SKB) {
	r.hash.Event(now, hashData, uint32(p.Flow), uint64(p.Seq)<<32|uint64(p.Len))
	r.size(p.Flow, int(p.Len))
	if r.out != nil {
		r.out.Ruled(vmtest.TracePacket{TNs: r.since(now), Flow: int(p.Flow), Seq: p.Seq, AckNo: p.Ack, Len: int(p.Len), Flags: p.Flags}, tcp.Rule(p.Rule))
	}
}

func (r *recorder) ackSKB(now vtime.Time, p *skb.SKB) {
	r.hash.Event(now, hashAck, uint32(p.Flow), uint64(p.Ack))
	if r.out != nil {
		r.out.Ruled(vmtest.TracePacket{TNs: r.since(now), Ack: true, Flow: int(p.Flow), Seq: p.Seq, AckNo: p.Ack, Flags: p.Flags}, tcp.RuleNone)
	}
}

// ack records an ACK that was delivered to the guest.
func (r *recorder) ack(now vtime.Time, a *host.Inbound) {
	r.hash.Event(now, hashAck, uint32(a.Flow), uint64(a.Ack))
	if r.out == nil {
		return
	}
	p := vmtest.TracePacket{TNs: r.since(now), Ack: true, Flow: int(a.Flow), Seq: 1, AckNo: a.Ack, Flags: skb.ACK}
	if a.SYN {
		p.Seq, p.Flags = 0, skb.SYN|skb.ACK
	}
	r.out.Packet(p)
}

// since is the time since the first packet of the trace, which is a SYN.
func (r *recorder) since(now vtime.Time) int64 {
	if r.clock != nil {
		now = r.clock.Reading(now)
	}
	if !r.started {
		r.started, r.base = true, now
	}
	return int64(now.Sub(r.base))
}

// tracedDev records what a queueing discipline gives to the driver, and keeps
// the rules of the packets until the device takes them, in the same order.
type tracedDev struct {
	qdisc.Dev
	rec   *recorder
	rules *[]tcp.Rule
}

// Xmit records the packet and passes it on.
func (d *tracedDev) Xmit(now vtime.Time, p *skb.SKB, more bool) qdisc.Verdict {
	d.rec.skb("driver", now, p)
	rule := tcp.Rule(p.Rule)
	v := d.Dev.Xmit(now, p, more)
	if !v.Busy && d.rules != nil {
		*d.rules = append(*d.rules, rule)
	}
	return v
}

// dev is transmit queue i of the driver as the queueing discipline sees it.
func (r *recorder) dev(i int, d qdisc.Dev) qdisc.Dev {
	if r.out == nil {
		return d
	}
	t := &tracedDev{Dev: d, rec: r}
	if r.wanted {
		for len(r.rules) <= i {
			r.rules = append(r.rules, new([]tcp.Rule))
		}
		t.rules = r.rules[i]
	}
	return t
}

// rule takes the rule of the packet that the device takes off queue i.
func (r *recorder) rule(i int) tcp.Rule {
	if i >= len(r.rules) || len(*r.rules[i]) == 0 {
		return tcp.RuleNone
	}
	q := r.rules[i]
	first := (*q)[0]
	*q = (*q)[1:]
	return first
}
