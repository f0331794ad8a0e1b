package vmtest

import (
	"fmt"
	"maps"
	"time"
)

// Bytes is a count of bytes. In text, k, M and G are powers of 1024.
type Bytes int64

// BitRate is a rate in bit/s. In text, k, M and G are powers of 1000.
// 0 means no limit.
type BitRate int64

// ByteRate is a rate in byte/s, written with a unit such as 85.7MB/s, where MB
// is 10^6 bytes. 0 means no limit.
type ByteRate int64

// Releases of the transmit skb by the driver.
const (
	ReleaseOrphan = "orphan" // at transmit: virtio_net with napi_tx=0
	ReleaseNAPI   = "napi"   // after completion: virtio_net with napi_tx=1
)

// Scenario is one run: a guest's kernel and driver, its flows, the device, the
// host and the network behind it. The zero value is not usable; Default gives
// the documented defaults, and Validate checks the whole. Fields are set by key
// (see Keys), from a TOML file or with --set.
type Scenario struct {
	Name string `json:"name"`

	// The guest.
	Kernel     string            `json:"kernel"`      // a named release, or for a real guest what --kernel names
	Release    string            `json:"release"`     // ReleaseOrphan, ReleaseNAPI, or "" for the kernel's default
	Remedies   []string          `json:"remedies"`    // names of Remedies, applied to the kernel
	VCPUs      int               `json:"vcpus"`       // 0: one for each flow
	QueuePairs int               `json:"queue_pairs"` // 1..128
	Ring       RingConfig        `json:"ring"`
	TSO        bool              `json:"tso"`
	GSO        bool              `json:"gso"`
	Qdisc      string            `json:"qdisc"`
	CC         string            `json:"cc"`
	Sysctl     map[string]string `json:"sysctl"`         // sysctls by their name, tcp_limit_output_bytes and so on
	TCP        map[string]string `json:"tcp"`            // switches of the kernel's TCP, by name
	Driver     map[string]string `json:"driver"`         // switches of the kernel's virtio-net driver, by name
	BBRPhase   int               `json:"bbr_phase"`      // phase that BBR begins its cycle in, 1..7; 0: by the seed
	ClockPhase int               `json:"clock_phase_ns"` // of a guest whose clock has steps, see Key clock_phase
	HZ         int               `json:"hz"`             // clock ticks per second; 0: 250
	MaxHeader  int               `json:"max_tcp_header"` // MAX_TCP_HEADER of the build in bytes; 0: a distribution's
	GuestCPU   string            `json:"guest_cpu"`
	GuestCosts map[string]string `json:"guest_costs"` // single costs over those of GuestCPU, as text by operation

	// The traffic.
	Flows    int           `json:"flows"`
	Spread   bool          `json:"spread"` // flows take the queues in turn
	PerFlow  []FlowConfig  `json:"flow"`   // what differs for single flows, by index
	Write    Bytes         `json:"write"`
	Think    time.Duration `json:"think_ns"`
	Work     time.Duration `json:"work_ns"` // mean CPU time of the program between two writes
	Total    Bytes         `json:"bytes"`   // each flow's bytes; 0: until the end
	More     bool          `json:"more"`    // MSG_MORE
	NoDelay  bool          `json:"nodelay"`
	Pacing   ByteRate      `json:"pacing_bytes_per_s"` // SO_MAX_PACING_RATE
	Duration time.Duration `json:"duration_ns"`        // measured time, after WarmUp
	WarmUp   time.Duration `json:"warmup_ns"`
	Drain    bool          `json:"drain"`     // run on, unmeasured, until all has arrived
	PreGap   time.Duration `json:"pregap_ns"` // see Key pregap
	PreGap2  time.Duration `json:"pregap2_ns"`
	Seed     uint64        `json:"seed"`

	// Sizes.
	IP         int       `json:"ip"`  // 4 or 6
	MTU        int       `json:"mtu"` // bytes of an IP packet
	MSS        int       `json:"mss"` // payload of a segment; 0: from MTU, with timestamps
	GSOMaxSize Bytes     `json:"gso_max_size"`
	GSOMaxSegs int       `json:"gso_max_segs"`
	NIC        NICConfig `json:"nic"`

	// The device, the host and the network.
	Topology string         `json:"topology"` // TopologyVirtio or TopologyVeth
	Router   RouterConfig   `json:"router"`
	Policy   string         `json:"policy"`
	Host     HostConfig     `json:"host"`
	Link     LinkConfig     `json:"link"`
	Receiver ReceiverConfig `json:"receiver"`
	Guests   GuestsConfig   `json:"guests"`
	Trace    TraceConfig    `json:"trace"`
}

// Topologies of the network around the sender.
const (
	TopologyVirtio = "virtio" // a virtio-net device, a host, and a link
	TopologyVeth   = "veth"   // no device: namespaces A, R and B of one guest, joined by pairs of veth
)

// RouterConfig is the namespace R of TopologyVeth: its queueing disciplines, as
// the key qdisc writes them.
type RouterConfig struct {
	Forward string `json:"fwd"` // towards the receiver
	Reverse string `json:"rev"` // towards the sender
}

// RingConfig is the kind and size of the data rings.
type RingConfig struct {
	Kind     string `json:"kind"` // RingSplit or RingPacked
	Size     int    `json:"size"` // entries, a power of two
	EventIdx bool   `json:"event_idx"`
	Indirect bool   `json:"indirect"`
	InOrder  bool   `json:"in_order"`
}

// Kinds of rings.
const (
	RingSplit  = "split"
	RingPacked = "packed"
)

// NICConfig is what the guest's network device allows.
type NICConfig struct {
	TSOMaxSize Bytes `json:"tso_max_size"`
}

// FlowConfig is what differs for one flow. A zero field means the scenario's.
type FlowConfig struct {
	CPU     int           `json:"cpu"`   // -1: the flow's index modulo the CPUs
	Queue   int           `json:"queue"` // -1: as the kernel chooses
	Start   time.Duration `json:"start_ns"`
	Write   Bytes         `json:"write"`
	Think   time.Duration `json:"think_ns"`
	Total   Bytes         `json:"bytes"`
	CC      string        `json:"cc"`
	NoDelay bool          `json:"nodelay"`
	Pacing  ByteRate      `json:"pacing_bytes_per_s"`
	Kind    string        `json:"kind"`    // FlowStream, FlowRequest or FlowMessage; "": a stream
	Request Bytes         `json:"request"` // of FlowRequest: bytes of a request; 0: one write
}

// Kinds of flows.
const (
	FlowStream  = "stream"  // writes, a pause after each
	FlowRequest = "request" // writes a request, waits for an answer of one byte, pauses
	FlowMessage = "message" // a stream whose every write is timed until it arrives
)

// HostConfig is the modelled host: one worker for each queue pair, on a CPU of
// its own. A field that is nil is that of the model.
type HostConfig struct {
	Model   string         `json:"model"` // fast, med, med2, slow, calibrated, or a file
	Wake    *time.Duration `json:"wake_ns"`
	TxBase  *time.Duration `json:"tx_base_ns"`
	TxPerKB *time.Duration `json:"tx_per_kb_ns"` // for each 1000 bytes of frame and net header
	Rx      *time.Duration `json:"rx_ns"`
}

// LinkConfig is the wire between the host and the receiver, each way.
type LinkConfig struct {
	Rate  BitRate       `json:"rate_bits_per_s"`
	Delay time.Duration `json:"delay_ns"`    // one way
	Queue Bytes         `json:"queue_bytes"` // 0: no limit
	Loss  float64       `json:"loss"`        // share of data packets lost, 0..1
}

// ReceiverConfig is the remote end.
type ReceiverConfig struct {
	Rmem   Bytes  `json:"rmem"`   // largest receive buffer (tcp_rmem[2])
	MTU    int    `json:"mtu"`    // of its device; 0: the sender's
	GRO    bool   `json:"gro"`    // a GSO packet reaches TCP whole
	Kernel string `json:"kernel"` // whose ACK rules; "": the sender's
	Kind   string `json:"kind"`   // ReceiverModel or ReceiverKernel
}

// Kinds of receivers.
const (
	ReceiverModel  = "model"  // hostnet/link's
	ReceiverKernel = "kernel" // guests with kernels of their own
)

// MaxGuests bounds the guests of each kind in one run.
const MaxGuests = 64

// GuestsConfig is how many guests a run has. Flow i goes from sender i modulo the
// senders to receiver i modulo the receivers.
type GuestsConfig struct {
	Senders   int `json:"senders"`
	Receivers int `json:"receivers"` // with ReceiverKernel
}

// TraceConfig says where packets are recorded.
type TraceConfig struct {
	At    string `json:"at"`    // qdisc, driver, device or host
	Rules bool   `json:"rules"` // with the rule that gave each packet its length
}

// Default returns the scenario that every other starts from: a Linux 6.12 guest
// with two flows of 1024-byte writes to the local host over one queue pair.
func Default() Scenario {
	return Scenario{
		Name: "default", Kernel: "6.12", Remedies: []string{}, QueuePairs: 1,
		Ring: RingConfig{Kind: RingSplit, Size: 256, EventIdx: true, Indirect: true},
		TSO:  true, GSO: true, Qdisc: "pfifo_fast", CC: "cubic",
		Sysctl: map[string]string{}, TCP: map[string]string{}, Driver: map[string]string{}, GuestCosts: map[string]string{}, GuestCPU: "kvm",
		Flows: 2, PerFlow: []FlowConfig{}, Write: 1024,
		Duration: 20 * time.Millisecond, WarmUp: 5 * time.Millisecond, Seed: 1,
		IP: 4, MTU: 1500, GSOMaxSize: 65536, GSOMaxSegs: 65535,
		NIC: NICConfig{TSOMaxSize: 65536}, Policy: "none",
		Topology: TopologyVirtio, Router: RouterConfig{Forward: "noqueue", Reverse: "noqueue"},
		Host:     HostConfig{Model: "calibrated"},
		Link:     LinkConfig{Delay: 2 * time.Microsecond},
		Receiver: ReceiverConfig{Rmem: 6 << 20, GRO: true, Kind: ReceiverModel},
		Guests:   GuestsConfig{Senders: 1, Receivers: 1},
		Trace:    TraceConfig{At: "device"},
	}
}

// Clone returns a copy that shares nothing with s.
func (s Scenario) Clone() Scenario {
	s.Remedies = append([]string{}, s.Remedies...)
	s.PerFlow = append([]FlowConfig{}, s.PerFlow...)
	s.Sysctl = cloneMap(s.Sysctl)
	s.TCP = cloneMap(s.TCP)
	s.Driver = cloneMap(s.Driver)
	s.GuestCosts = cloneMap(s.GuestCosts)
	return s
}

func cloneMap(m map[string]string) map[string]string {
	c := make(map[string]string, len(m))
	maps.Copy(c, m)
	return c
}

// EffectiveMSS is the payload of a full segment: MSS, or what MTU leaves beside
// the IP and TCP headers with 12 bytes of timestamp option.
func (s *Scenario) EffectiveMSS() int {
	if s.MSS > 0 {
		return s.MSS
	}
	return s.MTU - s.ipHeader() - 32
}

func (s *Scenario) ipHeader() int {
	if s.IP == 6 {
		return 40
	}
	return 20
}

// CPUs is the number of the guest's CPUs: VCPUs, or one for each flow, at least
// as many as there are queue pairs, since Linux by itself enables no more pairs
// than CPUs.
func (s *Scenario) CPUs() int {
	if s.VCPUs > 0 {
		return s.VCPUs
	}
	return max(s.Flows, s.QueuePairs)
}

// bigTCPMTU is the MTU of the links behind the sender's with TopologyVeth where
// packets are longer than 64 KB: with the sender's own MTU there, a router drops
// them.
const bigTCPMTU = 9000

// FarMTU is the MTU of the receiver's device: Receiver.MTU, or the sender's; with
// TopologyVeth and packets of more than 64 KB at least 9000, the router's too.
func (s *Scenario) FarMTU() int {
	switch {
	case s.Receiver.MTU > 0:
		return s.Receiver.MTU
	case s.Topology == TopologyVeth && s.GSOMaxSize > 65536:
		return max(s.MTU, bigTCPMTU)
	}
	return s.MTU
}

// firstRmem is the most that the receive buffer of TopologyVeth begins with: what
// tcp_rmem[1] is when a machine has memory enough.
const firstRmem = 6 << 20

// VethRmem is tcp_rmem of the namespaces of TopologyVeth, where no sysctl of the
// scenario sets it: the buffer is from the start as large as it may become, as far
// as 6 MiB.
func (s *Scenario) VethRmem() string {
	most := s.Receiver.Rmem
	return fmt.Sprintf("4096 %d %d", min(most, firstRmem), most)
}

// Flow returns what holds for flow i: the scenario's values with those of
// PerFlow[i] over them.
func (s *Scenario) Flow(i int) FlowConfig {
	f := FlowConfig{CPU: -1, Queue: -1}
	if i < len(s.PerFlow) {
		f = s.PerFlow[i]
	}
	if f.CPU < 0 {
		f.CPU = i % s.CPUs()
	}
	if f.Queue < 0 && s.Spread {
		f.Queue = i % s.QueuePairs
	}
	f.Write = orElse(f.Write, s.Write)
	f.Think = orElse(f.Think, s.Think)
	f.Total = orElse(f.Total, s.Total)
	f.CC = orElse(f.CC, s.CC)
	f.Pacing = orElse(f.Pacing, s.Pacing)
	f.NoDelay = f.NoDelay || s.NoDelay
	f.Kind = orElse(f.Kind, FlowStream)
	f.Request = orElse(f.Request, f.Write)
	return f
}

func orElse[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// LargestPacket is the payload of the largest packet that the device can be
// given, in whole segments: gso_max_size less what the kernel leaves for headers
// (net/core/sock.c sk_setup_caps, v6.12), and no more than gso_max_segs; one segment
// without TSO.
func (s *Scenario) LargestPacket() int64 {
	mss := int64(s.EffectiveMSS())
	if !s.TSO {
		return mss
	}
	header := int64(s.MaxHeader)
	if header == 0 {
		header = 320
	}
	limit := min(int64(s.GSOMaxSize), int64(s.NIC.TSOMaxSize)) - 1 - header
	return max(1, min(limit/mss, int64(s.GSOMaxSegs))) * mss
}
