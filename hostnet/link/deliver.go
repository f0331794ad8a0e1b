package link

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// growLen is the payload from which on a packet makes the window grow
// (tcp_event_data_recv, all releases).
const growLen = 128

// SACK compression (tcp_comp_sack_delay_ns, tcp_comp_sack_nr, v4.18).
const (
	compressDelay = time.Millisecond
	compressMax   = 44
	dupThreshold  = 3                      // duplicate ACKs that are never put off
	compressSlack = 100 * time.Microsecond // tcp_comp_sack_slack_ns
)

// before reports whether sequence number a is before b.
func before(a, b uint32) bool { return int32(a-b) < 0 }

// deliver is TCP's input (tcp_data_queue, v6.1).
func (r *Receiver) deliver(now vtime.Time, s *Segment) {
	r.Stats.Packets++
	r.ece = (r.ece && !s.CWR) || s.CE
	if !before(r.acked, s.Seq) {
		r.recent = s.TSVal
	}
	end := s.Seq + uint32(s.Len)
	if r.buf.Size > 0 && !before(end, r.acked) {
		r.echoed(now, s)
	}
	if s.FIN {
		end++
		r.finEnd, r.finAhead = end, !r.fin
	}
	switch {
	case end == s.Seq:
		r.sendAck(now) // a probe
	case !before(r.next, end):
		r.duplicate(now, Range{s.Seq, end})
	case !before(s.Seq, r.acked+r.wnd):
		r.Stats.Overrun++
		r.sendAck(now)
	case before(r.next, s.Seq):
		r.outOfOrder(now, s, Range{s.Seq, end})
	default:
		r.inOrder(now, s, end)
	}
}

// inOrder takes a packet that begins at or before the next number expected.
func (r *Receiver) inOrder(now vtime.Time, s *Segment, end uint32) {
	r.Stats.Duplicate += uint64(r.next - s.Seq)
	old := r.next
	r.next = end
	r.dupacks = 0
	if r.cfg.Process {
		r.enqueue(s, int32(end-old))
	}
	r.measure(s)
	r.ack.event(now, r.wnd)
	if r.buf.Size > 0 {
		r.timed(now)
	}
	r.grow(s, true)
	if len(r.ofo) > 0 {
		r.absorb()
		r.ack.now = r.ack.now || len(r.ofo) == 0
	}
	r.Stats.Bytes += uint64(r.next - old)
	if r.finAhead && r.next == r.finEnd {
		r.finAhead, r.fin = false, true
		r.Stats.Bytes-- // the FIN's own number
		r.ack.now = true
	}
	if !r.reading && !r.cfg.Process {
		r.readAt = min(r.readAt, now.Add(r.cfg.ReadDelay))
	}
	r.ackOrDelay(now)
}

// measure learns from the size of a packet's segments (tcp_measure_rcv_mss, v6.1).
func (r *Receiver) measure(s *Segment) {
	if size := s.size(); size >= r.ack.mss && size != r.ack.mss {
		r.buf.measure(s)
		if r.buf.Measured {
			r.tune.space = min(r.tune.space, int64(r.buf.clamp))
		}
	}
	r.ack.measure(s, &r.cfg.Rules)
}

// absorb moves next over what came out of order before.
func (r *Receiver) absorb() {
	k, from := 0, r.next
	for k < len(r.ofo) && !before(r.next, r.ofo[k].Start) {
		if before(r.next, r.ofo[k].End) {
			r.next = r.ofo[k].End
		}
		k++
	}
	r.ofo = r.ofo[:copy(r.ofo, r.ofo[k:])]
	r.blocks.remove(r.next)
	r.release(from)
}

// grow raises the window for a packet (tcp_grow_window, v6.1). While it grows,
// acknowledgements are not delayed. less says that the packet's head does not count.
func (r *Receiver) grow(s *Segment, less bool) {
	if r.buf.Size > 0 {
		if room := r.buf.room(r.thresh); s.Len >= growLen && room > 0 && r.buf.grows(s, r.thresh, less) {
			r.ack.quick |= 1
			r.thresh += min(uint32(2*max(r.cfg.MSS, s.Len)), room)
		}
		return
	}
	if s.Len < growLen || r.thresh >= r.cfg.WindowMax {
		return
	}
	if r.thresh < r.cfg.QuickWindow {
		r.ack.quick |= 1
	}
	r.thresh = min(r.thresh+uint32(2*max(r.cfg.MSS, s.Len)), r.cfg.WindowMax)
}

// ackOrDelay acknowledges data at once or sets the timer for it
// (__tcp_ack_snd_check, v6.1).
func (r *Receiver) ackOrDelay(now vtime.Time) {
	a := &r.ack
	full := r.next-r.acked > uint32(a.mss) && r.window() >= r.wnd
	switch {
	case full || a.quick > 0 && !r.answers || a.now:
	case len(r.ofo) > 0:
		if r.compress(now) {
			return
		}
	case !a.delay(now):
		return
	default:
		r.sendAck(now)
		return
	}
	if r.deferring || r.locked && r.cfg.Rules.BacklogDefer {
		r.deferred = true
		return
	}
	r.sendAck(now)
}

// readAll is the application's read of all there is: it may be the occasion for
// an ACK (tcp_cleanup_rbuf, v6.1).
func (r *Receiver) readAll(now vtime.Time) {
	copied := r.next != r.read
	r.read = r.next
	r.cleanUp(now, copied)
}

// cleanUp acknowledges after a read that copied something, or not, if there is
// reason to.
func (r *Receiver) cleanUp(now vtime.Time, copied bool) {
	a := &r.ack
	if a.scheduled && (r.next-r.acked > uint32(a.mss) || (copied && (a.pushed && !r.answers || a.pushed2) && r.buf.used == 0)) {
		r.sendAck(now)
		return
	}
	limit := r.cfg.WindowMax
	if r.buf.Size > 0 {
		limit = r.buf.clamp
	}
	if left := r.wnd - (r.next - r.acked); copied && 2*left <= limit && r.window() >= 2*left {
		r.sendAck(now)
	}
}

func (r *Receiver) delayedAck(now vtime.Time) {
	r.Stats.DelayedAck++
	r.ack.ato = min(2*r.ack.ato, delayMax)
	r.sendAck(now)
}

// duplicate answers a packet that was there already: at once, and saying so
// (tcp_data_queue, v6.1; RFC 2883).
func (r *Receiver) duplicate(now vtime.Time, d Range) {
	r.Stats.Duplicate += uint64(d.End - d.Start)
	r.dsack = d
	r.ack.quick = max(r.ack.quick, maxQuick)
	r.sendAck(now)
}

// outOfOrder keeps a packet that comes ahead of a gap, and answers with a
// duplicate ACK, or puts it off if several went already and acknowledgements are
// not quick (tcp_data_queue_ofo, v6.1).
func (r *Receiver) outOfOrder(now vtime.Time, s *Segment, d Range) {
	r.Stats.OutOfOrder++
	if r.cfg.Rules.Retuned {
		r.measure(s)
	}
	r.ack.scheduled = true
	merged := r.hold(s)
	acks := r.Stats.Acks
	if len(r.ofo) == 0 {
		r.blocks.put(0, d)
	} else {
		r.remember(now, d)
	}
	r.insert(d)
	r.grow(s, merged || !r.cfg.Process)
	if r.ack.scheduled {
		r.ackOrDelay(now)
	}
	r.Stats.DupAcks += r.Stats.Acks - acks
}

// compress puts a duplicate ACK off, unless few went since the last one with news
// (__tcp_ack_snd_check, v6.1). False means that it goes now.
func (r *Receiver) compress(now vtime.Time) bool {
	if !r.cfg.Rules.CompressSACK || r.putBack >= compressMax {
		return false
	}
	if r.dupacks < dupThreshold {
		r.dupacks++
		return false
	}
	r.putBack++
	r.Stats.Compressed++
	if r.sackAt == vtime.Never {
		r.sackAt = now.Add(r.compressFor())
	}
	return true
}

// compressFor is how long a duplicate ACK may be put off: a twentieth of the round
// trip, and at most a millisecond (__tcp_ack_snd_check, v6.1). The timer then has
// some slack, which it uses up if nothing else interrupts.
func (r *Receiver) compressFor() time.Duration {
	rtt := r.rtt
	if t := time.Duration(r.tune.rtt) * time.Microsecond / 8; t > 0 && (rtt == 0 || t < rtt) {
		rtt = t
	}
	if rtt == 0 {
		return compressDelay
	}
	return min(rtt/20, compressDelay) + compressSlack
}

// SetRTT says what round trip the receiver measured in the handshake. Without it
// duplicate ACKs are put off for a millisecond.
func (r *Receiver) SetRTT(rtt time.Duration) { r.rtt = rtt }

// insert merges a run into the out-of-order list.
func (r *Receiver) insert(d Range) {
	i := 0
	for i < len(r.ofo) && before(r.ofo[i].End, d.Start) {
		i++
	}
	j := i
	for ; j < len(r.ofo) && d.touches(r.ofo[j]); j++ {
		o := r.ofo[j]
		if !before(d.Start, o.Start) && !before(o.End, d.End) {
			r.dsack = d // all of it was there
		}
		d.extend(o)
	}
	if i == j {
		r.ofo = append(r.ofo, Range{})
		copy(r.ofo[i+1:], r.ofo[i:])
	} else {
		r.ofo = append(r.ofo[:i+1], r.ofo[j:]...)
	}
	r.ofo[i] = d
}

// window is what the receiver would offer now (__tcp_select_window, v6.1).
func (r *Receiver) window() uint32 {
	unit := uint32(1) << r.cfg.WindowScale
	w := (r.thresh + unit - 1) &^ (unit - 1)
	if r.buf.Size > 0 {
		var tight bool
		if w, tight = r.buf.window(r.thresh, r.ack.mss, unit); tight {
			r.ack.quick = 0
		}
	}
	if kept := r.wnd - (r.next - r.acked); w < kept {
		if r.buf.Size > 0 {
			return (kept + unit - 1) &^ (unit - 1)
		}
		return kept // it never shrinks
	}
	return w
}

// sendAck emits an acknowledgement of all that came.
func (r *Receiver) sendAck(now vtime.Time) {
	w := r.window()
	a := Ack{
		Ack: r.next, Wnd: w, ECE: r.ece,
		TSVal: r.cfg.TSOffset + r.stamp(now), TSEcr: r.recent,
	}
	r.sacks(&a)
	r.wnd, r.acked = w, r.next
	r.sackAt, r.putBack = vtime.Never, 0
	r.ack.sent()
	r.Stats.Acks++
	r.out = append(r.out, a)
}

// stamp is the receiver's clock for timestamps, in whole milliseconds.
func (r *Receiver) stamp(now vtime.Time) uint32 { return uint32(now / vtime.Time(time.Millisecond)) }

// sacks fills the blocks: a duplicate first, then the runs in the order in which
// they changed, the last one first (tcp_options_write, v6.1).
func (r *Receiver) sacks(a *Ack) {
	if r.dsack != (Range{}) {
		a.add(r.dsack)
		r.dsack = Range{}
	}
	for _, b := range r.blocks.blocks[:r.blocks.n] {
		a.add(b)
	}
}

func (a *Ack) add(o Range) {
	if a.NSacks < MaxSACK {
		a.Sacks[a.NSacks] = o
		a.NSacks++
	}
}
