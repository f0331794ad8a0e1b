package vmtest

import "slices"

// Schema names the layout of Result in JSON. It changes when a field changes
// its meaning or goes; new fields alone do not change it.
const Schema = "vnetbench/1"

// Result is the outcome of one command: runs of one plan on one kind of guest,
// in the plan's order. In JSON no key and no array is ever left out; what a
// guest cannot know is null. A MB is 10^6 bytes of TCP payload handed to the
// device after the warm-up, retransmissions included.
type Result struct {
	Schema      string       `json:"schema"`
	Scenario    Scenario     `json:"scenario"` // the plan's base, with what the command line set
	Guest       string       `json:"guest"`    // sim, uml or qemu
	Environment Environment  `json:"environment"`
	Seed        uint64       `json:"seed"`
	Interrupted bool         `json:"interrupted"` // the last run was cut short; its figures are those until then
	Runs        []Run        `json:"runs"`
	Conclusions []Conclusion `json:"conclusions"`
	Frontiers   []Frontier   `json:"frontiers"` // guests that the adaptive policy does not cure in every respect, of plans that ask for it
	Costs       []Cost       `json:"costs"`     // the cost model's entries; empty for a guest in real time
	Warnings    []string     `json:"warnings"`
}

// Environment is where the runs were made.
type Environment struct {
	Version string `json:"version"` // of vnetbench
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	CPU     string `json:"cpu"`
	CPUs    int    `json:"cpus"`
	QEMU    string `json:"qemu"`        // version; empty if not used
	Accel   string `json:"accelerator"` // kvm or tcg; empty if not used
}

// Run is the outcome of one Scenario.
type Run struct {
	Label         string             `json:"label"`
	Axes          map[string]string  `json:"axes"`     // the plan's axes and this run's values on them
	Settings      []Setting          `json:"settings"` // what its case sets over the scenario, before the axes
	Kernel        string             `json:"kernel"`
	KernelVersion string             `json:"kernel_version"` // as the guest says it; a model's is the release it models
	Release       string             `json:"release"`
	Remedies      []string           `json:"remedies"`
	Policy        string             `json:"policy"`
	QueuePairs    int                `json:"queue_pairs"`
	MeasuredAt    string             `json:"measured_at"` // MeasuredAtDevice or MeasuredAtGuest
	Write         int64              `json:"write"`       // bytes of one write call
	MSS           int                `json:"mss"`         // payload of a full segment
	DurationNs    int64              `json:"duration_ns"` // measured time
	Totals        Totals             `json:"totals"`
	Queues        []Queue            `json:"queues"`
	Flows         []Flow             `json:"flows"`
	GuestCounters map[string]float64 `json:"guest_counters"`  // the guest's own, as differences over the measured time
	CostOffset    map[string]float64 `json:"counter_offsets"` // device's minus guest's counter at the first snapshot, by name
	Sizes         []SizeRun          `json:"sizes"`           // flow 0's packets as they left, from the start of the measured time; the first 4096
	Series        []Sample           `json:"series"`
	Warnings      []string           `json:"warnings"`
	TraceHash     *string            `json:"trace_hash"`     // null for a guest in real time
	ClockPhase    *int               `json:"clock_phase_ns"` // of a real kernel in virtual time: by how much its time was past the step of its clock at which the programs start; else null
}

// Points at which packets are counted.
const (
	MeasuredAtDevice = "device" // by the device's own counters
	MeasuredAtGuest  = "guest"  // where they leave the sender: the topology has no device
)

// MeasuredAtOf is where the packets of a scenario are counted.
func MeasuredAtOf(s *Scenario) string {
	if s.Topology == TopologyVeth {
		return MeasuredAtGuest
	}
	return MeasuredAtDevice
}

// Totals are the sums over the queues and flows of a run. kicks and tx_calls
// are those of the transmit queues, rx_calls those of the receive queues; the
// control queue is apart.
type Totals struct {
	GoodputBps   float64  `json:"goodput_bps"`    // payload bits the receiver's TCP got in order, per second
	GSOMeanBytes float64  `json:"gso_mean_bytes"` // payload per data-carrying transmitted packet
	BigShare     float64  `json:"big_share"`      // share of payload bytes in packets of 8 MSS and more, 0..1
	Bytes        int64    `json:"bytes"`          // payload handed to the device
	Packets      int64    `json:"packets"`        // data-carrying packets handed to the device
	Acks         int64    `json:"acks"`           // packets to the guest without payload
	Kicks        int64    `json:"kicks"`
	TxCalls      int64    `json:"tx_calls"`
	RxCalls      int64    `json:"rx_calls"`
	PacketsPerMB float64  `json:"packets_per_mb"`
	WirePerMB    float64  `json:"wire_packets_per_mb"` // packets that the host's side took: fewer where the policy joins some
	WireFloor    *float64 `json:"wire_floor_per_mb"`   // the fewest that could have carried them; null where no packets are joined
	AcksPerMB    float64  `json:"acks_per_mb"`
	KicksPerMB   float64  `json:"kicks_per_mb"`
	TxCallsPerMB float64  `json:"tx_calls_per_mb"`
	RxCallsPerMB float64  `json:"rx_calls_per_mb"`
	ExitNsPerMB  float64  `json:"exit_ns_per_mb"` // kicks times the cost of one, from the cost table
	IRQNsPerMB   float64  `json:"irq_ns_per_mb"`  // calls times the cost of one, from the cost table
	GuestNsPerMB *float64 `json:"guest_cpu_ns_per_mb"`
	HostNsPerMB  *float64 `json:"host_cpu_ns_per_mb"`
}

// Queue is the device's account of one ring.
type Queue struct {
	Guest           string           `json:"guest"` // whose: sender or receiver, with a number if there are several
	Queue           int              `json:"queue"` // pair index
	Dir             string           `json:"dir"`   // tx, rx or ctrl
	Packets         int64            `json:"packets"`
	Bytes           int64            `json:"bytes"` // TCP payload
	FrameBytes      int64            `json:"frame_bytes"`
	Segments        int64            `json:"segments"`
	GSOMeanBytes    float64          `json:"gso_mean_bytes"`
	SmallExcess     int64            `json:"small_packet_excess"` // data-carrying packets beyond those that could have carried the bytes; 0 but for transmit queues
	GSOHist         map[string]int64 `json:"gso_hist"`            // data-carrying packets by payload; the key is the bucket's lower bound, the next power of two ends it
	PacketsPerKick  map[string]int64 `json:"packets_per_kick_hist"`
	PacketsPerCall  map[string]int64 `json:"packets_per_call_hist"`
	Kicks           int64            `json:"kicks"`
	KicksCoalesced  int64            `json:"kicks_coalesced"`
	KicksEmpty      int64            `json:"kicks_empty"`
	KicksSuppressed int64            `json:"kicks_suppressed"`
	Calls           int64            `json:"calls"`
	CallsSuppressed map[string]int64 `json:"calls_suppressed"`
	CallsFailed     int64            `json:"calls_failed"`
	Drops           map[string]int64 `json:"drops"`
	KickToUsed      map[string]int64 `json:"kick_to_used_ns_hist"`
	UsedToCall      map[string]int64 `json:"used_to_call_ns_hist"`
	ExitNs          float64          `json:"exit_ns"`
	IRQNs           float64          `json:"irq_ns"`
}

// Flow is one TCP connection's account.
type Flow struct {
	Flow       int              `json:"flow"`
	Queue      int              `json:"queue"` // transmit queue of its last packet
	GoodputBps float64          `json:"goodput_bps"`
	Bytes      int64            `json:"bytes"` // payload the receiver got in order
	Cwnd       int64            `json:"cwnd"`  // the most frequent value in the measured time, in segments
	CwndLast   int64            `json:"cwnd_last"`
	RTTus      float64          `json:"rtt_us"` // smoothed, at the end
	Retrans    int64            `json:"retrans"`
	SentBytes  *int64           `json:"sent_bytes"` // payload the sender's program wrote in all, warm-up included; null if not known
	RecvBytes  *int64           `json:"recv_bytes"` // payload the receiver's program read in all
	PacingBps  *float64         `json:"pacing_bps"`
	DoneNs     *int64           `json:"done_ns"` // from the flow's start until all its bytes had arrived; null if they did not, or it has no end
	Cuts       map[string]int64 `json:"cuts"`    // packets by the rule that gave them their length; null for a guest that does not tell
	Latency    *Latency         `json:"latency"` // of its requests or messages; null for a stream
	Model      *PathModel       `json:"model"`   // null unless congestion control has one, and the guest tells it
}

// Latency is how long a flow's requests took, from the first write to the
// answer, or its messages, from the write to their arrival; those of the measured
// time.
type Latency struct {
	Count    int64 `json:"count"`
	MedianNs int64 `json:"median_ns"`
	P99Ns    int64 `json:"p99_ns"`
	MaxNs    int64 `json:"max_ns"`
}

// NewLatency sums up times in nanoseconds, which it sorts.
func NewLatency(ns []int64) *Latency {
	slices.Sort(ns)
	l := &Latency{Count: int64(len(ns))}
	if n := len(ns); n > 0 {
		l.MedianNs, l.P99Ns, l.MaxNs = ns[n/2], ns[min(n*99/100, n-1)], ns[n-1]
	}
	return l
}

// PathModel is what a congestion control that sets the rate, BBR, thinks of the
// path at the end of a run.
type PathModel struct {
	Mode         string  `json:"mode"` // as its source names it
	BandwidthBps float64 `json:"bandwidth_bps"`
	MinRTTus     float64 `json:"min_rtt_us"`
	BDPSegs      int64   `json:"bdp_segments"`  // segments that the path holds
	GoalSegs     int64   `json:"goal_segments"` // segments of a packet that its window allows for
}

// SizeRun is a sequence of packet lengths, in payload bytes, and how often it
// follows itself.
type SizeRun struct {
	Lens  []int `json:"lens"`
	Times int   `json:"times"`
}

// Sample is one point of a run's time series: differences since the last.
type Sample struct {
	TNs     int64 `json:"t_ns"`
	Bytes   int64 `json:"bytes"`
	Packets int64 `json:"packets"`
	Kicks   int64 `json:"kicks"`
	TxCalls int64 `json:"tx_calls"`
	RxCalls int64 `json:"rx_calls"`
}

// Conclusion is a statement that compares two runs, and whether it survives
// halving and doubling each assumed cost.
type Conclusion struct {
	ID       string   `json:"id"`       // kind of statement: size, packets, kicks, calls, exits, cpu or goodput
	Subject  string   `json:"subject"`  // what is compared with what
	Text     string   `json:"text"`     // the statement, with the values of its counters
	Counters []string `json:"counters"` // the fields of totals that the text quotes
	Before   int      `json:"before"`   // index into runs
	After    int      `json:"after"`
	Holds    bool     `json:"holds"`  // no change that was tested turns it round
	Tested   []string `json:"tested"` // the assumed costs that were halved and doubled
	Flips    []Flip   `json:"flips"`
}

// Flip is a change of one assumed cost that turns a conclusion round.
type Flip struct {
	Cost   string  `json:"cost"`
	Factor float64 `json:"factor"`
}

// PerMB returns n for each 10^6 bytes, 0 if there were none.
func PerMB(n float64, bytes int64) float64 {
	if bytes == 0 {
		return 0
	}
	return n * 1e6 / float64(bytes)
}
