package netdev

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Bounds of what the adaptive policy does.
const (
	maxHold     = 100 * time.Microsecond // longest hold
	minHold     = 20 * time.Microsecond  // shortest that is worth a timer
	heldBytes   = 256 << 10              // frames held that end a hold
	heldPackets = 64                     // and so many, or a quarter of the ring
)

// Thresholds of the adaptive policy.
const (
	bulkBytes   = 256 << 10 // sent since the guest last waited for something: a bulk flow
	fastRate    = 80e6      // bytes/s from which a hold of maxHold makes large packets
	slowRate    = 40e6      // and below which it no longer does
	largeMean   = 16 << 10  // mean payload of packets that need no help
	batchBytes  = 40 << 10  // payload of a hold that is enough
	wantsCalls  = 8         // completions that the guest wanted a call for: it uses them
	rateWindow  = 200 * time.Microsecond
	trialTime   = 2 * time.Millisecond  // after which holding must have made packets grow, and not have slowed the flow
	firstPause  = 10 * time.Millisecond // before it is tried again, doubled each time
	longestWait = time.Second

	orphanTests = 64                     // completions for which the guest wanted no call, ...
	orphanShare = 64                     // ... and so many for each for which it did: it uses none
	manyCalls   = 1 << 12                // counts of both after which they are halved
	scanEvery   = 50 * time.Microsecond  // between two looks at such a guest's ring
	scanTime    = 200 * time.Microsecond // after work
	thinOrphan  = 60 * time.Microsecond  // hold of its ACKs
	thinFirst   = 500 * time.Microsecond // ACKs are held before its ring is judged
	fullLook    = 24                     // packets that a look finds, so many times, of a ring that would not be drained
	fullLooks   = 4
	fullPause   = 100 * time.Millisecond // then it is left alone
	drainTests  = 64                     // packets after which it is judged whether the ring is drained:
	drainShare  = 16                     // one of so many, or more, was kicked for
	quietTime   = 2 * time.Millisecond   // without a flow of another kind on the ring
	spinFor     = 20 * time.Microsecond  // after work, where somebody waits beside flows that are held
	spinEvery   = time.Microsecond
	fewPackets  = 4                     // in flight: perhaps the sender measures the path
	fewEvery    = 10 * time.Millisecond // then one ACK passes so often
)

// control is the adaptive policy of a pair: it sees what goes over the rings,
// and decides for each flow whether its completions and ACKs are held.
//
// Two events release a small packet of a sender that corks by itself: the
// completion of the packet before, and an ACK of it. Each alone is enough, so
// both are held, on one deadline for the pair, and no data ever is. A flow is
// held only while it is plainly a bulk transfer of small packets: whatever
// suggests that somebody waits (data from the peer, a pause, a loss, a closed
// window) ends it at once.
type control struct {
	calls uint64 // publications for which the guest wanted a call
	mute  uint64 // and those for which it did not

	scans     bool       // the ring is looked at every scanEvery, without kicks
	other     vtime.Time // the last packet of a flow that is not held
	otherFlow int16      // that flow
	full      int        // looks that found a full ring
	notBefore vtime.Time // no looks until then
	kicks     uint64     // counters of the ring when drained judged last
	packets   uint64
	held      vtime.Time // the last packet of a flow that is
	spins     bool       // the ring is looked at all the time for a while after work
	share     sharing
}

// sendState is what control remembers of the direction from the guest.
type sendState struct {
	at    vtime.Time // the last packet with payload
	since int64      // payload since the guest last waited for something
	end   frame.Seq  // the sequence number after the last byte sent

	segment int        // payload of a segment
	passed  vtime.Time // the last ACK that passed because few packets were in flight

	from  vtime.Time // start of the window in which bytes counts
	bytes int64
	rate  int64 // bytes/s of the last whole window
	mean  int64 // payload of a packet, a moving average in 1/8 byte

	batch  bool       // completions and ACKs are held
	begun  vtime.Time // when that began
	before int64      // mean at that time
	speed  int64      // rate at that time
	tried  bool       // packets have grown since
	retry  vtime.Time // not before
	pause  time.Duration
}

// sent accounts a packet that the guest sent, and reports whether its completion
// is to be held.
func (c *control) sent(now vtime.Time, p *Pair, v *frameView, at *slot) (hold bool) {
	in := &v.info
	if in.Layer != frame.LayerL4 || in.Proto != frame.ProtoTCP || in.Fragment || in.VLANs > 0 {
		return false
	}
	f := p.RX.flows.take(now, v.front, in, false)
	if f == nil {
		return false
	}
	f.heard = now
	if in.Flags&(frame.TCPSyn|frame.TCPFin|frame.TCPRst) != 0 {
		c.leave(p, f)
		f.send = sendState{}
		return false
	}
	if v.payload == 0 {
		return false
	}
	c.measure(now, p, f, int64(v.payload))
	s := &f.send
	s.end = in.Seq.Add(uint32(v.payload))
	c.decide(now, p, f)
	at.flow, at.bytes = f.index, int32(v.payload)
	if s.segment = v.segment(); !s.batch {
		c.beside(now, p, f)
	}
	return s.batch && !c.orphan()
}

// orphan reports whether the guest's driver lets go of packets when it hands them
// over, so that no completion matters to it: it wants a call only when its ring
// has become full.
func (c *control) orphan() bool { return c.mute >= orphanTests && c.calls*orphanShare < c.mute }

// completes reports whether the guest's driver waits for completions.
func (c *control) completes() bool { return c.calls >= wantsCalls && !c.orphan() }

// published notes whether the guest wanted a call for used entries. While some
// are held the answer says nothing; nor does it while the ring is rather full, as
// any driver wants a call then.
func (c *control) published(now vtime.Time, t *TX, call Call) {
	if c.held != 0 && now.Sub(c.held) < idleTime || int(t.q.InFlight())+int(t.q.Pending()) > t.size/2 {
		return
	}
	switch {
	case call.Needed && (call.Reason == CallEvent || call.Reason == CallFlag):
		c.calls++
	case call.Reason == CallEventIdx || call.Reason == CallNoInterrupt:
		c.mute++
	}
	if c.calls+c.mute >= manyCalls {
		c.calls, c.mute = c.calls/2, c.mute/2
	}
}

// drained reports whether the device finds the ring empty often, by the kicks
// that it gets. If it does not, it is behind, and what piles up makes large
// packets by itself: to look at the ring less often, and to join what is there,
// would only take that away.
func (c *control) drained(p *Pair) bool {
	s := &p.TX.stats
	kicks, packets := s.Kicks-c.kicks, s.Packets-c.packets
	if packets < drainTests {
		return false
	}
	c.kicks, c.packets = s.Kicks, s.Packets
	return kicks*drainShare >= packets
}

// worthLooks reports whether it is time to look at the ring instead of being
// kicked: its ACKs have been held for a while, and it is drained all the same.
func (c *control) worthLooks(now vtime.Time, p *Pair, s *sendState) bool {
	if now.Sub(s.begun) < thinFirst || now < c.notBefore {
		c.kicks, c.packets = p.TX.stats.Kicks, p.TX.stats.Packets
		return false
	}
	return c.drained(p)
}

// looks notes that a look found n packets. If that is again and again more than
// most devices could take one by one in the time between two looks, the ring
// would not be drained without them.
func (c *control) looks(now vtime.Time, p *Pair, n int) {
	if c.full++; n <= fullLook {
		c.full = 0
	}
	if c.full >= fullLooks {
		c.full, c.notBefore = 0, now.Add(fullPause)
		c.scan(p, false)
	}
}

// scan begins or ends the looks at the ring of a guest that orphans. For it no
// hold makes packets large: what helps is to find many at once, and to join
// them.
func (c *control) scan(p *Pair, on bool) {
	if c.scans == on {
		return
	}
	s := &p.TX.svc
	c.scans, p.TX.join.on = on, on
	if on {
		s.poll, s.every = scanTime, scanEvery
		return
	}
	s.poll, s.lookAt = 0, vtime.Never
	p.TX.more = p.TX.q != nil
}

// beside notes a packet of a flow that is not held: somebody may wait for an
// answer to it. It must not wait for a look; and where the device would be busy
// with the packets of the flows that are held, and would find it soon, it must
// not be asleep.
func (c *control) beside(now vtime.Time, p *Pair, f *flow) {
	c.other, c.otherFlow = now, f.index
	c.scan(p, false)
	c.share.leave(now)
	c.spin(p, !c.orphan() && c.held != 0 && now.Sub(c.held) < idleTime)
}

// spin begins or ends to look at the ring for a short time after work.
func (c *control) spin(p *Pair, on bool) {
	if c.spins == on || c.scans {
		return
	}
	s := &p.TX.svc
	if c.spins = on; on {
		s.poll, s.every = spinFor, spinEvery
		return
	}
	s.poll, s.lookAt = 0, vtime.Never
	p.TX.more = p.TX.q != nil
}

// alone reports whether no flow of another kind was on the ring of late.
func (c *control) alone(now vtime.Time) bool { return c.other == 0 || now.Sub(c.other) > quietTime }

// measure takes a packet into the figures of its flow.
func (c *control) measure(now vtime.Time, p *Pair, f *flow, n int64) {
	s := &f.send
	if now.Sub(s.at) > idleTime {
		c.leave(p, f)
		s.since, s.from, s.bytes, s.rate = 0, now, 0, 0
	}
	s.at = now
	s.since += n
	s.bytes += n
	window := rateWindow
	if c.share.shared {
		window = shareWindow // it waits for the others' turns
	}
	if d := now.Sub(s.from); d >= window {
		s.rate = s.bytes * int64(time.Second) / int64(d)
		s.from, s.bytes = now, 0
	}
	if s.mean == 0 {
		s.mean = 8 * n
	}
	s.mean += n - s.mean/8
}

// decide begins and ends the holding of a flow.
func (c *control) decide(now vtime.Time, p *Pair, f *flow) {
	s := &f.send
	switch {
	case !s.batch && s.since >= bulkBytes && s.rate >= fastRate && s.mean/8 < largeMean && now >= s.retry:
		if c.completes() || c.orphan() {
			s.batch, s.begun, s.before, s.speed, s.tried = true, now, s.mean, s.rate, c.orphan()
			if c.otherFlow == f.index {
				c.other = 0
			}
		}
	case s.batch && s.rate < slowRate:
		c.leave(p, f)
	case s.batch && !s.tried && now.Sub(s.begun) >= trialTime:
		if s.tried = true; s.mean < s.before*3/2 || s.rate < s.speed*3/4 {
			c.leave(p, f)
			s.pause = min(max(firstPause, 2*s.pause), longestWait)
			s.retry = now.Add(s.pause)
		}
	}
	if !s.batch {
		return
	}
	c.held = now
	if c.alone(now) {
		c.spin(p, false)
		c.scan(p, c.scans || c.orphan() && !c.share.shared && c.worthLooks(now, p, s))
	}
	if c.orphan() && c.alone(now) {
		c.share.consider(now, &p.TX.stats, c.scans)
	}
}

// leave ends the holding of a flow, and what is held of it.
func (c *control) leave(p *Pair, f *flow) {
	if f.send.batch {
		f.send.batch = false
		p.expireSoon()
	}
}

// acked accounts a TCP frame to the guest, and reports whether it may wait: plain
// says that it could, being an ACK and no more, and before is what was
// acknowledged until then. While few packets are in flight one of many passes: a
// sender that drains the path to measure it (bbr_update_min_rtt, v6.12) has to
// see its true length.
func (c *control) acked(now vtime.Time, p *Pair, f *flow, a *newACK, before frame.Seq, plain bool) bool {
	if a.payload > 0 || a.sack || a.wnd == 0 || a.flags&^(frame.TCPAck|frame.TCPPsh) != 0 {
		c.leave(p, f)
		f.send.since = 0
		return false
	}
	if !plain || !f.send.batch || c.orphan() && !c.alone(now) {
		return false
	}
	s := &f.send
	if few := int32(fewPackets * s.segment); s.end.Sub(before) <= few && now >= s.passed.Add(fewEvery) {
		s.passed = now
		return false
	}
	return true
}

// arm sets the deadline for everything of the pair that is held, if it is not
// set or is later.
func (c *control) arm(now vtime.Time, p *Pair, f *flow) {
	t := maxHold
	if c.share.shared {
		t = thinShared
	} else if c.orphan() {
		t = thinOrphan
	} else if r := f.send.rate; r > 0 {
		t = min(max(time.Duration(batchBytes*int64(time.Second)/r), minHold), maxHold)
	}
	at := now.Add(t)
	p.TX.heldAt = min(p.TX.heldAt, at)
	p.RX.thinAt = min(p.RX.thinAt, at)
}
