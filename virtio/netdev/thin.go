package netdev

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// ACKs of a flow that begins, or that goes on after a pause, are not kept
// waiting: the sender learns the path from them, and its window opens by them.
const (
	freshACKs = 8                // so many
	idleTime  = time.Millisecond // a pause
)

// deliverThin is what Deliver does before the gate where the policy thins ACKs.
// It reports whether the frame, which is parsed in r.view, waits. If it does not,
// the ACK of its flow that waits has been delivered before it.
func (r *RX) deliverThin(now vtime.Time, h *virtio.NetHdr, f []byte) (waits bool) {
	fl := r.flowOf(now)
	if fl == nil {
		return false
	}
	ack, plain := r.plainACK(f)
	may := plain && r.thins && fl.acks.may(now, &ack)
	before := fl.acks.ack
	fl.acks.note(now, &ack)
	if r.pair.ctl != nil {
		may = r.pair.ctl.acked(now, r.pair, fl, &ack, before, may)
	}
	if may {
		r.wait(now, fl, h, f)
		return true
	}
	if fl.acks.waits {
		r.deliverWaiting(fl)
		r.view.hdr = *h
		r.whole[0] = f
		r.view.parse(r.whole[:], len(f))
	}
	return false
}

// flowOf returns the flow of the frame in r.view, nil for one that is of none:
// no TCP, a fragment, behind a VLAN tag, or of one too many.
func (r *RX) flowOf(now vtime.Time) *flow {
	in := &r.view.info
	if in.Layer != frame.LayerL4 || in.Proto != frame.ProtoTCP || in.Fragment || in.VLANs > 0 {
		return nil
	}
	fl := r.flows.take(now, r.view.front, in, true)
	if fl != nil {
		fl.heard = now
	}
	return fl
}

// newACK is what an inbound TCP frame says.
type newACK struct {
	seq, ack frame.Seq
	flags    uint8
	wnd      uint16
	payload  int
	sack     bool
	hasTS    bool
	tsval    uint32
	ecn      uint8 // ECE, CWR and AE: a count of AccECN, if it is that
}

// plainACK reads the frame in r.view, which is f, and reports whether it is an
// ACK and nothing else, of a form that may wait: no payload, no flag but ACK, no
// option but a timestamp, no GSO. What a flag of a later standard may say, or an
// option that is not known, is not judged.
func (r *RX) plainACK(f []byte) (a newACK, plain bool) {
	in := &r.view.info
	a = newACK{seq: in.Seq, ack: in.Ack, flags: in.Flags, wnd: in.Window, payload: r.view.payload}
	if in.L4+frame.TCPLen > len(r.view.front) || in.Payload > len(r.view.front) {
		return a, false
	}
	t := frame.TCP(r.view.front[in.L4:in.Payload])
	var o frame.Options
	known := frame.ParseOptions(t.Options(), &o)
	a.ecn = in.Flags&(frame.TCPEce|frame.TCPCwr) | t[12]&1
	a.sack, a.hasTS, a.tsval = o.NSACK > 0, o.Timestamps, o.TSVal
	ipLen := frame.IPv4Len
	if in.Version == 6 {
		ipLen = frame.IPv6Len
	}
	switch {
	case !known || a.payload > 0 || in.Flags != frame.TCPAck || t[12]&15 != 0:
		return a, false
	case in.L4-in.L3 != ipLen, r.view.hdr.GSOType != virtio.GSONone, len(f) > maxACK:
		return a, false
	}
	return a, bareOptions(t.Options())
}

// bareOptions reports whether TCP options are none, or a timestamp in the layout
// that every sender uses.
func bareOptions(b []byte) bool {
	return len(b) == 0 || len(b) == 12 && b[0] == 1 && b[1] == 1 && b[2] == 8 && b[3] == 10
}

// may reports whether a plain ACK may wait, or replace one that waits: it says
// more of what arrived than the newest before it and nothing else, and the flow
// is under way.
func (s *ackState) may(now vtime.Time, a *newACK) bool {
	switch {
	case !s.known || s.n < freshACKs || now.Sub(s.at) >= idleTime:
		return false
	case !s.ack.LessThan(a.ack) || a.seq.LessThan(s.seq):
		return false // a duplicate, an update of the window, or an old one
	case s.wnd == 0 || a.wnd == 0:
		return false
	case a.hasTS != s.hasTS || a.hasTS && int32(a.tsval-s.tsval) < 0:
		return false
	case s.ecn != 0:
		return false // it changed
	}
	return true
}

// note remembers the newest of what frames to the guest said.
func (s *ackState) note(now vtime.Time, a *newACK) {
	if now.Sub(s.at) >= idleTime {
		s.n = 0
	}
	if a.flags&(frame.TCPSyn|frame.TCPRst) != 0 || a.flags&frame.TCPAck == 0 {
		s.known, s.n, s.at = false, 0, now
		return
	}
	s.n++
	s.at = now
	if s.known && (a.ack.LessThan(s.ack) || a.seq.LessThan(s.seq)) {
		return
	}
	s.known, s.seq, s.ack, s.wnd = true, a.seq, a.ack, a.wnd
	s.hasTS, s.tsval, s.ecn = a.hasTS, a.tsval, a.ecn
}

// wait keeps the ACK f, in place of an older one of its flow.
func (r *RX) wait(now vtime.Time, fl *flow, h *virtio.NetHdr, f []byte) {
	s := &fl.acks
	if s.waits {
		r.stats.Thinned++
	} else {
		r.flows.enlist(fl)
		r.arm(now, fl)
	}
	s.hdr, s.len = *h, copy(s.frame[:], f)
	r.work.Copied += s.len
}

// arm sets the deadline of the ACKs that wait, if it is not set.
func (r *RX) arm(now vtime.Time, fl *flow) {
	switch {
	case r.pair.ctl != nil:
		r.pair.ctl.arm(now, r.pair, fl)
	case r.thinAt == vtime.Never:
		r.thinAt = now.Add(r.pair.policy.ThinTime)
	}
}

// deliverWaiting delivers the ACK of a flow that waits.
func (r *RX) deliverWaiting(fl *flow) {
	r.flows.delist(fl)
	if r.flows.waiting == 0 {
		r.thinAt = vtime.Never
	}
	if !r.live() {
		r.drop(DropStopped)
		return
	}
	s := &fl.acks
	f := s.frame[:s.len]
	r.view.hdr = s.hdr
	r.whole[0] = f
	r.view.parse(r.whole[:], len(f))
	v, why := r.gate()
	r.dispose(v, why, f)
}

// deliverAllWaiting delivers all ACKs that wait, in the order in which they began to.
func (r *RX) deliverAllWaiting() {
	for r.flows != nil && r.flows.waiting > 0 {
		r.deliverWaiting(r.flows.first())
	}
}

// commitThin is what Commit does before it delivers a frame where the policy
// thins ACKs: if one of its flow waits, that has to go first, and the frame has
// to be copied out of its way. It returns the copy, nil if none was needed.
func (r *RX) commitThin(now vtime.Time, n int, h *virtio.NetHdr) []byte {
	fl := r.flowOf(now)
	if fl == nil {
		return nil
	}
	a, _ := r.plainACK(nil)
	fl.acks.note(now, &a)
	if r.pair.ctl != nil {
		r.pair.ctl.acked(now, r.pair, fl, &a, fl.acks.ack, false)
	}
	if !fl.acks.waits {
		return nil
	}
	f := gather(scratch(&r.spare, n), r.data)
	r.deliverWaiting(fl)
	r.view.hdr = *h
	r.whole[0] = f
	r.view.parse(r.whole[:], n)
	return f
}
