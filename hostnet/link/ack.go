package link

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Times of delayed acknowledgements (include/net/tcp.h, all releases).
const (
	atoMin   = 40 * time.Millisecond  // TCP_ATO_MIN, TCP_DELACK_MIN
	delayMax = 200 * time.Millisecond // TCP_DELACK_MAX
)

// maxQuick is the most acknowledgements sent at once when a flow starts
// (TCP_MAX_QUICKACKS).
const maxQuick = 16

// defaultMSS is the segment size assumed before any segment came
// (TCP_MSS_DEFAULT).
const defaultMSS = 536

// ackState decides when to acknowledge (inet_connection_sock.icsk_ack and
// tcp_event_data_recv, v6.1).
type ackState struct {
	advMSS    int32
	mss       int32 // rcv_mss: the sender's segment size, as estimated
	lastSize  int32 // last_seg_size
	quick     uint32
	ato       time.Duration // 0 until the first segment
	last      vtime.Time    // arrival of the last data
	timer     vtime.Time    // of a delayed ACK
	scheduled bool
	pushed    bool // a short segment came: the end of a write
	pushed2   bool // two of them
	now       bool // the protocol wants one at once
}

func (a *ackState) init(mss int32, window uint32) {
	a.advMSS = mss
	a.mss = max(min(mss, int32(window/2), defaultMSS), 88)
	a.timer = vtime.Never
}

// event notes that data came whose size was measured: it schedules an ACK and adapts
// the delay.
func (a *ackState) event(now vtime.Time, window uint32) {
	a.scheduled = true
	gap := now.Sub(a.last)
	switch {
	case a.ato == 0:
		a.quick = max(a.quick, min(max(window/uint32(2*a.mss), 2), maxQuick))
		a.ato = atoMin
	case gap <= atoMin/2:
		a.ato = a.ato/2 + atoMin/2
	case gap < a.ato:
		a.ato = a.ato/2 + gap
	}
	a.last = now
}

// measure estimates the sender's segment size, and recognises the end of a write
// by a short segment (tcp_measure_rcv_mss, v6.1).
func (a *ackState) measure(s *Segment, rules *AckRules) {
	size := s.Len
	if s.MSS > 0 {
		size = s.MSS
	}
	last := a.lastSize
	a.lastSize = 0
	if size >= a.mss {
		a.mss = min(size, a.advMSS)
		if rules.PushedMSS && s.PSH {
			a.pushed = true
		}
		return
	}
	if size >= defaultMSS || (size >= 88 && !s.PSH) {
		a.lastSize = size
		if size == last {
			a.mss = size
			return
		}
	}
	a.pushed2 = a.pushed
	a.pushed = true
}

// sent notes that an ACK left.
func (a *ackState) sent() {
	if a.quick > 0 && a.scheduled {
		if a.quick--; a.quick == 0 {
			a.ato = atoMin
		}
	}
	a.timer = vtime.Never
	a.scheduled, a.pushed, a.pushed2, a.now = false, false, false, false
}

// delay arms the timer of a delayed ACK, or reports that the one that is armed
// is so close that the ACK should go now (tcp_send_delayed_ack, v6.1).
func (a *ackState) delay(now vtime.Time) (send bool) {
	d := a.ato
	if d > atoMin {
		limit := 500 * time.Millisecond
		if a.pushed {
			limit = delayMax
		}
		d = min(d, limit)
	}
	if a.timer == vtime.Never {
		a.timer = now.Add(d)
		return false
	}
	if a.timer <= now.Add(d/4) {
		return true
	}
	a.timer = min(a.timer, now.Add(d))
	return false
}
