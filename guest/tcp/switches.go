package tcp

import (
	"fmt"
	"slices"
	"strings"
)

// GoalKind is how the size goal of a queue entry is computed (tcp_xmit_size_goal).
type GoalKind uint8

// The kinds of size goal.
const (
	GoalHalfLimit  GoalKind = iota // device limit, at most half of tcp_limit_output_bytes (v3.6 to v3.11)
	GoalPacedLimit                 // one millisecond's half at the pacing rate, and half the limit (v3.12)
	GoalPaced                      // one millisecond's half at the pacing rate (v3.13 to v3.18)
	GoalMax                        // the device limit (v3.19 and later)
)

// AutosizeKind is how the write loop bounds the segments of a packet.
type AutosizeKind uint8

// The kinds of autosizing.
const (
	AutosizeOff  AutosizeKind = iota // no bound but gso_max_segs (before v3.19)
	AutosizeRate                     // by pacing rate (v3.19 to v5.17)
	AutosizeRTT                      // by pacing rate and minimum round trip time (v5.18 and later)
)

// LinearKind is which queue entries get room for linear payload.
type LinearKind uint8

// The kinds of entries with linear payload.
const (
	LinearAll   LinearKind = iota // every entry (v3.8)
	LinearFirst                   // the first entry of an empty queue (v4.1 to v5.0)
	LinearNever                   // none (v5.15 and later)
)

// FlushKind is how often sendmsg processes acknowledgements that came meanwhile.
type FlushKind uint8

// The kinds of backlog processing in sendmsg.
const (
	FlushNever FlushKind = iota // only when it sleeps or returns
	FlushEach                   // before every new entry but the first
	FlushSome                   // after 16 new entries
)

// CorkKind is the test by which autocorking knows that it will be woken.
type CorkKind uint8

// The kinds of autocorking.
const (
	CorkOff   CorkKind = iota // none (before v3.14)
	CorkQueue                 // the entry is not the only one of queue and retransmit queue (v3.14)
	CorkRtx                   // the retransmit queue is not empty (v4.15)
)

// TSQKind is the limit of bytes below TCP (tcp_small_queue_check).
type TSQKind uint8

// The kinds of the limit.
const (
	TSQFixed   TSQKind = iota // tcp_limit_output_bytes reached, tested before the cut (v3.6 to v3.11)
	TSQDynamic                // the larger of it and a millisecond's bytes (v3.12 to v3.18)
	TSQMin                    // two packets or a millisecond's bytes, at most it (v3.19 to v4.20)
	TSQUnpaced                // as before, the maximum only for sockets that nobody paces (v5.0 to v6.15)
	TSQAlways                 // as TSQMin, for all sockets again (v6.16)
)

// TSQPassKind is when a packet passes although too much is below TCP.
type TSQPassKind uint8

// The kinds of exceptions.
const (
	PassNone  TSQPassKind = iota // never (before v4.10)
	PassTwo                      // one of the first two entries of the combined queue (v4.10 to v4.14)
	PassEmpty                    // the retransmit queue is empty (v4.15)
	PassOne                      // the retransmit queue has at most one entry (v6.8, and v6.1 stable)
)

// DeferKind is the variant of TSO deferral (tcp_tso_should_defer).
type DeferKind uint8

// The variants, D0 to D6.
const (
	DeferD0 DeferKind = iota // timer armed anew by every deferral (v3.8)
	DeferD1                  // timer armed once (v3.9)
	DeferD2                  // full-size test against the size goal (v3.12)
	DeferD3                  // full-size test against autosizing (v3.19)
	DeferD4                  // last transmission in this tick, half round trip (v4.1)
	DeferD5                  // the same by departure time, in ns (v5.0)
	DeferD6                  // the next ACK due within half a round trip, 1 ms at most (v6.18, and v6.1 and v6.12 stable)
)

// RateKind is how the pacing rate is computed.
type RateKind uint8

// The kinds of pacing rate.
const (
	RateNone    RateKind = iota // there is none (before v3.12)
	RateJiffies                 // twice the window per round trip, in ticks (v3.12 to v3.14)
	RateFixed                   // the same, in µs (v3.15 to v4.2)
	RateRatio                   // by tcp_pacing_ss_ratio and tcp_pacing_ca_ratio (v4.3)
)

// PaceKind is what TCP itself does to enforce the pacing rate.
type PaceKind uint8

// The kinds of pacing inside TCP.
const (
	PaceQdisc PaceKind = iota // nothing: the queueing discipline does (before v4.13)
	PaceTimer                 // a timer after each packet (v4.13 to v4.19)
	PaceEDT                   // departure times (v4.20)
)

// LimitedKind is how TCP knows that the congestion window holds it back.
type LimitedKind uint8

// The kinds of that test.
const (
	LimitedAck   LimitedKind = iota // at the ACK, from what was in flight (before v3.16)
	LimitedWrite                    // remembered from the write loop (v3.16)
	LimitedUsage                    // the same, per window of data (v6.1)
)

// StretchKind is where one ACK counts for all segments that it acknowledges.
type StretchKind uint8

// The kinds of stretch ACK handling.
const (
	StretchOff       StretchKind = iota // nowhere (before v3.13)
	StretchSlowStart                    // in slow start (v3.13)
	StretchAll                          // in congestion avoidance too (v4.0)
)

// HystartKind is the form of CUBIC's HyStart, see cc.HystartKind.
type HystartKind uint8

// The forms.
const (
	HystartOld   HystartKind = iota // in milliseconds (before v5.6)
	HystartUs                       // in microseconds, with ACK delay (v5.6)
	HystartLate                     // rounds start only at windows of 16 and more (v5.16)
	HystartRound                    // rounds start at every window (v6.14, and v6.1 and v6.12 stable)
)

// BBRGoalKind is how BBR says how many segments a packet has.
type BBRGoalKind uint8

// The kinds.
const (
	BBRGoalStored BBRGoalKind = iota // a number that it keeps and that is the packet's size (v4.9 to v4.16)
	BBRGoalHook                      // the floor of autosizing only (v4.17)
)

// LossKind is how a loss is found with SACK.
type LossKind uint8

// The kinds.
const (
	LossDupack LossKind = iota // by counting SACKed segments above it (before v4.18)
	LossRACK                   // by the time of what was delivered (v4.18, RFC 8985)
)

// Switches is what a kernel release does, decision by decision. Each can be
// set alone, so that one patch can be put on any release. The zero value is
// the earliest kind of everything and no release's; use Release.
type Switches struct {
	Goal         GoalKind     // size of queue entries
	AlwaysGSO    bool         // TCP builds GSO packets for every device (v4.17)
	GSOPresub    bool         // header room is taken off gso_max_size once, at the start (v5.18)
	GSOOneSeg    bool         // without GSO gso_max_segs is 1 and gso_max_size 0 (v4.2)
	Linear       LinearKind   // linear payload
	Flush        FlushKind    // backlog processing in sendmsg
	BacklogMerge bool         // acknowledgements that wait for the socket's user are merged (v5.0)
	EORMarks     bool         // MSG_EOR closes an entry (v4.7)
	Autocork     CorkKind     // autocorking
	AutocorkEOR  bool         // autocorking spares closed entries (after v4.16)
	HalfCwnd     bool         // a packet takes at most half the window (v3.19)
	Autosize     AutosizeKind // segments per packet
	KeepTail     bool         // a cut keeps the rest shorter than a segment unless Nagle holds it (v3.14)
	MinshallTail bool         // a packet whose last segment is short counts as short (v3.14)
	FINQuota     bool         // the last FIN needs no quota (before v6.10)
	PcountAlways bool         // segments are counted anew in every pass (v6.10)
	Grow         bool         // a short entry takes bytes from its follower (v6.10)
	StopEmptySKB bool         // the write loop stops at an entry without data (after v5.0)
	TSQ          TSQKind      // bytes below TCP
	TSQPass      TSQPassKind  // exception to it
	TSQNagle     bool         // the TSQ tasklet pushes with the socket's Nagle setting (after v3.9)
	Defer        DeferKind    // TSO deferral
	DeferFull    bool         // deferral's test whether a full-size packet can go (report 002 removes it)
	DeferOpen    bool         // deferral only in state Open, not Disorder and CWR (up to v4.1)
	Rate         RateKind     // pacing rate
	Pace         PaceKind     // pacing inside TCP
	ClockCache   bool         // the clock is read once per pass, not once per packet (v4.13)
	RTTUs        bool         // round trips in µs, not ticks (v3.15)
	Limited      LimitedKind  // window-limited test
	LimitedSend  bool         // window validation also when nothing was sent (after v5.0)
	PSHTSO       bool         // every packet of more than one segment carries PSH (v5.4)
	IdleEntail   bool         // idle restart when data is queued, not when it leaves (v4.3)
	Stretch      StretchKind  // stretch ACKs
	CubicIdle    bool         // CUBIC does not grow for idle time (v4.3)
	CubicRatio   bool         // CUBIC scales growth by the delayed ACK ratio (before v4.0)
	Hystart      HystartKind  // CUBIC's HyStart
	TLP          bool         // tail loss probes (v3.10)
	Loss         LossKind     // loss detection
	TimerWheel   bool         // timers run at least a tick late, and those far away later (v4.8)
	TimeoutUs    bool         // probe and reordering timers have 2 ms of margin, not two ticks (v6.6, and v6.1 stable)

	BBR           bool        // BBR exists (v4.9)
	BBRGoal       BBRGoalKind // segments per packet
	BBRGSOUnaware bool        // the number that BBR keeps knows no gso_max_segs (v4.16; report 003 adds it)
	BBRRTTStrict  bool        // an equal round trip does not renew BBR's minimum (v4.18)
	BBRIdleExit   bool        // PROBE_RTT caps at every ACK and ends at a start after idle (v4.19)
	BBREDT        bool        // BBR counts with departure times, and paces 1 % below the bandwidth (v4.20)
	BBRPlusTwo    bool        // two segments more while BBR probes (v5.0)
	BBRAggregate  bool        // room for bursts of ACKs (v5.1)

	SmallHead    bool // packet heads from the small-head cache (v6.3)
	FlushRelease bool // a flush of the backlog does what softirqs left to the user (v6.7)
	OOOAcked     bool // a packet may change its queue if all before it are acknowledged (v6.7)
}

// switchDef describes one switch for Set, Get and lists.
type switchDef struct {
	name   string
	values []string
	get    func(*Switches) uint8
	set    func(*Switches, uint8)
}

var offOn = []string{"off", "on"}

func boolSwitch(name string, f func(*Switches) *bool) switchDef {
	return switchDef{name, offOn,
		func(s *Switches) uint8 {
			if *f(s) {
				return 1
			}
			return 0
		},
		func(s *Switches, v uint8) { *f(s) = v == 1 }}
}

func kindSwitch[T ~uint8](name, values string, f func(*Switches) *T) switchDef {
	return switchDef{name, strings.Fields(values),
		func(s *Switches) uint8 { return uint8(*f(s)) },
		func(s *Switches, v uint8) { *f(s) = T(v) }}
}

var switchDefs = []switchDef{
	kindSwitch("size_goal", "half_limit paced_limit paced max", func(s *Switches) *GoalKind { return &s.Goal }),
	boolSwitch("always_gso", func(s *Switches) *bool { return &s.AlwaysGSO }),
	boolSwitch("gso_presub", func(s *Switches) *bool { return &s.GSOPresub }),
	boolSwitch("gso_one_seg", func(s *Switches) *bool { return &s.GSOOneSeg }),
	kindSwitch("linear", "all first never", func(s *Switches) *LinearKind { return &s.Linear }),
	kindSwitch("backlog_flush", "never each some", func(s *Switches) *FlushKind { return &s.Flush }),
	boolSwitch("backlog_merge", func(s *Switches) *bool { return &s.BacklogMerge }),
	boolSwitch("eor", func(s *Switches) *bool { return &s.EORMarks }),
	kindSwitch("autocork", "off queue rtx", func(s *Switches) *CorkKind { return &s.Autocork }),
	boolSwitch("autocork_eor", func(s *Switches) *bool { return &s.AutocorkEOR }),
	boolSwitch("half_cwnd", func(s *Switches) *bool { return &s.HalfCwnd }),
	kindSwitch("autosize", "off rate rtt", func(s *Switches) *AutosizeKind { return &s.Autosize }),
	boolSwitch("keep_tail", func(s *Switches) *bool { return &s.KeepTail }),
	boolSwitch("minshall_tail", func(s *Switches) *bool { return &s.MinshallTail }),
	boolSwitch("fin_quota", func(s *Switches) *bool { return &s.FINQuota }),
	boolSwitch("pcount_always", func(s *Switches) *bool { return &s.PcountAlways }),
	boolSwitch("grow", func(s *Switches) *bool { return &s.Grow }),
	boolSwitch("stop_empty", func(s *Switches) *bool { return &s.StopEmptySKB }),
	kindSwitch("tsq", "fixed dynamic min unpaced always", func(s *Switches) *TSQKind { return &s.TSQ }),
	kindSwitch("tsq_pass", "none two empty one", func(s *Switches) *TSQPassKind { return &s.TSQPass }),
	boolSwitch("tsq_nagle", func(s *Switches) *bool { return &s.TSQNagle }),
	kindSwitch("defer", "d0 d1 d2 d3 d4 d5 d6", func(s *Switches) *DeferKind { return &s.Defer }),
	boolSwitch("defer_full_size_test", func(s *Switches) *bool { return &s.DeferFull }),
	boolSwitch("defer_open", func(s *Switches) *bool { return &s.DeferOpen }),
	kindSwitch("pacing_rate", "none jiffies fixed ratio", func(s *Switches) *RateKind { return &s.Rate }),
	kindSwitch("pace", "qdisc timer edt", func(s *Switches) *PaceKind { return &s.Pace }),
	boolSwitch("clock_cache", func(s *Switches) *bool { return &s.ClockCache }),
	boolSwitch("rtt_us", func(s *Switches) *bool { return &s.RTTUs }),
	kindSwitch("cwnd_limited", "ack write usage", func(s *Switches) *LimitedKind { return &s.Limited }),
	boolSwitch("cwnd_limited_send", func(s *Switches) *bool { return &s.LimitedSend }),
	boolSwitch("psh_tso", func(s *Switches) *bool { return &s.PSHTSO }),
	boolSwitch("idle_entail", func(s *Switches) *bool { return &s.IdleEntail }),
	kindSwitch("stretch_ack", "off slow_start all", func(s *Switches) *StretchKind { return &s.Stretch }),
	boolSwitch("cubic_idle", func(s *Switches) *bool { return &s.CubicIdle }),
	boolSwitch("cubic_ratio", func(s *Switches) *bool { return &s.CubicRatio }),
	kindSwitch("hystart", "old us late round", func(s *Switches) *HystartKind { return &s.Hystart }),
	boolSwitch("tlp", func(s *Switches) *bool { return &s.TLP }),
	kindSwitch("loss_detection", "dupack rack", func(s *Switches) *LossKind { return &s.Loss }),
	boolSwitch("flush_release", func(s *Switches) *bool { return &s.FlushRelease }),
	boolSwitch("ooo_acked", func(s *Switches) *bool { return &s.OOOAcked }),
	boolSwitch("timer_wheel", func(s *Switches) *bool { return &s.TimerWheel }),
	boolSwitch("timeout_us", func(s *Switches) *bool { return &s.TimeoutUs }),
	boolSwitch("bbr", func(s *Switches) *bool { return &s.BBR }),
	kindSwitch("bbr_goal", "stored hook", func(s *Switches) *BBRGoalKind { return &s.BBRGoal }),
	boolSwitch("bbr_gso_unaware", func(s *Switches) *bool { return &s.BBRGSOUnaware }),
	boolSwitch("bbr_rtt_strict", func(s *Switches) *bool { return &s.BBRRTTStrict }),
	boolSwitch("bbr_idle_exit", func(s *Switches) *bool { return &s.BBRIdleExit }),
	boolSwitch("bbr_edt", func(s *Switches) *bool { return &s.BBREDT }),
	boolSwitch("bbr_plus_two", func(s *Switches) *bool { return &s.BBRPlusTwo }),
	boolSwitch("bbr_aggregate", func(s *Switches) *bool { return &s.BBRAggregate }),
	boolSwitch("small_head", func(s *Switches) *bool { return &s.SmallHead }),
}

// SwitchNames returns the names of all switches, in the order of their effect.
// A scenario writes them with the prefix "tcp.".
func SwitchNames() []string {
	names := make([]string, len(switchDefs))
	for i := range switchDefs {
		names[i] = switchDefs[i].name
	}
	return names
}

// SwitchValues returns the values that the named switch takes, or nil.
func SwitchValues(name string) []string {
	if d := findSwitch(name); d != nil {
		return slices.Clone(d.values)
	}
	return nil
}

func findSwitch(name string) *switchDef {
	name = strings.TrimPrefix(name, "tcp.")
	for i := range switchDefs {
		if switchDefs[i].name == name {
			return &switchDefs[i]
		}
	}
	return nil
}

// Set changes one switch. The name may have the prefix "tcp.". The error wraps
// ErrSwitch and says what exists.
func (s *Switches) Set(name, value string) error {
	d := findSwitch(name)
	if d == nil {
		return fmt.Errorf("%w %q: have %s", ErrSwitch, name, strings.Join(SwitchNames(), ", "))
	}
	i := slices.Index(d.values, value)
	if i < 0 {
		return fmt.Errorf("%w value %s=%q: want one of %s", ErrSwitch, d.name, value, strings.Join(d.values, ", "))
	}
	d.set(s, uint8(i))
	return nil
}

// Get returns the value of a switch, or "" if there is none of that name.
func (s *Switches) Get(name string) string {
	d := findSwitch(name)
	if d == nil {
		return ""
	}
	if v := int(d.get(s)); v < len(d.values) {
		return d.values[v]
	}
	return "unknown"
}

// truesizeOverhead is what an skb without payload is charged for: its head,
// the shared info at the end of it, and the sk_buff. The head comes from a
// power-of-two cache, or from the small-head cache since v6.3.
func (s *Switches) truesizeOverhead(maxHdr uint32) uint32 {
	const shinfo, skbuff = 320, 256
	size := (maxHdr+63)/64*64 + shinfo
	if !s.SmallHead {
		return pow2Roundup(size) + skbuff
	}
	if size&(size-1) == 0 {
		size += 64 // the cache avoids powers of two, so that its objects can be told apart
	}
	return size + skbuff
}
