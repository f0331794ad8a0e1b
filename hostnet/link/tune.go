package link

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// firstRound is how many segments a program has to read in a round trip before the
// buffer grows for the first time (TCP_INIT_CWND).
const firstRound = 10

// tuner lets a receive buffer grow with what its program reads in a round trip
// (tcp_rcv_space_adjust, v6.1). All its times are in whole microseconds, as the
// kernel's are.
type tuner struct {
	rtt    int64      // eight times the round trip, us; 0: not known (rcv_rtt_est)
	edge   uint32     // number that ends the window that is being timed
	since  vtime.Time // when that began
	timing bool
	echo   uint32 // the last of our timestamps that came back

	from  uint32     // what was read when the round began (rcvq_space.seq)
	began vtime.Time // when that was; 0 before the connection was complete
	space int64      // payload of the last round that counted (rcvq_space.space)
}

// init is the start of a connection with so large a window, of segments of advMSS,
// the timestamp option counted (tcp_init_buffer_space, v6.1).
func (t *tuner) init(thresh, window, advMSS uint32) {
	t.space = int64(min(thresh, window, firstRound*advMSS))
}

// Established says when the handshake was complete: the first round of the buffer's
// tuning begins. Without it the first packet with data is taken for that.
func (r *Receiver) Established(now vtime.Time) { r.tune.from, r.tune.began = r.read, now }

// echoed measures the round trip by a timestamp that the sender sends back, in whole
// milliseconds. Of no time at all v6.1 makes one, and 6.12.117 nothing
// (tcp_rcv_rtt_measure_ts).
func (r *Receiver) echoed(now vtime.Time, s *Segment) {
	t := &r.tune
	if t.began == 0 {
		r.Established(now)
	}
	if s.TSEcr == 0 || s.TSEcr == t.echo {
		return
	}
	t.echo = s.TSEcr
	took := int64(int32(r.stamp(now) - s.TSEcr))
	if took == 0 && !r.cfg.Rules.Retuned {
		took = 1
	}
	if s.Len >= r.ack.mss && took > 0 {
		t.sample(took*1000, false)
	}
}

// timed measures the round trip by the time in which a whole window comes
// (tcp_rcv_rtt_measure, v6.1).
func (r *Receiver) timed(now vtime.Time) {
	t := &r.tune
	if t.timing {
		if before(r.next, t.edge) {
			return
		}
		t.sample(max(micros(now)-micros(t.since), 1), true)
	}
	t.timing, t.edge, t.since = true, r.next+r.wnd, now
}

// sample takes a round trip in microseconds. One that was measured by a window only
// makes the estimate less (tcp_rcv_rtt_update, v6.1).
func (t *tuner) sample(us int64, window bool) {
	switch {
	case t.rtt == 0 || 8*us < t.rtt:
		t.rtt = 8 * us
	case !window:
		t.rtt += us - t.rtt>>3
	}
}

// adjust is the end of a copy to the program: once in a round trip the buffer becomes
// large enough for twice what was read in it, and for the sender to become as much
// faster again as it did (tcp_rcv_space_adjust, v6.1).
func (r *Receiver) adjust(now vtime.Time) {
	t, b := &r.tune, &r.buf
	if b.Max == 0 || t.rtt == 0 || micros(now)-micros(t.began) < t.rtt>>3 {
		return
	}
	copied := int64(int32(r.read - t.from))
	if r.cfg.Rules.Retuned {
		copied -= int64(r.next - r.read)
	}
	if copied > t.space {
		win := 2*copied + 16*int64(r.cfg.MSS)
		win += 2 * (win * (copied - t.space) / t.space)
		if size := b.spaceFor(win, int64(r.cfg.MSS)); size > b.Size {
			b.Size = size
			b.clamp = b.payload(int64(size))
		}
		t.space = copied
	}
	t.from, t.began = r.read, now
}

// micros is the kernel's time, in whole microseconds.
func micros(t vtime.Time) int64 { return int64(t) / int64(time.Microsecond) }
