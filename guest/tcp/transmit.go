package tcp

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp/cc"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// transmit makes a packet of an entry and hands it down (tcp_transmit_skb). It
// reports whether the layer below took it.
//
// From v4.13 on it reads no clock: it uses the reading of the write loop or of
// the ACK. Before, it reads the clock for every packet (v3.15), or if CUBIC
// wants stamps finer than the tick (up to v3.14 and HZ below 1000).
func (s *Sock) transmit(g *seg, rule Rule, retrans bool) bool {
	s.env.Charge(vcpu.OpTCPXmit, 1)
	s.stampPacket()
	prior := s.wstamp
	s.wstamp = max(s.wstamp, s.clock)
	g.sent = s.wstamp
	p := s.clone(g, rule, retrans)
	s.ecnSend(g, p)
	if g.len > 0 {
		s.eventDataSent(p)
		s.cnt.Packets++
		s.cnt.Segs += uint64(g.pcount)
		s.cnt.Bytes += uint64(g.len)
		s.cnt.Cuts[rule]++
	}
	n := g.len
	if !s.env.Transmit(s, p) {
		s.cnt.Dropped++
		s.enterCWR()
		return false
	}
	s.pacedOut(n, prior)
	s.listSent(g)
	s.rateSent(g)
	return true
}

// clone fills a packet from an entry and charges it to the socket.
func (s *Sock) clone(g *seg, rule Rule, retrans bool) *skb.SKB {
	p := s.newPacket()
	p.Seq, p.Len, p.Segs = g.seq, int32(g.len), int32(g.pcount)
	p.TrueSize = int32(g.truesize)
	if g.pcount > 1 {
		p.GSOSize = int32(g.pmss)
	}
	p.Flags = skb.ACK | g.flags
	if g.pcount > 1 && s.cfg.Switches.PSHTSO {
		p.Flags |= skb.PSH
	}
	p.Rule, p.Retrans = uint8(rule), retrans
	for i := int32(0); i < g.nfrags; i++ {
		if g.frags[i].Len > 0 {
			p.Frags[p.NFrags] = g.frags[i]
			p.NFrags++
		}
	}
	p.Owner = s
	s.wmemAlloc += g.truesize
	return p
}

// newPacket returns an empty packet of this flow, stamped.
func (s *Sock) newPacket() *skb.SKB {
	p := s.pool.Get()
	p.Flow, p.Ack = s.flow, s.cfg.RcvNxt
	p.Segs = 1
	p.Born = s.env.Local()
	if s.cfg.Switches.Pace == PaceEDT {
		p.Tstamp = s.wstamp
	}
	return p
}

// eventDataSent is told every packet with data, just before it leaves
// (tcp_event_data_sent).
func (s *Sock) eventDataSent(p *skb.SKB) {
	if s.inFlight() == 0 {
		smp := s.sample()
		smp.LastSend = s.lastSendTick()
		s.cc.OnEvent(&s.win, smp, cc.TxStart)
	}
	if !s.cfg.Switches.IdleEntail {
		s.checkIdle(s.packetsOut == 0)
	}
	s.lastSend = p.Born
	s.dataSegsOut += uint32(p.Segs)
}

// lastSendTick is the tick of the last packet with data.
func (s *Sock) lastSendTick() uint32 { return uint32(s.wholeTicks(s.lastSend)) }

// refreshClock reads the clock at the start of a pass (tcp_mstamp_refresh).
// Kernels before v4.13 read it per packet instead.
func (s *Sock) refreshClock() {
	if s.cfg.Switches.ClockCache && !s.quiet {
		s.clock = s.env.Now()
	} else {
		s.clock = s.env.Local()
	}
}

// readClock reads the clock. What release_sock calls at its end runs with
// softirqs off although it is in process context, so that a reading costs as
// little there as in a softirq.
func (s *Sock) readClock() vtime.Time {
	if s.quiet {
		return s.env.Local()
	}
	return s.env.Now()
}

// stampPacket reads the clock for one packet in kernels that do so.
func (s *Sock) stampPacket() {
	switch {
	case s.cfg.Switches.ClockCache:
	case s.cfg.Switches.RTTUs || s.rttStamp:
		s.clock = s.readClock()
	default:
		s.clock = s.env.Local()
	}
}

// jiffies is the tick counter. Looking at it is not a clock read.
func (s *Sock) jiffies() uint32 { return uint32(s.ticks(s.env.Local())) }

// ticks is the number of whole clock ticks until t. It remembers the tick that
// it saw last, because nearly all questions are about the same one.
func (s *Sock) ticks(t vtime.Time) int64 {
	if uint64(t-s.tickFrom) < uint64(s.tickNs) {
		return s.tickNo
	}
	return s.countTicks(t)
}

func (s *Sock) countTicks(t vtime.Time) int64 {
	n := s.wholeTicks(t)
	if s.tickNs != 0 {
		s.tickNo, s.tickFrom = n, vtime.Time(n*s.tickNs)
	}
	return n
}

// wholeTicks is the number of whole clock ticks in a span of time.
func (s *Sock) wholeTicks(d vtime.Time) int64 {
	if s.tickNs != 0 {
		return int64(d) / s.tickNs
	}
	return int64(d) * int64(s.cfg.HZ) / 1_000_000_000
}

// tickTime is when the tick counter reaches n.
func (s *Sock) tickTime(n int64) vtime.Time {
	if s.tickNs != 0 {
		return vtime.Time(n * s.tickNs)
	}
	hz := int64(s.cfg.HZ)
	return vtime.Time((n*1_000_000_000 + hz - 1) / hz)
}

// ticksToUs is the length of so many ticks, µs (jiffies_to_usecs).
func (s *Sock) ticksToUs(n int64) int64 {
	if s.tickUs != 0 {
		return n * s.tickUs
	}
	return n * 1_000_000 / int64(s.cfg.HZ)
}

// usToTicks rounds microseconds up to ticks (usecs_to_jiffies).
func (s *Sock) usToTicks(us int64) int64 {
	return (us*int64(s.cfg.HZ) + 999_999) / 1_000_000
}
