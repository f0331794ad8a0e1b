package qdisc

import "github.com/vnetbench/vnetbench/guest/skb"

// bands of pfifo_fast; a lower one is always served first.
const bands = 3

// band returns the band of a packet: its TOS decides through the priority that
// a route lookup derives from it (ip_tos2prio and prio2band, v6.1). Only the
// bits for low delay and for throughput matter; everything but IPv4 is best
// effort.
func band(p *skb.SKB) int {
	h := p.Hdr[:p.HdrLen]
	if len(h) < 16 || h[12] != 0x08 || h[13] != 0x00 {
		return 1
	}
	switch h[15] & 0x18 {
	case 0x10:
		return 0
	case 0x08:
		return 2
	}
	return 1
}
