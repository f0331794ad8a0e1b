package link

import "github.com/vnetbench/vnetbench/virtio/vtime"

// packet is one that waits to be read. Packets that follow each other become one
// as long as the fragments allow (tcp_try_coalesce, v6.1).
type packet struct {
	len, frags int32
	truesize   uint32
}

// What a composer calls if ReceiverConfig.Process is set: the steps of a read by
// a process, between which interrupts may bring packets. A read is
//
//	r.Lock()
//	for {
//		for r.Take() { read the clock; r.Eat(now) }
//		if nothing was taken or !r.Backlogged() { break }
//		for r.Backlogged() { read the clock; r.Backlog(now) }
//		r.Callback(now) // if the release does so, see Rules.BacklogDefer
//	}
//	r.CleanUp(now)
//	for r.Backlogged() { read the clock; r.Backlog(now) }
//	r.Callback(now); r.Unlock()
//
// as tcp_recvmsg does (v6.1 and v6.12). Acknowledgements are to be taken with
// Pop after each step.

// Readable reports whether a process that waits for data is woken.
func (r *Receiver) Readable() bool { return len(r.queue) > 0 || r.fin }

// Lock begins a read: what comes until Unlock goes to the backlog.
func (r *Receiver) Lock() { r.locked, r.copied = true, false }

// Take copies the next packet that waits, and reports whether there was one. It
// stays in the buffer until Eat.
func (r *Receiver) Take() bool {
	if len(r.queue) == 0 {
		return false
	}
	r.copied = true
	r.read += uint32(r.queue[0].len)
	return true
}

// Eat frees the packet that was taken (tcp_eat_recv_skb). The buffer may have grown
// for it.
func (r *Receiver) Eat(now vtime.Time) {
	r.adjust(now)
	r.buf.used -= r.queue[0].truesize
	r.queue = r.queue[:copy(r.queue, r.queue[1:])]
}

// Backlogged reports whether packets came since Lock that were not processed.
func (r *Receiver) Backlogged() bool { return r.done < len(r.backlog) }

// Backlog processes the oldest packet of the backlog. What comes while those
// that are there now are processed is not merged with them (__release_sock).
func (r *Receiver) Backlog(now vtime.Time) {
	if r.done == r.spliced {
		r.spliced = len(r.backlog)
	}
	s := r.backlog[r.done]
	r.done++
	r.deliver(now, &s)
	if r.done == len(r.backlog) {
		r.backlog, r.done, r.spliced, r.buf.late = r.backlog[:0], 0, 0, 0
	}
}

// CleanUp is the end of a read, which may be the occasion for an acknowledgement
// (tcp_cleanup_rbuf).
func (r *Receiver) CleanUp(now vtime.Time) { r.cleanUp(now, r.copied) }

// Callback sends the acknowledgement that the backlog put off (tcp_release_cb,
// v6.7).
func (r *Receiver) Callback(now vtime.Time) {
	if r.deferred {
		r.deferred = false
		if r.ack.scheduled {
			r.sendAck(now)
		}
	}
}

// Unlock ends a read.
func (r *Receiver) Unlock() { r.locked = false }

// enqueue puts a packet where the process finds it (tcp_queue_rcv).
func (r *Receiver) enqueue(s *Segment, n int32) {
	if n <= 0 {
		return
	}
	frags, truesize := max(s.Frags, 1), uint32(max(s.TrueSize, n))
	if k := len(r.queue); k > 0 && r.queue[k-1].frags+frags <= maxFrags && !(r.locked && k == 1 && r.copied) {
		t := &r.queue[k-1]
		t.len, t.frags = t.len+n, t.frags+frags
		more := s.merged(n)
		t.truesize += more
		r.buf.used += more
		return
	}
	r.queue = append(r.queue, packet{n, frags, truesize})
	r.buf.used += truesize
}

// putOff keeps a packet for the process that has the socket. One that continues
// the last becomes part of it (tcp_add_backlog, v5.0).
func (r *Receiver) putOff(s *Segment) {
	if n := len(r.backlog); n > r.spliced {
		t := &r.backlog[n-1]
		if t.Seq+uint32(t.Len) == s.Seq && !t.FIN && t.TSVal == s.TSVal && t.CE == s.CE && t.CWR == s.CWR &&
			max(t.Frags, 1)+max(s.Frags, 1) <= maxFrags {
			t.MSS = max(t.size(), s.size())
			t.Len, t.Frags = t.Len+s.Len, max(t.Frags, 1)+max(s.Frags, 1)
			t.PSH, t.FIN = t.PSH || s.PSH, s.FIN
			more := s.merged(s.Len)
			t.TrueSize += int32(more)
			r.buf.late += more
			return
		}
	}
	r.backlog = append(r.backlog, *s)
	r.buf.late += uint32(max(s.TrueSize, s.Len))
}

// ownStruct is what of a packet's memory is its sk_buff.
const ownStruct = 256

// merged is what a packet of n bytes of payload adds to the one that it becomes part
// of: not its head if that has none of the payload, and not its sk_buff
// (skb_try_coalesce, v6.1).
func (s *Segment) merged(n int32) uint32 {
	switch {
	case s.TrueSize == 0:
		return uint32(n)
	case s.HeadSize > 0:
		return uint32(max(s.TrueSize-s.HeadSize, n))
	}
	return uint32(max(s.TrueSize-ownStruct, n))
}

// size is the payload of a segment of the packet.
func (s *Segment) size() int32 {
	if s.MSS > 0 {
		return s.MSS
	}
	return s.Len
}
