package tcp

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Marks of a segment on the scoreboard (the sacked field of tcp_skb_cb).
const (
	markSacked  uint8 = 1 << iota // selectively acknowledged
	markLost                      // taken to be lost
	markRetrans                   // retransmitted, and the retransmission is in the network
	markEver                      // retransmitted at some time
)

// seg is an entry of the write queue or of the retransmit queue: what the
// kernel keeps as an sk_buff. Its payload is runs of the payload arena.
type seg struct {
	segState
	frags [skb.MaxFrags]skb.Frag
}

// segState is everything of a seg that a new one starts with as zero.
type segState struct {
	next, prev *seg
	sentNext   *seg // list by the time of the last transmission (RACK)
	sentPrev   *seg
	seq, end   uint32 // end counts the FIN
	len        uint32 // payload bytes
	pcount     uint32 // segments; 0 until counted (tcp_gso_segs)
	pmss       uint32 // segment size that pcount was made for; 0 if one segment
	truesize   uint32
	linRoom    uint32 // bytes that the linear part can still take
	nfrags     int32
	flags      uint8 // skb.PSH and skb.FIN
	mark       uint8
	eor        bool // nothing may be appended
	rest       bool // left over from a cut
	sentOn     bool // on the list by time
	appLimited bool // the application held back when it left (rate sample)

	sent        vtime.Time // departure of the last transmission
	firstTx     int64      // rate sample: start of the send interval, µs
	deliveredAt int64      // rate sample: time of the delivered count, µs; 0: used up
	delivered   uint64     // rate sample: delivered count when it left
}

// setSegs counts the segments of g for a segment size (tcp_set_skb_tso_segs).
func (g *seg) setSegs(mss uint32) {
	if g.len <= mss {
		g.pcount, g.pmss = 1, 0
		return
	}
	g.pcount, g.pmss = ceilDiv(g.len, mss), mss
}

// initSegs counts the segments unless that was done for this segment size
// (tcp_init_tso_segs).
func (g *seg) initSegs(mss uint32) {
	if g.pcount == 0 || (g.pcount > 1 && g.pmss != mss) {
		g.setSegs(mss)
	}
}

// continues reports whether run b goes on where a ends, in the same page of the
// arena (skb_can_coalesce).
func continues(a, b *skb.Frag) bool { return a.Addr+uint64(a.Len) == b.Addr && b.Addr%ArenaPage != 0 }

// extend adds payload at the end: to the last run if it continues there, else
// as a new run. False means that no run of limit, at most skb.MaxFrags, is free.
func (g *seg) extend(f skb.Frag, limit int32) bool {
	if n := g.nfrags; n > 0 && continues(&g.frags[n-1], &f) {
		g.frags[n-1].Len += f.Len
		return true
	}
	if g.nfrags >= limit {
		return false
	}
	g.frags[g.nfrags] = f
	g.nfrags++
	return true
}

// cutFrags moves the payload of g from byte n on to the empty rest.
func (g *seg) cutFrags(n uint32, rest *seg) {
	keep := int32(0)
	for i := int32(0); i < g.nfrags; i++ {
		f := g.frags[i]
		if n >= f.Len {
			n -= f.Len
			keep = i + 1
			continue
		}
		if n > 0 {
			g.frags[i].Len = n
			keep = i + 1
			f.Addr, f.Len = f.Addr+uint64(n), f.Len-n
			n = 0
		}
		rest.frags[rest.nfrags] = f
		rest.nfrags++
	}
	g.nfrags = keep
}

// dropFront removes n bytes of payload from the front of g's runs.
func (g *seg) dropFront(n uint32) {
	i := int32(0)
	for ; i < g.nfrags && n >= g.frags[i].Len; i++ {
		n -= g.frags[i].Len
	}
	if i < g.nfrags && n > 0 {
		g.frags[i].Addr += uint64(n)
		g.frags[i].Len -= n
	}
	copy(g.frags[:], g.frags[i:g.nfrags])
	g.nfrags -= i
}

// segList is a queue of segments in sequence order.
type segList struct{ head, tail *seg }

func (l *segList) pushBack(g *seg) { l.insertAfter(l.tail, g) }

// insertAfter puts g behind at, or in front if at is nil.
func (l *segList) insertAfter(at, g *seg) {
	g.prev = at
	if at == nil {
		g.next, l.head = l.head, g
	} else {
		g.next, at.next = at.next, g
	}
	if g.next == nil {
		l.tail = g
	} else {
		g.next.prev = g
	}
}

func (l *segList) remove(g *seg) {
	if g.prev == nil {
		l.head = g.next
	} else {
		g.prev.next = g.next
	}
	if g.next == nil {
		l.tail = g.prev
	} else {
		g.next.prev = g.prev
	}
	g.next, g.prev = nil, nil
}

// newSeg takes a segment from the free list; everything but the bytes of the
// unused runs is zero.
func (s *Sock) newSeg() *seg {
	g := s.freeSegs
	if g == nil {
		return &seg{}
	}
	s.freeSegs = g.next
	g.segState = segState{}
	return g
}

// freeSeg gives a segment back and takes its memory off the send buffer.
func (s *Sock) freeSeg(g *seg) {
	s.wmemQueued -= g.truesize
	if s.sackHint == g {
		s.sackHint = nil
	}
	if s.lostHint == g {
		s.lostHint = nil
	}
	if s.rexmitHint == g {
		s.rexmitHint = nil
	}
	s.unlistSent(g)
	g.next = s.freeSegs
	s.freeSegs = g
}

// split cuts g after n bytes; what follows becomes the next entry of the list.
// FIN, PSH and the end of record go with it (tso_fragment, tcp_fragment).
func (s *Sock) split(l *segList, g *seg, n, mss uint32) *seg {
	s.cnt.Splits++
	rest := s.newSeg()
	nlen := g.len - n
	rest.truesize = s.cfg.TruesizeOverhead + nlen
	s.wmemQueued += s.cfg.TruesizeOverhead
	g.truesize -= min(nlen, g.truesize)
	rest.seq, rest.end, rest.len = g.seq+n, g.end, nlen
	g.end, g.len, g.linRoom = rest.seq, n, 0
	rest.flags, rest.eor, rest.rest = g.flags, g.eor, true
	g.flags &^= skb.FIN | skb.PSH
	g.eor = false
	rest.mark, rest.sent = g.mark, g.sent
	rest.firstTx, rest.deliveredAt = g.firstTx, g.deliveredAt
	rest.delivered, rest.appLimited = g.delivered, g.appLimited
	g.cutFrags(n, rest)
	g.setSegs(mss)
	rest.setSegs(mss)
	l.insertAfter(g, rest)
	if g.sentOn {
		s.listSentAfter(g, rest)
	}
	return rest
}

// grow lengthens g by up to n bytes of its follower, and frees the follower if
// nothing of it is left. Only one follower is used (tcp_grow_skb, v6.10).
func (s *Sock) grow(g *seg, n uint32) bool {
	f := g.next
	if f == nil || g.eor {
		return false
	}
	n = min(n, f.len)
	if n == 0 || !g.fitsFrags(f, n) {
		return false
	}
	s.cnt.Grows++
	g.takeFrags(f, n)
	g.end += n
	g.len += n
	g.truesize += n
	g.linRoom = 0
	f.seq += n
	f.len -= n
	f.truesize -= min(n, f.truesize)
	if f.len == 0 {
		g.end = f.end
		g.flags |= f.flags
		g.eor = f.eor
		s.wq.remove(f)
		s.freeSeg(f)
	}
	return true
}

// fitsFrags reports whether the first n bytes of f can become payload of g.
func (g *seg) fitsFrags(f *seg, n uint32) bool {
	if g.nfrags+f.nfrags <= skb.MaxFrags {
		return true
	}
	need := int32(0)
	for i := int32(0); i < f.nfrags && n > 0; i++ {
		n -= min(n, f.frags[i].Len)
		need++
	}
	if need > 0 && g.nfrags > 0 && continues(&g.frags[g.nfrags-1], &f.frags[0]) {
		need--
	}
	return g.nfrags+need <= skb.MaxFrags
}

// takeFrags moves the first n bytes of f to the end of g, where they fit.
func (g *seg) takeFrags(f *seg, n uint32) {
	i := int32(0)
	for ; i < f.nfrags && n >= f.frags[i].Len; i++ {
		if n > 0 {
			g.extend(f.frags[i], skb.MaxFrags)
		}
		n -= f.frags[i].Len
	}
	if n > 0 {
		r := &f.frags[i]
		g.extend(skb.Frag{Addr: r.Addr, Len: n}, skb.MaxFrags)
		r.Addr += uint64(n)
		r.Len -= n
	}
	f.nfrags -= i
	if i > 0 {
		copy(f.frags[:f.nfrags], f.frags[i:])
	}
}

// trim removes n acknowledged bytes from the front of g and counts its
// segments anew if it had more than one (tcp_trim_head).
func (s *Sock) trim(g *seg, n uint32) {
	g.dropFront(n)
	g.seq += n
	g.len -= n
	cut := min(n, g.truesize-1)
	g.truesize -= cut
	s.wmemQueued -= cut
	g.linRoom = 0
	if g.pcount > 1 {
		g.setSegs(g.pmss)
	}
}
