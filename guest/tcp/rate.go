package tcp

import (
	"github.com/vnetbench/vnetbench/guest/tcp/cc"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// micro is a time in whole microseconds, as rate samples and round trips keep
// it.
func micro(t vtime.Time) int64 { return int64(t) / 1000 }

// delivery is the state of delivery rate sampling (net/ipv4/tcp_rate.c, v4.9).
type delivery struct {
	total   uint64 // segments delivered
	marked  uint64 // of them, by ACKs that echo a congestion mark
	at      int64  // time of the last delivery, µs
	firstTx int64  // start of the send interval, µs

	// of the ACK that is being processed:
	has     bool
	best    int64 // send time of the most recently sent segment, µs
	bestEnd uint32
	rs      cc.RateSample
	sendUs  int64
}

// rateSent stamps a segment when it leaves (tcp_rate_skb_sent).
func (s *Sock) rateSent(g *seg) {
	d := &s.dlv
	if s.packetsOut == 0 {
		d.firstTx = micro(g.sent)
		d.at = max(d.firstTx, 1) // 0 means used up
	}
	g.firstTx, g.deliveredAt, g.delivered = d.firstTx, d.at, d.total
	g.appLimited = s.win.AppLimited != 0
}

// rateDelivered takes a segment that was acknowledged or SACKed; the most
// recently sent one of an ACK counts (tcp_rate_skb_delivered). sent is when it
// left, µs.
func (s *Sock) rateDelivered(g *seg, sent int64) {
	d := &s.dlv
	if g.deliveredAt == 0 {
		return
	}
	if !d.has || sent > d.best || (sent == d.best && after(g.end, d.bestEnd)) {
		d.has, d.best, d.bestEnd = true, sent, g.end
		d.rs.PriorDelivered = g.delivered
		d.rs.PriorTime = vtime.Time(g.deliveredAt) * 1000
		d.rs.AppLimited = g.appLimited
		d.firstTx = sent
		d.sendUs = max(sent-g.firstTx, 0)
	}
	if g.mark&markSacked != 0 {
		g.deliveredAt = 0 // not to be used again when it is acknowledged
	}
}

// rateGen completes the sample at the end of an ACK that delivered n segments
// (tcp_rate_gen).
func (s *Sock) rateGen(n uint32, st *ackState) {
	d := &s.dlv
	if s.win.AppLimited != 0 && d.total > s.win.AppLimited {
		s.win.AppLimited = 0
	}
	now := micro(s.clock)
	if n > 0 {
		d.at = now
	}
	d.rs.AckDelayed = st.flag&flagMaybeDelayed != 0
	if !d.has || st.priorReneg {
		d.rs.Delivered, d.rs.Interval = -1, -1
		return
	}
	d.rs.Delivered = int64(d.total - d.rs.PriorDelivered)
	d.rs.Interval = max(d.sendUs, now-micro(d.rs.PriorTime))
	if d.rs.Interval < int64(s.minRTT.Value()) {
		d.rs.Interval = -1
	}
}

// rateReset prepares for the next ACK.
func (d *delivery) rateReset() {
	d.has = false
	d.rs = cc.RateSample{}
}

// checkAppLimited marks the connection as held back by the application when a
// write finds little unsent, nothing below TCP and window to spare
// (tcp_rate_check_app_limited).
func (s *Sock) checkAppLimited() {
	if s.writeSeq-s.sndNxt < s.mss && s.wmemAlloc-1 < minTruesize && s.inFlight() < s.win.Cwnd &&
		s.lostOut <= s.retransOut {
		s.win.AppLimited = max(1, s.dlv.total+uint64(s.inFlight()))
	}
}
