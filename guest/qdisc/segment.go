package qdisc

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
)

// splitter cuts packets in software.
type splitter struct {
	meter vcpu.Meter
	pool  *skb.Pool // segments come from here
}

// segment cuts a packet into its segments at the end of a list, as the
// kernel does for a device without TSO (tcp_gso_segment, v6.1). The owner's
// charge moves to the segments, shared out so that the sum stays. PSH and FIN
// stay on the last segment, CWR on the first.
func (c splitter) segment(p *skb.SKB, to *skb.List) {
	c.meter.Charge(vcpu.OpSegment, int64(p.Segs))
	var (
		share = p.TrueSize / p.Segs
		more  = p.Segs - p.TrueSize%p.Segs // from this segment on a byte more
		cut   = cutter{src: p}
		all   headers
	)
	all.read(p.Hdr[:p.HdrLen])
	for i := range p.Segs {
		s := c.pool.Get()
		n := min(p.GSOSize, p.Len-i*p.GSOSize)
		if i == more {
			share++
		}
		cut.next(s, n)
		inherit(s, p, i, n, share)
		all.write(s, uint16(i))
		to.Push(s)
	}
	p.Owner = nil // its charge lives on in the segments
	p.Free()
}

// inherit fills segment s, the i-th of p, with n payload bytes.
func inherit(s, p *skb.SKB, i, n, truesize int32) {
	s.Owner, s.Flow, s.Queue, s.Hash = p.Owner, p.Flow, p.Queue, p.Hash
	s.Seq, s.Ack = p.Seq+uint32(i*p.GSOSize), p.Ack
	s.Len, s.Segs, s.TrueSize = n, 1, truesize
	s.Retrans, s.Rule, s.Tstamp, s.Born = p.Retrans, p.Rule, p.Tstamp, p.Born
	s.Flags = p.Flags
	if i > 0 {
		s.Flags &^= skb.CWR
	}
	if i < p.Segs-1 {
		s.Flags &^= skb.PSH | skb.FIN
	}
	s.HdrLen = p.HdrLen
	s.Hdr = p.Hdr
}

// cutter deals the fragments of a packet out to its segments.
type cutter struct {
	src  *skb.SKB
	frag int32
	off  uint32
}

// next gives s the following n payload bytes.
func (c *cutter) next(s *skb.SKB, n int32) {
	s.NFrags = 0
	for left := uint32(n); left > 0 && c.frag < c.src.NFrags; {
		f := c.src.Frags[c.frag]
		take := min(left, f.Len-c.off)
		s.Frags[s.NFrags] = skb.Frag{Addr: f.Addr + uint64(c.off), Len: take}
		s.NFrags++
		left -= take
		if c.off += take; c.off == f.Len {
			c.frag, c.off = c.frag+1, 0
		}
	}
}
