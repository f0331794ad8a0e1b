package tcp

// Rule says why a packet got the length that it has. It is what skb.SKB.Rule
// holds.
type Rule uint8

// The rules, from the point of view of the decision that bounded the packet.
const (
	RuleNone     Rule = iota // not a data packet
	RuleTail                 // all that was queued, and nothing held it back
	RuleFull                 // the queue entry reached the size goal
	RuleRest                 // what an earlier cut of the same entry left over
	RuleEOR                  // the record ends here
	RuleMiddle               // the entry was closed short, and others follow it
	RuleCwnd                 // cut to the congestion window's quota
	RuleRwnd                 // cut to the peer's window
	RuleAutosize             // cut to the number of segments that the pacing rate allows
	RuleGSOSegs              // cut to gso_max_segs
	RuleNagle                // the rest shorter than a segment was kept back
	RuleRetrans              // a retransmission
	RuleProbe                // a window probe or a tail loss probe
	NumRules
)

var ruleNames = [NumRules]string{
	"none", "tail", "full", "rest", "eor", "middle", "cwnd", "rwnd", "autosize", "gso_segs",
	"nagle", "retrans", "probe",
}

// String is the rule's name in traces and counters.
func (r Rule) String() string {
	if r < NumRules {
		return ruleNames[r]
	}
	return "unknown"
}

// Stop says why a pass of the write loop sent no more.
type Stop uint8

// The reasons to stop, in the order of the loop's tests.
const (
	StopEmpty    Stop = iota // nothing was left to send
	StopPacing               // the pacing timer runs
	StopCwnd                 // the congestion window is full
	StopRwnd                 // the peer's window is full
	StopNagle                // Nagle's rule holds a short segment
	StopDefer                // TSO deferral waits for more
	StopTSQ                  // too much is below TCP
	StopPushOne              // one packet was asked for
	StopDrop                 // the layer below refused the packet
	StopAutocork             // autocorking left the data to a completion; no pass was made
	NumStops
)

var stopNames = [NumStops]string{
	"empty", "pacing", "cwnd", "rwnd", "nagle", "defer", "tsq", "push_one", "drop", "autocork",
}

// String is the reason's name in counters.
func (r Stop) String() string {
	if r < NumStops {
		return stopNames[r]
	}
	return "unknown"
}
