package link

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// GROConfig describes receive offload. The zero value is none.
type GROConfig struct {
	// Window is how long after its first segment a batch may take more: the
	// length of a NAPI poll. 0 turns GRO off.
	Window time.Duration
	MaxLen int32 // bytes of a merged packet from its IP header on; 0 means 65536 (gro_max_size)
	Header int32 // bytes of IP and TCP headers; 0 means 52
	Frags  int32 // segments of a packet; 0 is no limit, 17 before frag_list merging (v3.9)
}

// gro merges consecutive segments (dev_gro_receive and tcp_gro_receive, v6.1).
// One flow has one packet under way.
type gro struct {
	cfg   *GROConfig
	on    bool
	held  Segment
	count int32 // segments held
	short bool  // the last one was shorter than the first
	until vtime.Time
}

func (g *gro) init(cfg *GROConfig) {
	if cfg.MaxLen == 0 {
		cfg.MaxLen = 65536
	}
	if cfg.Header == 0 {
		cfg.Header = 52
	}
	g.cfg, g.on, g.until = cfg, cfg.Window > 0, vtime.Never
}

// hold begins a packet.
func (g *gro) hold(now vtime.Time, s *Segment) {
	g.held, g.count, g.short = *s, 1, false
	g.until = now.Add(g.cfg.Window)
}

// merge appends s to the packet under way, unless it does not follow it, has
// another timestamp or marks, or makes it too long.
func (g *gro) merge(s *Segment) bool {
	h := &g.held
	mss := h.MSS
	if g.count == 1 {
		mss = h.Len
	}
	switch {
	case g.count == 0, h.Seq+uint32(h.Len) != s.Seq, s.TSVal != h.TSVal, s.CE != h.CE, s.CWR,
		s.Len > mss, s.Len == 0,
		h.Len+g.cfg.Header+s.Len >= g.cfg.MaxLen,
		g.cfg.Frags > 0 && g.count >= g.cfg.Frags:
		return false
	}
	h.Len += s.Len
	h.MSS = mss
	h.PSH, h.FIN = h.PSH || s.PSH, h.FIN || s.FIN
	g.count++
	g.short = s.Len < mss
	return true
}

// complete reports whether the packet must not grow: its last segment was short
// or ended a write.
func (g *gro) complete() bool {
	return g.count > 0 && (g.short || g.held.PSH || g.held.FIN)
}

// take ends the packet under way; nil if there is none. It is valid until the
// next hold.
func (g *gro) take() *Segment {
	if g.count == 0 {
		return nil
	}
	g.count, g.until = 0, vtime.Never
	return &g.held
}
