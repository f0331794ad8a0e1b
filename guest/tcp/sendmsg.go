package tcp

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
)

// Write is one sendmsg of n bytes in process context. It returns how many the
// socket accepted. If that is less than n the writer sleeps until
// Env.WriteSpace and then calls Write for the rest with Continue.
//
// It reads no clock itself: the write loop does (tcp_sendmsg_locked, v6.1).
func (s *Sock) Write(n int, fl WriteFlags) int {
	if n <= 0 || s.finSent {
		return 0
	}
	s.lock()
	if fl&Continue == 0 {
		s.cnt.Writes++
		s.env.Charge(vcpu.OpSyscall, 1)
		s.callCopied, s.callSegs = false, 0
		s.checkAppLimited()
	} else if s.noSpace() {
		s.nospace = true
		s.release()
		return 0
	}
	done := s.fill(uint32(n), fl)
	s.cnt.WriteBytes += uint64(done)
	s.release()
	return int(done)
}

// fill appends bytes to the write queue until n are there or the send buffer is
// full, and pushes what is due. It returns how many it appended.
func (s *Sock) fill(n uint32, fl WriteFlags) uint32 {
	mss := s.mss
	goal := s.sizeGoal(mss)
	done, fresh := uint32(0), false
	for done < n {
		g, room := s.wq.tail, int64(0)
		if g != nil {
			room = int64(goal) - int64(g.len)
		}
		if room <= 0 || g.eor || fresh {
			if s.noSpace() {
				if s.sleep(fl, mss, goal) {
					return done
				}
				goal = s.sizeGoal(mss)
				continue
			}
			if s.flushDue() {
				goal = s.sizeGoal(mss)
				continue
			}
			g, room, fresh = s.entail(), int64(goal), false
		}
		c := s.appendBytes(g, uint32(min(room, int64(n-done))))
		if c == 0 { // no run of payload is free: close the entry and go on in a new one
			s.markPush(g)
			fresh = true
			continue
		}
		done += c
		if done < n && g.len >= goal {
			s.pushFull(g, mss)
		}
	}
	if fl&EOR != 0 && s.cfg.Switches.EORMarks && s.wq.tail != nil {
		s.wq.tail.eor = true
	}
	s.push(fl, mss, s.nonagle, goal)
	return done
}

// pushFull pushes an entry that is full while more bytes follow.
func (s *Sock) pushFull(g *seg, mss uint32) {
	if s.forcedPush() {
		s.markPush(g)
		s.cnt.ForcedPush++
		s.pushPending(mss, naglePush)
	} else if g == s.wq.head {
		s.writeLoop(mss, naglePush, 1)
	}
}

// sleep is what sendmsg does when the send buffer is full: push what there is
// and wait. It reports whether the writer really has to wait: a push can raise
// the limit of the buffer.
func (s *Sock) sleep(fl WriteFlags, mss, goal uint32) bool {
	s.nospace = true
	if s.callCopied {
		s.push(fl&^More, mss, naglePush, goal)
	}
	if !s.noSpace() {
		return false
	}
	s.cnt.Sleeps++
	return true
}

// flushDue processes the acknowledgements that came while this call runs, as
// often as the release does. It reports whether there were any, so that the
// caller starts over with fresh limits (sk_flush_backlog).
func (s *Sock) flushDue() bool {
	every := uint32(16)
	switch s.cfg.Switches.Flush {
	case FlushNever:
		return false
	case FlushEach:
		every = 1
	}
	if s.callSegs < every {
		return false
	}
	s.callSegs = 0
	if !s.drainBacklog() {
		return false
	}
	if s.cfg.Switches.FlushRelease {
		s.bh.DisableBH()
		s.releaseCallback()
		s.bh.EnableBH()
	}
	return true
}

// entail puts a new, empty entry at the end of the write queue (tcp_skb_entail).
func (s *Sock) entail() *seg {
	s.env.Charge(vcpu.OpSKBAlloc, 1)
	s.callSegs++
	g := s.newSeg()
	g.seq, g.end = s.writeSeq, s.writeSeq
	g.truesize = s.cfg.TruesizeOverhead
	if s.wantsLinear() {
		s.giveLinear(g)
	}
	s.wmemQueued += g.truesize
	s.wq.pushBack(g)
	s.nonagle &^= naglePush
	if s.cfg.Switches.IdleEntail {
		s.checkIdle(s.packetsOut == 0)
	}
	return g
}

func (s *Sock) wantsLinear() bool {
	switch s.cfg.Switches.Linear {
	case LinearAll:
		return true
	case LinearFirst:
		return s.wq.head == nil && s.rtx.head == nil
	}
	return false
}

// giveLinear makes room for payload in the head of a new entry. The head then
// comes from the 2 KiB cache, and its payload is not charged again.
func (s *Sock) giveLinear(g *seg) {
	const head, shinfo, skbuff = 2048, 320, 256
	g.frags[0] = skb.Frag{Addr: s.linearAddr()}
	g.nfrags = 1
	g.linRoom = head - s.cfg.MaxHdr - shinfo
	g.truesize = head + skbuff
}

// appendBytes adds up to n bytes to the end of an entry and returns how many;
// 0 if no run of payload is free.
func (s *Sock) appendBytes(g *seg, n uint32) uint32 {
	if n = s.appendRuns(g, n); n == 0 {
		return 0
	}
	if !s.callCopied {
		g.flags &^= skb.PSH
		s.callCopied = true
	}
	s.env.Charge(vcpu.OpCopyByte, int64(n))
	g.len += n
	g.end += n
	g.pcount = 0
	s.writeSeq += n
	return n
}

// appendRuns adds up to n bytes to the payload of an entry: to its linear part,
// and to runs of the writer's pages as far as there are any.
func (s *Sock) appendRuns(g *seg, n uint32) uint32 {
	done := min(n, g.linRoom)
	if done > 0 {
		g.frags[0].Len += done
		g.linRoom -= done
	}
	limit, paged := int32(min(s.cfg.Sysctl.MaxSKBFrags, skb.MaxFrags)), uint32(0)
	for done+paged < n {
		addr, space := s.pageFrag()
		f := skb.Frag{Addr: addr, Len: min(n-done-paged, space)}
		if !g.extend(f, limit) {
			break
		}
		s.arenaOff += f.Len
		paged += f.Len
	}
	g.truesize += paged
	s.wmemQueued += paged
	return done + paged
}

// pageFrag returns the next free address of the writer's page fragment and how
// much fits there. A page with less than 32 bytes left is given up
// (skb_page_frag_refill, v3.9 to v6.12).
func (s *Sock) pageFrag() (addr uint64, space uint32) {
	if s.arenaOff+32 > ArenaPage {
		s.arenaOff = 0
		s.arenaPage++
		if s.arenaPage >= s.cfg.ArenaPages-1 {
			s.arenaPage = 0
		}
	}
	return s.cfg.ArenaBase + uint64(s.arenaPage)*ArenaPage + uint64(s.arenaOff), ArenaPage - s.arenaOff
}

// linearAddr returns the next 2 KiB slot of the arena's last page.
func (s *Sock) linearAddr() uint64 {
	const slot = 2048
	s.linearSlot = (s.linearSlot + 1) % (ArenaPage / slot)
	return s.cfg.ArenaBase + uint64(s.cfg.ArenaPages-1)*ArenaPage + uint64(s.linearSlot)*slot
}
