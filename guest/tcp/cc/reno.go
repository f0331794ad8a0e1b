package cc

// reno is TCP NewReno's window growth (net/ipv4/tcp_cong.c, v3.8 to v6.12).
type reno struct{ opt Options }

func (*reno) Name() string                         { return "reno" }
func (*reno) Init(*Window, *Sample)                {}
func (*reno) OnRTT(*Window, *Sample)               {}
func (*reno) OnState(*Window, *Sample, State)      {}
func (*reno) OnEvent(*Window, *Sample, Event)      {}
func (*reno) Ssthresh(w *Window, _ *Sample) uint32 { return max(w.Cwnd>>1, 2) }
func (r *reno) OnAck(w *Window, s *Sample) {
	if !s.CwndLimited {
		return
	}
	acked := ackedPerCall(&r.opt, s)
	if w.InSlowStart() || (!r.opt.StretchAck && w.Cwnd == w.Ssthresh) {
		if acked = slowStart(w, acked); acked == 0 {
			return
		}
	}
	additive(w, w.Cwnd, acked)
}

// ackedPerCall is how many segments one ACK counts for: all it acknowledged,
// or one in kernels that count calls (before v3.13).
func ackedPerCall(o *Options, s *Sample) uint32 {
	if o.StretchAck {
		return s.Acked
	}
	return 1
}

// slowStart adds acked segments up to the threshold and returns how many are
// left for congestion avoidance (tcp_slow_start, v6.1).
func slowStart(w *Window, acked uint32) uint32 {
	c := w.Cwnd + acked
	if w.Ssthresh > w.Cwnd {
		c = min(c, w.Ssthresh)
	}
	acked -= c - w.Cwnd
	w.Cwnd = min(c, w.Clamp)
	return acked
}

// additive raises the window by one for every n segments acknowledged
// (tcp_cong_avoid_ai, v6.1).
func additive(w *Window, n, acked uint32) {
	if w.Cnt >= n {
		w.Cnt = 0
		w.Cwnd++
	}
	w.Cnt += acked
	if w.Cnt >= n {
		d := w.Cnt / n
		w.Cnt -= d * n
		w.Cwnd += d
	}
	w.Cwnd = min(w.Cwnd, w.Clamp)
}
