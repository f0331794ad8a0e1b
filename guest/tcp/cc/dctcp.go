package cc

// Parameters of DCTCP (net/ipv4/tcp_dctcp.c, v3.18 to v6.12).
const (
	dctcpMaxAlpha = 1024 // all segments were marked
	dctcpShift    = 4    // weight of a round trip: 1/16
)

// dctcp reduces the window by the share of segments that were marked, which it
// keeps as an average over round trips. It grows like Reno, and is Reno if the
// peers did not agree on congestion marks (net/ipv4/tcp_dctcp.c).
//
// Deviation: the share that protective load balancing looks at (v6.2) is not
// kept, because paths do not change here.
type dctcp struct {
	reno
	ecn       bool
	alpha     uint32 // share of marked segments, in 1024ths
	nextSeq   uint32 // the round trip ends when this is acknowledged
	delivered uint64 // segments delivered, and marked, before this round trip
	marked    uint64
	lossCwnd  uint32
}

func (*dctcp) Name() string { return "dctcp" }

func (d *dctcp) Init(_ *Window, s *Sample) {
	d.ecn = s.ECN
	d.alpha = dctcpMaxAlpha
	d.lossCwnd = 0
	d.restart(s)
}

// restart begins a round trip (dctcp_reset).
func (d *dctcp) restart(s *Sample) {
	d.nextSeq = s.SndNxt
	d.delivered, d.marked = s.DeliveredAll, s.MarkedAll
}

// OnDelivered takes the share of a round trip into the average
// (dctcp_update_alpha).
func (d *dctcp) OnDelivered(_ *Window, s *Sample) {
	if !d.ecn || int32(s.SndUna-d.nextSeq) < 0 {
		return
	}
	delivered, marked := uint32(s.DeliveredAll-d.delivered), uint32(s.MarkedAll-d.marked)
	less := d.alpha >> dctcpShift
	if less == 0 {
		less = d.alpha
	}
	d.alpha -= less
	if marked > 0 {
		d.alpha = min(d.alpha+marked<<(10-dctcpShift)/max(1, delivered), dctcpMaxAlpha)
	}
	d.restart(s)
}

// Ssthresh takes half of the share off the window (dctcp_ssthresh).
func (d *dctcp) Ssthresh(w *Window, s *Sample) uint32 {
	if !d.ecn {
		return d.reno.Ssthresh(w, s)
	}
	d.lossCwnd = w.Cwnd
	return max(w.Cwnd-w.Cwnd*d.alpha>>11, 2)
}

// halve reacts to a loss as Reno does (dctcp_react_to_loss).
func (d *dctcp) halve(w *Window) {
	d.lossCwnd = w.Cwnd
	w.Ssthresh = max(w.Cwnd>>1, 2)
}

func (d *dctcp) OnState(w *Window, s *Sample, to State) {
	if d.ecn && to == Recovery && s.State != Recovery {
		d.halve(w)
	}
}

func (d *dctcp) OnEvent(w *Window, _ *Sample, e Event) {
	if d.ecn && e == LossTimeout {
		d.halve(w)
	}
}

func (d *dctcp) Undo(w *Window, s *Sample) uint32 {
	if !d.ecn {
		return d.reno.Undo(w, s)
	}
	return max(w.Cwnd, d.lossCwnd)
}
