// Package cc holds the congestion control algorithms of the Linux sender model.
// An algorithm sees events: an acknowledgement with its sample, a loss, a start
// after idle. It changes only the Window that it is given and never reaches
// into the socket. It is without clock, timer, goroutine and input or output:
// the time of an event is in the event.
package cc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// InfiniteSsthresh is the slow start threshold of a connection that saw no loss
// (TCP_INFINITE_SSTHRESH, include/net/tcp.h, v6.1).
const InfiniteSsthresh uint32 = 0x7fffffff

// ErrUnknown is wrapped by New when no algorithm has the name.
var ErrUnknown = errors.New("unknown congestion control")

// Window is the part of a connection's state that its algorithm governs. The
// socket owns it and lends it for the length of a call.
type Window struct {
	Cwnd     uint32 // congestion window, segments (snd_cwnd)
	Ssthresh uint32 // slow start threshold, segments (snd_ssthresh)
	Cnt      uint32 // segments acknowledged since the last increase (snd_cwnd_cnt)
	Clamp    uint32 // upper bound of Cwnd, segments (snd_cwnd_clamp)

	Pacing     uint64 // pacing rate, bytes/s; all ones: unlimited (sk_pacing_rate)
	AppLimited uint64 // the application holds back until so many segments are delivered; 0: it does not (app_limited)
}

// InSlowStart reports whether the window is below the threshold
// (tcp_in_slow_start, v6.1).
func (w *Window) InSlowStart() bool { return w.Cwnd < w.Ssthresh }

// Sample is what an event tells an algorithm. The fields that an event does
// not concern have their current values. It is lent for the length of a call.
type Sample struct {
	Now          vtime.Time // the time of the event; for an ACK that of its arrival
	Jiffies      uint32     // the same in ticks
	Acked        uint32     // segments newly acknowledged or SACKed by this ACK
	RTT          int64      // round trip of the last newly acknowledged segment, µs; negative: none
	SRTT         uint32     // smoothed round trip time, µs, times 8
	SndUna       uint32     // first unacknowledged sequence number
	SndNxt       uint32     // next sequence number to send
	InFlight     uint32     // segments in the network, after this ACK
	PriorFlight  uint32     // segments in the network, before this ACK
	Losses       uint32     // segments newly marked lost
	LastSend     uint32     // of a TxStart: tick of the last transmission before (lsndtime)
	MSS          uint32     // payload bytes of a full segment
	GSOMaxSize   uint32     // the socket's largest GSO payload, bytes
	PacingRate   uint64     // current pacing rate, bytes/s; all ones: unlimited
	MaxPacing    uint64     // upper bound of the pacing rate, bytes/s
	Paced        bool       // somebody enforces the pacing rate
	CwndLimited  bool       // the window, not the application, holds the sender back
	Rate         RateSample // delivery rate sample
	RTTMin       uint32     // windowed minimum of the round trip time, µs; all ones: none
	DeliveredAll uint64     // segments delivered since the start of the connection
	DeliveredAt  int64      // time of the last delivery, or of the first packet after idle, µs
	MarkedAll    uint64     // segments delivered by ACKs that echo a congestion mark
	ECN          bool       // the peers agreed on congestion marks
	PriorCwnd    uint32     // window before the last reduction, segments
	LostAll      uint64     // segments marked lost since the start of the connection
	Ahead        int64      // how far the next departure is after Now, µs
	State        State      // recovery state
}

// RateSample is a delivery rate sample as the sender takes it at each ACK
// (struct rate_sample, net/ipv4/tcp_rate.c, v6.1).
type RateSample struct {
	Delivered      int64      // segments delivered over the interval; negative: invalid
	Interval       int64      // µs; zero or negative: invalid
	PriorDelivered uint64     // delivered count when the sampled segment left
	PriorTime      vtime.Time // time of that count; 0: no sample
	AppLimited     bool       // the sampled segment left while the application held back
	AckDelayed     bool       // the ACK may have been delayed by the receiver
}

// State is a state of the sender's recovery machine (enum tcp_ca_state).
type State uint8

// The states, in the kernel's order.
const (
	Open     State = iota // nothing unusual
	Disorder              // duplicate acknowledgements or SACKs seen
	CWR                   // the window is being reduced, not for loss
	Recovery              // fast recovery
	Loss                  // a retransmission timeout
)

// String is the state's name as ss(8) prints it.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

var stateNames = [...]string{"open", "disorder", "cwr", "recovery", "loss"}

// Event is something that happened to the connection (enum tcp_ca_event).
type Event uint8

// The events that algorithms are told.
const (
	TxStart     Event = iota // a packet leaves while none is in flight
	CwndRestart              // the window was cut after idle time
	CompleteCWR              // a window reduction ended
	LossTimeout              // the retransmission timer ran out
)

// Controller is a congestion control algorithm of one connection. It is not
// safe for concurrent use. The pointers that it is given are valid for the
// call only.
type Controller interface {
	// Name is the algorithm's name (tcp_congestion_ops.name).
	Name() string
	// Init starts the algorithm when the handshake is complete.
	Init(w *Window, s *Sample)
	// OnAck may raise the window (cong_avoid). It is called for ACKs that
	// delivered data while no reduction is under way.
	OnAck(w *Window, s *Sample)
	// Ssthresh is the new slow start threshold after a loss (ssthresh).
	Ssthresh(w *Window, s *Sample) uint32
	// Undo is the window when a reduction turns out to have been a mistake
	// (undo_cwnd).
	Undo(w *Window, s *Sample) uint32
	// OnState is told of a change of the recovery state, before it takes
	// effect (set_state).
	OnState(w *Window, s *Sample, to State)
	// OnEvent is told of the other events (cwnd_event).
	OnEvent(w *Window, s *Sample, e Event)
}

// RTTController is a Controller that looks at round trips (pkts_acked).
type RTTController interface {
	Controller
	// OnRTT is told every ACK that acknowledged new data, before OnAck, and
	// whether or not the window may grow.
	OnRTT(w *Window, s *Sample)
}

// DeliveryController is a Controller that looks at every ACK after it was
// counted, also at those that acknowledge nothing (in_ack_event).
type DeliveryController interface {
	Controller
	// OnDelivered is told an ACK.
	OnDelivered(w *Window, s *Sample)
}

// RateController is a Controller that sets window and pacing rate itself, such
// as BBR (cong_control). If an algorithm has it, OnAck and the generic window
// reduction and pacing rate are not used, and the socket paces.
type RateController interface {
	Controller
	// OnRate is told every ACK and sets Cwnd, Pacing and AppLimited of the
	// window (cong_control).
	OnRate(w *Window, s *Sample)
	// TSOGoal is the segments of a packet; 0 leaves them to autosizing
	// (tso_segs_goal, v4.9 to v4.16).
	TSOGoal() uint32
	// MinTSOSegs is the floor of the segments of a packet (min_tso_segs, v4.17).
	MinTSOSegs(pacing uint64) uint32
	// SndbufFactor is how many windows the send buffer holds (sndbuf_expand).
	SndbufFactor() uint32
	// Model is the algorithm's idea of the path, for reports.
	Model(s *Sample) Model
}

// Model is what an algorithm that sets the rate thinks of the path.
type Model struct {
	Mode        string // what it does at the moment, as its source names it
	Phase       uint8  // phase of the gain cycle
	Bandwidth   uint64 // payload, bytes/s
	MinRTTUs    uint32 // least round trip, µs; all ones: none
	BDP         uint32 // segments that the path holds
	Goal        uint32 // segments of a packet that the window allows for
	Aggregation uint32 // segments that it allows for bursts of ACKs
	PacingGain  uint32 // in 256ths
	CwndGain    uint32 // in 256ths
}

// HystartKind is which form of HyStart CUBIC runs.
type HystartKind uint8

// The forms. Those from HystartUs on work in microseconds and allow for the
// delay of GSO packets in the ACK train. They differ in when a round starts.
const (
	HystartOff   HystartKind = iota
	HystartOld               // in milliseconds; rounds start in congestion avoidance's call (before v5.6)
	HystartUs                // the same in microseconds (v5.6)
	HystartLate              // rounds start with a sample, but only at windows of 16 and more (v5.16)
	HystartRound             // rounds start with a sample, at every window (v6.14, and v6.1 and v6.12 stable)
)

// Options is what an algorithm must know of the kernel that runs it.
type Options struct {
	HZ               uint32      // ticks per second, at least 1
	Hystart          HystartKind // CUBIC: form of HyStart
	HystartDetect    uint8       // CUBIC: 1 ACK train, 2 delay increase, or both; 0 means both
	DelayShift       uint8       // CUBIC, old HyStart: shift of the delay threshold (4 in v3.8, 3 in v4.16)
	StretchSlowStart bool        // an ACK counts for all that it acknowledges in slow start (v3.13)
	StretchAvoid     bool        // and in congestion avoidance (v4.0)
	IdleShift        bool        // CUBIC: idle time is not growth (v4.3)
	AckRatio         bool        // CUBIC: growth is scaled by the segments per ACK (before v4.0)
	BBR              BBROptions  // BBR
}

// New returns a controller of the named algorithm. The error wraps ErrUnknown
// and names the nearest ones that exist.
func New(name string, o Options) (Controller, error) {
	if o.HZ == 0 {
		o.HZ = 1
	}
	switch name {
	case "reno":
		return &reno{opt: o}, nil
	case "cubic":
		return newCubic(o), nil
	case "dctcp":
		return &dctcp{reno: reno{opt: o}}, nil
	case "bbr":
		return newBBR(o), nil
	}
	return nil, fmt.Errorf("%w %q: have %s", ErrUnknown, name, strings.Join(Names(), ", "))
}

// Names returns the names of the algorithms, sorted.
func Names() []string { return []string{"bbr", "cubic", "dctcp", "reno"} }
