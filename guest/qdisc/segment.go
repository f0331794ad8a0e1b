package qdisc

import (
	"encoding/binary"

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
		truesize = p.TrueSize
		cut      = cutter{src: p}
	)
	for i := range p.Segs {
		s := c.pool.Get()
		n := min(p.GSOSize, p.Len-i*p.GSOSize)
		share := truesize / (p.Segs - i)
		truesize -= share
		cut.next(s, n)
		inherit(s, p, i, n, share)
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
	copy(s.Hdr[:s.HdrLen], p.Hdr[:p.HdrLen])
	rewrite(s.Hdr[:s.HdrLen], uint16(i), s)
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

// rewrite makes the headers in h, copied from a packet, those of its i-th
// segment s: lengths, IPv4 identification and checksum, sequence number, flags,
// and the pseudo-header sum that the TCP checksum field holds. Headers that are
// not TCP over IP are left alone.
func rewrite(h []byte, i uint16, s *skb.SKB) {
	const eth = 14
	var tcp int
	var length uint16 // of TCP header and payload, before
	switch {
	case len(h) >= eth+40 && h[12] == 0x08 && h[13] == 0x00:
		tcp = eth + int(h[eth]&15)*4
		length = binary.BigEndian.Uint16(h[eth+2:]) - uint16(tcp-eth)
		if tcp+20 > len(h) {
			return
		}
		csum := rewriteIPv4(h[eth:tcp], i, uint16(len(h)-eth)+uint16(s.Len))
		binary.BigEndian.PutUint16(h[eth+10:], csum)
	case len(h) >= eth+60 && h[12] == 0x86 && h[13] == 0xdd:
		tcp = eth + 40
		length = binary.BigEndian.Uint16(h[eth+4:])
		binary.BigEndian.PutUint16(h[eth+4:], uint16(len(h)-tcp)+uint16(s.Len))
	default:
		return
	}
	t := h[tcp:]
	binary.BigEndian.PutUint32(t[4:], s.Seq)
	t[13] = s.Flags
	sum := uint64(binary.BigEndian.Uint16(t[16:])) + uint64(^length) + uint64(len(t)) + uint64(s.Len)
	binary.BigEndian.PutUint16(t[16:], fold(sum))
}

// rewriteIPv4 makes an IPv4 header that of the i-th segment, with total bytes, but
// for its checksum, which it returns.
func rewriteIPv4(ip []byte, i, total uint16) (csum uint16) {
	binary.BigEndian.PutUint16(ip[2:], total)
	binary.BigEndian.PutUint16(ip[4:], binary.BigEndian.Uint16(ip[4:])+i)
	ip[10], ip[11] = 0, 0
	var sum uint64 // of 32-bit words, which fold to the same
	for ; len(ip) >= 4; ip = ip[4:] {
		sum += uint64(binary.BigEndian.Uint32(ip))
	}
	return ^fold(sum)
}

// fold adds the carries of a one's complement sum back in.
func fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
