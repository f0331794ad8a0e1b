package cc

// reno is TCP NewReno's window growth (net/ipv4/tcp_cong.c, v3.8 to v6.12).
type reno struct{ opt Options }

func (*reno) Name() string { return "reno" }

func (*reno) Init(*Window, *Sample) {}

func (*reno) OnState(*Window, *Sample, State) {}

func (*reno) OnEvent(*Window, *Sample, Event) {}

func (*reno) Ssthresh(w *Window, _ *Sample) uint32 { return max(w.Cwnd>>1, 2) }

// Undo is the window before the reduction (tcp_reno_undo_cwnd, v4.14).
func (*reno) Undo(w *Window, s *Sample) uint32 { return max(w.Cwnd, s.PriorCwnd) }

func (r *reno) OnAck(w *Window, s *Sample) {
	if !s.CwndLimited {
		return
	}
	if acked, more := r.opt.slowStart(w, s.Acked); more {
		additive(w, w.Cwnd, r.opt.avoidAcked(acked))
	}
}

// slowStart grows the window by the acknowledged segments, up to the
// threshold, and reports how many are left for congestion avoidance and
// whether it has to run. Before v3.13 an ACK counts for one segment, and the
// threshold itself still belongs to slow start (tcp_slow_start).
func (o *Options) slowStart(w *Window, acked uint32) (left uint32, more bool) {
	if !o.StretchSlowStart {
		if w.Cwnd > w.Ssthresh {
			return acked, true
		}
		w.Cwnd = min(w.Cwnd+1, w.Clamp)
		return 0, false
	}
	if !w.InSlowStart() {
		return acked, true
	}
	c := min(w.Cwnd+acked, w.Ssthresh)
	acked -= c - w.Cwnd
	w.Cwnd = min(c, w.Clamp)
	return acked, acked > 0 && o.StretchAvoid
}

// avoidAcked is how many segments an ACK counts for in congestion avoidance:
// one before v4.0.
func (o *Options) avoidAcked(acked uint32) uint32 {
	if o.StretchAvoid {
		return acked
	}
	return 1
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
