package tcp

import "github.com/vnetbench/vnetbench/guest/skb"

// queueCWR asks the next new packet to tell the peer that the window was
// reduced (tcp_ecn_queue_cwr).
func (s *Sock) queueCWR() { s.cwrQueued = s.ecnOK }

// ecnSend marks a packet that carries new data: it says that the window was
// reduced, once (tcp_ecn_send, v6.1).
func (s *Sock) ecnSend(g *seg, p *skb.SKB) {
	if s.cwrQueued && g.len > 0 && !before(g.seq, s.sndNxt) {
		s.cwrQueued = false
		p.Flags |= skb.CWR
	}
}

// delivered counts segments that reached the receiver; those of an ACK that
// echoes a congestion mark count as marked (tcp_count_delivered).
func (s *Sock) delivered(n uint32, st *ackState) {
	s.dlv.total += uint64(n)
	if st.flag&flagECE != 0 {
		s.dlv.marked += uint64(n)
	}
}
