package cc

// cubic is CUBIC (net/ipv4/tcp_cubic.c, v3.8 to v6.12).
type cubic struct{ opt Options }

func newCubic(o Options) *cubic { return &cubic{opt: o} }

func (*cubic) Name() string                         { return "cubic" }
func (*cubic) Init(*Window, *Sample)                {}
func (*cubic) OnRTT(*Window, *Sample)               {}
func (*cubic) OnState(*Window, *Sample, State)      {}
func (*cubic) OnEvent(*Window, *Sample, Event)      {}
func (*cubic) Ssthresh(w *Window, _ *Sample) uint32 { return max(w.Cwnd*717/1024, 2) }
func (*cubic) OnAck(w *Window, s *Sample)           {}
