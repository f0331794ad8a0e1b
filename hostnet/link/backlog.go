package link

import "github.com/vnetbench/vnetbench/virtio/vtime"

// input hands a packet to TCP, or to the socket's backlog while the application
// is inside a read (sk_add_backlog, all releases).
func (r *Receiver) input(now vtime.Time, s *Segment) {
	if r.locked {
		r.putOff(s)
		return
	}
	if now < r.busy && r.reading {
		r.backlog = append(r.backlog, *s)
		return
	}
	r.deliver(now, s)
}

// startRead begins a read, or is one if reading takes no time.
func (r *Receiver) startRead(now vtime.Time) {
	r.readAt = vtime.Never
	if r.cfg.ReadTime == 0 {
		r.readAll(now)
		return
	}
	r.reading, r.busy = true, now.Add(r.cfg.ReadTime)
}

// endRead ends a read that took time: acknowledgements that it caused, and then
// what came meanwhile (tcp_cleanup_rbuf and release_sock, v6.1), for all of
// which one acknowledgement is enough with the rule BacklogDefer.
func (r *Receiver) endRead(now vtime.Time) {
	r.reading, r.busy = false, vtime.Never
	r.readAll(now)
	r.deferring, r.deferred = r.cfg.Rules.BacklogDefer, false
	for i := range r.backlog {
		r.deliver(now, &r.backlog[i])
	}
	r.backlog = r.backlog[:0]
	r.deferring = false
	if r.deferred {
		r.sendAck(now)
	}
}
