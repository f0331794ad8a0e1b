package umlguest

import (
	"io"

	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
	"github.com/vnetbench/vnetbench/vmtest/trace"
)

// recorder keeps the trace hash, which covers every TCP packet that the sender's
// device takes and every ACK that it delivers, and writes the trace, if one is
// wanted.
type recorder struct {
	hash sim.Hash
	at   string
	out  *vmtest.TraceWriter // nil: no trace

	lens []int // of flow 0's packets with payload, up to maxLens
	over bool  // the measured time has ended

	started bool       // a packet was written
	base    vtime.Time // its time, from which all others count
}

// Kinds of events in the hash.
const (
	hashData = iota + 1
	hashAck
)

// maxLens bounds the lengths that are kept.
const maxLens = 4096

func newRecorder(s *vmtest.Scenario, w io.Writer) (*recorder, error) {
	r := &recorder{at: s.Trace.At}
	if w == nil {
		return r, nil
	}
	var err error
	r.out, err = vmtest.NewTraceWriter(w, *s)
	return r, err
}

// taken records a packet that the device took, sent one that its worker has
// finished.
func (r *recorder) taken(now vtime.Time, o *host.Outgoing) {
	if r.over || o.Flow < 0 {
		return
	}
	r.hash.Event(now, hashData, uint32(o.Flow), uint64(o.Seq)<<32|uint64(o.Payload()))
	if o.Flow == 0 && o.Payload() > 0 && len(r.lens) < maxLens {
		r.lens = append(r.lens, o.Payload())
	}
	r.outgoing("device", now, o)
}

func (r *recorder) sent(now vtime.Time, o *host.Outgoing) {
	if !r.over && o.Flow >= 0 {
		r.outgoing("host", now, o)
	}
}

func (r *recorder) outgoing(at string, now vtime.Time, o *host.Outgoing) {
	if r.out == nil || r.at != at {
		return
	}
	r.out.Packet(vmtest.TracePacket{TNs: r.since(now), Flow: int(o.Flow), Seq: o.Seq, AckNo: o.Ack,
		Len: o.Payload(), Flags: o.Info.Flags})
}

// ack records an ACK that was delivered to the sender.
func (r *recorder) ack(now vtime.Time, a *host.Inbound) {
	if r.over || a.Flow < 0 {
		return
	}
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

// captured records a packet that the guest captured.
func (r *recorder) captured(now vtime.Time, p *vmtest.TracePacket) {
	if r.over {
		return
	}
	if p.Ack {
		r.hash.Event(now, hashAck, uint32(p.Flow), uint64(p.AckNo))
	} else {
		r.hash.Event(now, hashData, uint32(p.Flow), uint64(p.Seq)<<32|uint64(p.Len))
	}
	if p.Flow == 0 && p.Len > 0 && len(r.lens) < maxLens {
		r.lens = append(r.lens, p.Len)
	}
	if r.out != nil {
		p.TNs = r.since(now)
		r.out.Packet(*p)
	}
}

// since is the time since the first packet of the trace, which is a SYN.
func (r *recorder) since(now vtime.Time) int64 {
	if !r.started {
		r.started, r.base = true, now
	}
	return int64(now.Sub(r.base))
}

// sizes writes the lengths that were kept as patterns that repeat.
func (r *recorder) sizes() []vmtest.SizeRun {
	out := []vmtest.SizeRun{}
	for _, run := range trace.Runs(r.lens) {
		out = append(out, vmtest.SizeRun{Lens: run.Lens, Times: run.Times})
	}
	return out
}

// close ends the trace.
func (r *recorder) close() error {
	if r.out == nil {
		return nil
	}
	return r.out.Close()
}
