// Package tcp is a model of the sending half of a Linux TCP connection: what
// it hands to the queueing discipline, when, and how long each packet is. It
// follows the kernel decision by decision, from v3.8 to v6.18, and every
// decision that changed over the years is a switch.
//
// It is without clock, timer, goroutine, lock and input or output. An Env gives
// it the time and takes its packets; the composer calls Write for the
// application, Input for acknowledgements, TSQ for the tasklet, and Timer when
// Next says so. It knows no rings and no payload bytes: payload is lengths and
// addresses. A socket must not be used concurrently; but Input, TSQ, Timer and
// Freed may be called from inside an Env method during a Write, as interrupts
// do, and then wait for the end of it where the kernel lets them wait.
package tcp

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp/cc"
	"github.com/vnetbench/vnetbench/guest/tcp/minmax"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Sock is the sending half of one established connection. It implements
// skb.Owner.
//
// What every packet and every acknowledgement needs comes first, so that it takes
// few lines of the cache: with many sockets those are what a packet waits for.
type Sock struct {
	cfg    Config
	work   *Scratch
	env    Env
	bh     BottomHalves
	rateCC cc.RateController // cc, if it sets the rate itself
	pool   *skb.Pool

	flow          int32
	mss           uint32
	goalSegs      uint16 // segments of the size goal, cached
	pacingShift   uint8
	canGSO        bool
	rttStamp      bool // packets carry fine stamps although round trips are in ticks
	sackOK        bool
	probes        bool // the kernel sends tail loss probes
	ecnOK         bool
	nonagle       uint8
	owned         bool // a process uses the socket
	quiet         bool // and is about to end that, with softirqs off
	nospace       bool // a writer waits for send buffer space
	finSent       bool
	callCopied    bool // this sendmsg appended something
	tsqFlags      uint8
	pending       pendingKind // what the timer waits for
	timerDeferred bool
	tlpActive     bool
	tlpRetrans    bool
	ca            cc.State
	sackReneg     bool
	cwrQueued     bool
	undoSet       bool // a reduction can be taken back

	// time
	tickNs    int64      // length of a tick if it is whole nanoseconds, else 0
	tickNo    int64      // a tick of late ...
	tickFrom  vtime.Time // ... and when it began
	clock     vtime.Time // the last reading (tcp_clock_cache)
	wstamp    vtime.Time // departure clock (tcp_wstamp_ns)
	pacingAt  vtime.Time
	timerTick int64
	tickUs    int64 // length of a tick if it is whole microseconds, else 0

	// write queue
	wq          segList // unsent
	rtx         segList // sent and not acknowledged
	freeSegs    *seg
	sentHead    *seg // entries by the time of their last transmission
	sentTail    *seg
	writeSeq    uint32
	pushedSeq   uint32
	callSegs    uint32 // entries of this sendmsg since the last backlog flush
	arenaPage   uint32
	arenaOff    uint32
	sndbuf      uint32
	expandedFor uint32 // the window that sndbuf was last made for
	wmemQueued  uint32
	wmemAlloc   uint32
	gsoMax      uint32
	gsoSegs     uint32
	dataSegsOut uint32

	// window
	sndUna, sndNxt uint32
	sndWnd         uint32
	maxWindow      uint32
	sndSml         uint32
	packetsOut     uint32
	sackedOut      uint32
	lostOut        uint32
	retransOut     uint32
	highSeq        uint32
	win            cc.Window
	maxPacing      uint64 // bound of the pacing rate, bytes/s
	lostTotal      uint64
	lastSend       vtime.Time // of data (lsndtime)

	// what acknowledgements told
	rto         int64  // ticks
	ptoTicks    int64  // time until a tail loss probe ...
	ptoSRTT     uint32 // ... for this round trip
	backoff     uint32
	probesOut   uint32
	retransmits uint32
	minRTT      minmax.Min
	rtt         rttEstimator
	reordering  uint32 // segments that packets may be overtaken by
	rack        rackState
	dlv         delivery
	sackHint    *seg // where the last SACK was found
	lostHint    *seg // where loss marking stopped
	rexmitHint  *seg // where retransmission stopped
	lostCnt     uint32
	reordSeen   uint32
	backlog     []backlogAck
	cnt         Counters

	// the rest of recovery
	prrDelivered  uint32
	prrOut        uint32
	priorCwnd     uint32
	priorSsthresh uint32 // threshold before the reduction; 0: it cannot be undone
	lastSacks     [4]Range
	sackedTo      uint32 // end of the highest SACKed segment
	dsackDups     uint64
	frto          bool
	undoMarker    uint32
	undoRetrans   int32
	retransStamp  uint32 // time of the first retransmission of this recovery, ms; 0: none
	tlpHigh       uint32

	// congestion control that does not set the rate itself
	cc            cc.Controller
	rttCC         cc.RTTController      // cc, if it looks at round trips
	ackCC         cc.DeliveryController // cc, if it looks at every ACK
	cwndUsed      uint32
	cwndStamp     uint32
	usageSeq      uint32
	maxPacketsOut uint32
	isCwndLimited bool
	tsoDeferred   uint32

	linearSlot   uint32
	backlogSacks []int
	spliced      int // entries of the backlog that are being processed
	sackBuf      [4]Range
}

// NewSock returns a socket that is not yet connected. The pool gives the
// packets that the socket transmits and may be shared by the sockets of one
// composer. The error wraps ErrConfig, or cc.ErrUnknown.
func NewSock(flow int32, cfg Config, env Env, pool *skb.Pool) (*Sock, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.PeerMSS == 0 {
		cfg.PeerMSS = cfg.MSS + 12
	}
	s := &Sock{flow: flow, cfg: cfg, work: cfg.Scratch, env: env, pool: pool, mss: cfg.MSS, bh: noBH{}}
	if bh, ok := env.(BottomHalves); ok {
		s.bh = bh
	}
	s.initGSO()
	var err error
	if s.cc, err = cc.New(cfg.CC, s.ccOptions()); err != nil {
		return nil, err
	}
	s.rateCC, _ = s.cc.(cc.RateController)
	s.rttCC, _ = s.cc.(cc.RTTController)
	s.ackCC, _ = s.cc.(cc.DeliveryController)
	s.reordering, s.rack.steps = uint32(cfg.Sysctl.Reordering), 1
	if 1_000_000_000%int64(cfg.HZ) == 0 {
		s.tickNs = 1_000_000_000 / int64(cfg.HZ)
		if s.tickNs%1000 == 0 {
			s.tickUs = s.tickNs / 1000
		}
	}
	s.probes = cfg.Switches.TLP && (cfg.Sysctl.EarlyRetrans == 3 || cfg.Sysctl.EarlyRetrans == 4)
	s.rttStamp = !cfg.Switches.RTTUs && cfg.CC == "cubic" && cfg.HZ < 1000
	s.pacingShift = 10
	s.pacingAt = vtime.Never
	if cfg.NoDelay {
		s.nonagle = nagleOff
	}
	s.sndbuf = cfg.Sndbuf
	if s.sndbuf == 0 {
		s.sndbuf = uint32(cfg.Sysctl.Wmem[1])
	}
	s.wmemAlloc = 1
	s.arenaOff = ArenaPage
	s.arenaPage = cfg.ArenaPages // the first page frag wraps to page 0
	s.maxPacing = min(s.noRate(), cfg.MaxPacingRate)
	s.win = cc.Window{Cwnd: initCwnd, Ssthresh: cc.InfiniteSsthresh, Clamp: 1<<32 - 1, Pacing: s.maxPacing}
	s.rto = s.usToTicks(rtoInitUs)
	return s, nil
}

// Flow returns the index that every packet of the socket carries.
func (s *Sock) Flow() int32 { return s.flow }

// Established starts the connection when its handshake is complete. It sends
// nothing. It reads the clock once.
func (s *Sock) Established(hs Handshake) {
	s.clock = s.env.Now()
	iss := s.cfg.ISS
	s.sndUna, s.sndNxt, s.writeSeq, s.pushedSeq, s.sndSml = iss, iss, iss, iss, iss
	s.highSeq, s.usageSeq, s.rtt.seq = iss, iss, iss
	s.sndWnd, s.maxWindow, s.sackOK, s.ecnOK = hs.Window, hs.Window, hs.SACK, hs.ECN
	s.mss = s.boundHalf(s.cfg.MSS)
	now := s.jiffies()
	s.minRTT.Reset(now, 1<<32-1)
	s.dlv.total, s.dlv.at = 1, max(micro(s.clock), 1) // the SYN was delivered
	s.lastSend, s.cwndStamp = s.env.Local(), now
	if s.cfg.Sndbuf == 0 {
		s.expandSndbuf()
	}
	if hs.RTTUs > 0 {
		s.rttSample(now, hs.RTTUs, hs.RTTUs, false)
	}
	s.cc.Init(&s.win, s.sample())
	if s.rateCC == nil {
		s.updateRate()
	} else if s.cfg.Pacing == PacingNone {
		s.cfg.Pacing = PacingNeeded
	}
}

// Close queues a FIN after the data that was written, and pushes it
// (tcp_send_fin).
func (s *Sock) Close() {
	if s.finSent {
		return
	}
	s.finSent = true
	s.lock()
	g := s.wq.tail
	if g == nil {
		g = s.newSeg()
		g.seq, g.end = s.writeSeq, s.writeSeq
		g.truesize = s.cfg.TruesizeOverhead
		s.wmemQueued += g.truesize
		s.wq.pushBack(g)
	}
	g.flags |= skb.FIN
	g.end++
	s.writeSeq++
	s.pushPending(s.mss, nagleOff)
	s.release()
}

// Done reports whether everything written, and the FIN if Close was called, is
// acknowledged.
func (s *Sock) Done() bool { return s.sndUna == s.writeSeq }

// Info returns a snapshot of the socket.
func (s *Sock) Info() Info {
	us := func(ticks int64) uint32 { return uint32(s.ticksToUs(ticks)) }
	i := Info{
		State: s.ca, Cwnd: s.win.Cwnd, Ssthresh: s.win.Ssthresh, InFlight: s.inFlight(),
		PacketsOut: s.packetsOut, SRTTUs: s.srttUs() >> 3, MinRTTUs: s.minRTT.Value(), RTOUs: us(s.rto),
		SndWnd: s.sndWnd, Sndbuf: s.sndbuf, WmemQueued: s.wmemQueued, WmemAlloc: s.wmemAlloc - 1,
		Unsent: s.writeSeq - s.sndNxt, Unacked: s.sndNxt - s.sndUna, PacingRate: s.win.Pacing,
		Counters: s.cnt,
	}
	i.RTTVarUs = s.rtt.mdev >> 2
	if !s.cfg.Switches.RTTUs {
		i.RTTVarUs = us(int64(s.rtt.mdev)) >> 2
	}
	if s.win.Pacing == s.noRate() {
		i.PacingRate = Unlimited
	}
	if s.rateCC != nil {
		i.Model = s.rateCC.Model(s.sample())
	}
	i.SizeGoal = max(uint32(s.goalSegs), 1) * s.mss
	if s.cfg.Switches.Autosize != AutosizeOff {
		i.TSOSegs, _ = s.maxSegs(s.mss)
	}
	return i
}
