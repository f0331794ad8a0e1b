package cc

import (
	"github.com/vnetbench/vnetbench/guest/tcp/minmax"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Scales of BBR's numbers (net/ipv4/tcp_bbr.c, v4.9 to v6.12).
const (
	bwShift   = 24 // a bandwidth is segments per µs, times 2^24
	bwUnit    = 1 << bwShift
	gainShift = 8 // a gain of 1 is 256
	gainUnit  = 1 << gainShift
)

// Parameters of BBR v1 (net/ipv4/tcp_bbr.c, v4.9 to v6.12).
const (
	bbrHighGain     = gainUnit*2885/1000 + 1 // 2/ln 2: doubles the rate every round trip
	bbrDrainGain    = gainUnit * 1000 / 2885 // the inverse
	bbrCwndGain     = 2 * gainUnit
	bbrCycleLen     = 8  // phases of the gain cycle
	bbrCycleStarts  = 7  // phases that the cycle may start in: all but the slow one
	bbrBWRounds     = 10 // window of the bandwidth filter, rounds
	bbrMinRTTSecs   = 10 // window of the round trip filter, s
	bbrProbeRTTMs   = 200
	bbrMinCwnd      = 4
	bbrFullBWGain   = gainUnit * 5 / 4 // growth that says the pipe is not yet full
	bbrFullBWRounds = 3
	bbrInitCwnd     = 10
	bbrMinTSORate   = 1_200_000 / 8 // bytes/s; below it a packet may be one segment
	bbrGoalMax      = 127           // the goal was a 7-bit field once, and stayed so
	bbrQuantum      = 3             // packets that the two hosts may hold without using the path
)

// bbrCycle is the pacing gain of each phase of PROBE_BW: probe for more, give
// back, then cruise.
var bbrCycle = [bbrCycleLen]uint32{gainUnit * 5 / 4, gainUnit * 3 / 4,
	gainUnit, gainUnit, gainUnit, gainUnit, gainUnit, gainUnit}

// BBROptions is what BBR must know of the kernel and of the socket it runs in.
// The zero value of a switch is the older behaviour.
type BBROptions struct {
	Phase       uint8  // first draw of a phase: 1 to 7 start PROBE_BW in phase 0, 7, 6, 5, 4, 3, 2; 0: from Seed
	Seed        uint64 // of the draws of phases
	MaxHdr      uint32 // MAX_TCP_HEADER, bytes
	HeaderBytes uint32 // IP and TCP headers of a packet
	GSORoom     uint32 // the socket's bound of a packet, bytes, as the kernel computes it
	GSOSegs     uint32 // the socket's gso_max_segs

	StoredGoal bool // segments per packet are computed at every ACK and are the packet's size (v4.9 to v4.16)
	GSOUnaware bool // and then know no gso_max_segs (350c9f484bde, v4.16)
	RTTStrict  bool // only a smaller round trip, not an equal one, renews the minimum (v4.18)
	IdleExit   bool // PROBE_RTT caps the window at ACKs of nothing too, and can end at a start after idle (v4.19)
	EDT        bool // departure times: rates are of payload less 1 %, packets that wait are not in the network (v4.20)
	PlusTwo    bool // two segments more while probing for bandwidth (v5.0)
	Aggregate  bool // room for what the path acknowledges in bursts (v5.1)
}

// bbrMode is what BBR does at the moment (enum bbr_mode).
type bbrMode uint8

const (
	bbrStartup bbrMode = iota
	bbrDrain
	bbrProbeBW
	bbrProbeRTT
)

var bbrModeNames = [...]string{"startup", "drain", "probe_bw", "probe_rtt"}

// bbr is BBR v1: it models the path by its bandwidth and its least round trip
// and paces at a gain times the bandwidth (net/ipv4/tcp_bbr.c).
//
// Deviation: before v4.20 a change of mode sets the gains at once, here they
// follow at the end of the ACK in every kernel. It shows only while a policed
// rate is in use.
type bbr struct {
	opt  BBROptions
	hz   uint32
	rand uint64

	mode        bbrMode
	prevState   State
	conserve    bool // one segment out for each delivered
	roundStart  bool // this ACK begins a round
	idleRestart bool
	probeRound  bool // a round passed in PROBE_RTT
	full        bool // the pipe was found full
	seenRTT     bool
	fullCnt     uint8
	cycleIdx    uint8
	pacingGain  uint32
	cwndGain    uint32
	goal        uint32 // segments per packet (StoredGoal)
	minRTT      uint32 // µs; all ones: none
	minRTTStamp uint32 // tick
	probeDone   uint32 // tick at which PROBE_RTT may end; 0: not yet started
	bw          minmax.Max
	rounds      uint32
	nextRound   uint64 // delivered count that ends the round
	cycleStart  int64  // µs
	priorCwnd   uint32
	fullBW      uint32
	lt          longTerm
	aggr        aggregation
}

func newBBR(o Options) *bbr {
	b := &bbr{opt: o.BBR, hz: o.HZ}
	b.rand = b.opt.Seed
	return b
}

func (*bbr) Name() string { return "bbr" }

// Init starts in STARTUP, with the pacing rate of the initial window per round
// trip (bbr_init).
func (b *bbr) Init(w *Window, s *Sample) {
	*b = bbr{opt: b.opt, hz: b.hz, rand: b.rand}
	w.Ssthresh = InfiniteSsthresh
	b.nextRound = s.DeliveredAll
	b.minRTT, b.minRTTStamp = s.RTTMin, s.Jiffies
	b.initPacing(w, s)
	b.lt.reset(s)
	b.aggr.start = usec(s.Now)
}

func (*bbr) OnAck(*Window, *Sample) {}

// Ssthresh keeps the threshold: BBR does not use it. It remembers the window
// for the end of the recovery (bbr_ssthresh).
func (b *bbr) Ssthresh(w *Window, _ *Sample) uint32 {
	b.saveCwnd(w)
	return w.Ssthresh
}

// Undo looks for a full pipe again; the window was not cut (bbr_undo_cwnd).
func (b *bbr) Undo(w *Window, s *Sample) uint32 {
	b.fullBW, b.fullCnt = 0, 0
	b.lt.reset(s)
	return w.Cwnd
}

// OnState treats a timeout as the end of a round with a loss (bbr_set_state).
func (b *bbr) OnState(_ *Window, s *Sample, to State) {
	if to != Loss {
		return
	}
	b.prevState = Loss
	b.fullBW = 0
	b.roundStart = true
	ev := *s
	ev.Losses, ev.Rate.AppLimited = 1, false
	b.sampleLongTerm(&ev)
}

// OnEvent paces a start after idle time at the bandwidth (bbr_cwnd_event).
func (b *bbr) OnEvent(w *Window, s *Sample, e Event) {
	if e != TxStart || w.AppLimited == 0 {
		return
	}
	b.idleRestart = true
	b.aggr.start, b.aggr.acked = usec(s.Now), 0
	switch {
	case b.mode == bbrProbeBW:
		b.setPacing(w, s, b.bandwidth(), gainUnit)
	case b.mode == bbrProbeRTT && b.opt.IdleExit:
		b.leaveProbeRTT(w, s)
	}
}

// OnRate updates the model of the path and sets rate and window by it
// (bbr_main).
func (b *bbr) OnRate(w *Window, s *Sample) {
	b.updateBandwidth(s)
	if b.opt.Aggregate {
		b.updateAggregation(w, s)
	}
	if b.mode == bbrProbeBW && b.phaseOver(s) {
		b.advancePhase(s)
	}
	b.checkFull(s)
	b.checkDrain(w, s)
	b.updateMinRTT(w, s)
	b.updateGains()
	bw := b.bandwidth()
	b.setPacing(w, s, bw, b.pacingGain)
	if b.opt.StoredGoal {
		b.goal = b.storedGoal(w, s)
	}
	b.setCwnd(w, s, bw)
}

// MinTSOSegs is one segment below 1.2 Mbit/s, else two (bbr_min_tso_segs).
func (b *bbr) MinTSOSegs(pacing uint64) uint32 {
	if pacing < bbrMinTSORate {
		return 1
	}
	return 2
}

// TSOGoal is the segments of a packet up to v4.16, none before the first ACK.
func (b *bbr) TSOGoal() uint32 { return b.goal }

// SndbufFactor is three, because BBR may grow the window even in recovery
// (bbr_sndbuf_expand).
func (*bbr) SndbufFactor() uint32 { return 3 }

// Model is BBR's model of the path.
func (b *bbr) Model(s *Sample) Model {
	bw := b.bandwidth()
	return Model{Mode: bbrModeNames[b.mode], Phase: b.cycleIdx, MinRTTUs: b.minRTT,
		Bandwidth: uint64(bw) * uint64(s.MSS) * 1_000_000 >> bwShift, BDP: b.bdp(bw, gainUnit),
		Goal: b.tsoGoal(s.PacingRate, s), PacingGain: b.pacingGain, CwndGain: b.cwndGain,
		Aggregation: b.aggregationCwnd()}
}

// bandwidth is the estimate in use (bbr_bw).
func (b *bbr) bandwidth() uint32 {
	if b.lt.use {
		return b.lt.bw
	}
	return b.bw.Value()
}

// usec is a time in whole µs.
func usec(t vtime.Time) int64 { return int64(t) / 1000 }
