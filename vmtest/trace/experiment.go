package trace

import (
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
)

// What holds for every kernel that traces were taken of: they ran in user mode,
// in virtual time.
const (
	// KernelHZ is CONFIG_HZ, timer ticks in a second.
	KernelHZ = 100
	// ClockReadCost is how far a clock read in process context advances the
	// guest's time. The cost table uml has it too.
	ClockReadCost = 256 * time.Nanosecond
	// PreGapWrites is the number of writes before the bulk in an Experiment
	// with PreGap.
	PreGapWrites = 10
)

// PreGapWrite is the length of each of those writes.
const PreGapWrite vmtest.Bytes = 1448

// Topologies of an Experiment.
const (
	// TopologyVeth: three network namespaces A, R and B of one guest with a
	// pair of veth devices between A and R and another between R and B. There
	// is no host and no ring; R forwards, with a queueing discipline each way.
	TopologyVeth = "veth"
	// TopologyVirtio: two guests, each with a virtio network device; a host
	// thread for each queue pair of the sender's, and a link without a rate.
	TopologyVirtio = "virtio"
)

// Experiment is what a scenario line says beyond a vmtest.Scenario: the parts
// of the network and of the sender that a Scenario has no keys for.
type Experiment struct {
	Version  string // the kernel's full version, such as 6.1.192; Scenario.Kernel is the named release
	Topology string // TopologyVeth or TopologyVirtio
	Capture  string // where packets were taken: "qdisc" (when they leave A's), or "host" (when the host thread is done with them)

	HZ            int           // KernelHZ
	ClockReadCost time.Duration // ClockReadCost
	MaxTCPHeader  int           // MAX_TCP_HEADER of the build in bytes; sk_gso_max_size is gso_max_size less this and 1

	Sender  Qdisc // at A's device, or at each transmit queue of the sender's virtio device
	MQ      bool  // Sender stands below mq, once for each queue
	Forward Qdisc // veth: of R towards B
	Reverse Qdisc // veth: of R towards A

	RMem [3]vmtest.Bytes // tcp_rmem of both ends: least, start, most
	WMem [3]vmtest.Bytes // tcp_wmem

	Flows    []Handshake // in the order of their SYNs
	Separate bool        // virtio: each flow has a queue of its own

	// PreGap and PreGap2 pause the start of the sender. With PreGap it first
	// writes PreGapWrite bytes, if PreGap2 > 0 sleeps that and writes as much
	// again, sleeps PreGap, makes the rest of PreGapWrites such writes back to
	// back, and then begins its loop.
	PreGap  time.Duration
	PreGap2 time.Duration

	UsedBatch int // virtio: used entries are published when this many are there
}

// Handshake is a flow and when its SYN left, since the first.
type Handshake struct {
	ID  int
	SYN time.Duration
}

// Kinds of queueing disciplines.
const (
	QdiscNone    = "noqueue"
	QdiscFIFO    = "pfifo_fast"
	QdiscFQ      = "fq"
	QdiscFQCodel = "fq_codel"
	QdiscTBF     = "tbf"
	QdiscNetem   = "netem"
)

// Qdisc is a queueing discipline with its parameters; 0 means that there is no
// such limit, or that the kind has its default.
type Qdisc struct {
	Kind    string
	RateBps int64         // bit/s; netem charges it for each segment with its headers
	Delay   time.Duration // netem
	Limit   int64         // netem, fq, fq_codel: packets; tbf: bytes
	Burst   int64         // tbf: bytes
}
