package tcp

import "github.com/vnetbench/vnetbench/guest/skb"

// minTruesize is what a packet of one byte is charged at least: SKB_TRUESIZE(1),
// with a 256-byte sk_buff and 320 bytes of shared info (include/linux/skbuff.h,
// v6.1).
const minTruesize = 1 + 256 + 320

// OOOOkay reports whether packet p may leave by another queue than the socket's
// last one: none of the socket's packets but p is below TCP, so that none can
// be overtaken (skb->ooo_okay, tcp_transmit_skb, v6.1; v3.8 asks for no byte at
// all, which is the same because no packet is smaller). Since v6.7 it may also
// if all packets before it are acknowledged. It is for Env.Transmit, while p is
// still charged and not yet in the retransmit queue.
func (s *Sock) OOOOkay(p *skb.SKB) bool {
	if s.cfg.Switches.OOOAcked && s.rtx.head == nil {
		return true
	}
	return int64(s.wmemAlloc)-1-int64(p.TrueSize) < minTruesize
}

// Cwnd returns the congestion window in segments: one field of Info without the
// rest.
func (s *Sock) Cwnd() uint32 { return s.win.Cwnd }

// HasSpace reports whether a write would not have to sleep for room in the send
// buffer (sk_stream_memory_free).
func (s *Sock) HasSpace() bool { return !s.noSpace() }
