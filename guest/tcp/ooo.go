package tcp

import "github.com/vnetbench/vnetbench/guest/skb"

// minTruesize is what a packet with one byte is charged at least:
// SKB_TRUESIZE(1) with a 256-byte sk_buff and 320 bytes of shared info
// (include/linux/skbuff.h, v6.1).
const minTruesize = 640

// OOOOkay reports whether packet p may leave by another queue than the socket's
// last one: none of the socket's packets but p is below TCP, so that none can
// be overtaken (skb->ooo_okay, tcp_transmit_skb, v3.8 to v6.12). It is for
// Env.Transmit, while p is still charged.
func (s *Sock) OOOOkay(p *skb.SKB) bool {
	return int64(s.wmemAlloc)-int64(p.TrueSize) < minTruesize
}
