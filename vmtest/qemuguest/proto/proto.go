// Package proto is what the harness on the host and its program in the guest
// say to each other: the configuration that the guest finds in its initramfs,
// and messages of one JSON line each over a serial line of their own, so that
// no message takes the path that is being measured. It is without sockets,
// files and clock, and imports nothing of this module.
//
// The order of messages, each side waiting for the other's:
//
//	guest                     host
//	hello                                  the kernel runs
//	ready                                  the network is up, the flows are connected
//	                          go           the receiver listens
//	quiet start, snapshot                  nothing is under way
//	                          seen         the device's counters are taken
//	agreed or quiet again                  the guest's have not moved since
//	quiet end, snapshot ...                the same at the end of the measured time
//	result                                 and the guest switches itself off
//
// At any time the guest may say progress or error, and the host stop: the guest
// then goes to the end at once.
package proto

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// MaxLine is the longest message in bytes, with its end of line.
const MaxLine = 1 << 20

// ConfigPath is where the guest's program finds its Config.
const ConfigPath = "/vnetbench.json"

// ControlTTY is the guest's end of the serial line for messages.
const ControlTTY = "/dev/ttyS1"

// Config is what the guest's program does. Names of kernel settings are as the
// kernel spells them.
type Config struct {
	Modules  []Module          `json:"modules"` // in the order of loading
	Sysctls  map[string]string `json:"sysctls"` // NAME below net/ipv4 or net/core, or a path below /proc/sys
	MAC      string            `json:"mac"`     // of the network device to set up
	Addr     string            `json:"addr"`    // with prefix length
	Peer     string            `json:"peer"`    // without
	Port     int               `json:"port"`    // where the receiver listens
	FromPort int               `json:"from"`    // local port of flow 0; flow i has FromPort+i
	MTU      int               `json:"mtu"`
	Pairs    int               `json:"pairs"`
	Qdisc    string            `json:"qdisc"`
	TSO      bool              `json:"tso"`
	GSO      bool              `json:"gso"`

	GSOMaxSize int    `json:"gso_max_size"` // 0: as it is
	GSOMaxSegs int    `json:"gso_max_segs"` // 0: as it is
	MSS        int    `json:"mss"`          // payload of a segment; 0: as it is
	Flows      []Flow `json:"flows"`
	More       bool   `json:"more"` // MSG_MORE

	WarmUp   time.Duration `json:"warmup_ns"`
	Duration time.Duration `json:"duration_ns"`
	Sample   time.Duration `json:"sample_ns"` // how often the flows' TCP_INFO is looked at

	Program []string          `json:"program"` // run in the place of our sender, with its arguments
	Env     map[string]string `json:"env"`     // of Program
}

// Module is one kernel module.
type Module struct {
	File   string `json:"file"` // in the initramfs
	Params string `json:"params"`
}

// Flow is one connection of our sender.
type Flow struct {
	CPU     int           `json:"cpu"`
	Start   time.Duration `json:"start_ns"`
	Write   int           `json:"write"`
	Think   time.Duration `json:"think_ns"`
	Total   int64         `json:"bytes"` // 0: until the end
	CC      string        `json:"cc"`
	NoDelay bool          `json:"nodelay"`
	Pacing  uint64        `json:"pacing"` // byte/s; 0: none
}

// Kind is what a message is.
type Kind string

// The kinds of messages, in the order of the package comment.
const (
	Hello    Kind = "hello"
	Ready    Kind = "ready"
	Go       Kind = "go"
	Quiet    Kind = "quiet"
	Seen     Kind = "seen"
	Agreed   Kind = "agreed"
	Result   Kind = "result"
	Progress Kind = "progress"
	Error    Kind = "error"
	Stop     Kind = "stop"
)

// Points at which both sides take their counters.
const (
	AtStart = "start"
	AtEnd   = "end"
)

// Message is one line. Which fields are set depends on Kind.
type Message struct {
	Kind     Kind          `json:"kind"`
	Text     string        `json:"text,omitempty"`     // Error, Progress: what
	Kernel   string        `json:"kernel,omitempty"`   // Hello: release of the kernel
	CPUs     int           `json:"cpus,omitempty"`     // Hello: online
	At       string        `json:"at,omitempty"`       // Quiet, Agreed: which point
	Done     time.Duration `json:"done_ns,omitempty"`  // Progress: of the phase Text
	Total    time.Duration `json:"total_ns,omitempty"` // Progress
	Snapshot *Snapshot     `json:"snapshot,omitempty"` // Quiet
	Report   *Report       `json:"report,omitempty"`   // Result
}

// Snapshot is the guest's counters at one point in time.
type Snapshot struct {
	At         time.Duration     `json:"at_ns"`      // of the guest's CLOCK_MONOTONIC
	NIC        map[string]uint64 `json:"nic"`        // ethtool -S
	Interrupts map[string]uint64 `json:"interrupts"` // by the name of the line's last user, all CPUs
	Protocol   map[string]uint64 `json:"protocol"`   // /proc/net/snmp and netstat, as Tcp.RetransSegs
	Written    []int64           `json:"written"`    // bytes that each flow's program has written
}

// Report is the guest's account at the end.
type Report struct {
	Release  string        `json:"release"`     // orphan or napi: how the driver lets go of packets
	Driver   string        `json:"driver"`      // of the network device
	Measured time.Duration `json:"measured_ns"` // from the first write to the last acknowledgement
	Busy     time.Duration `json:"busy_ns"`     // CPU time in it that was not idle, all CPUs, in steps of 10 ms
	Flows    []FlowReport  `json:"flows"`
	Warnings []string      `json:"warnings"`
	Exit     int           `json:"exit"` // status of Config.Program
}

// FlowReport is one connection of our sender at the end.
type FlowReport struct {
	Written     int64   `json:"written"` // bytes, from the first to the last
	Cwnd        int64   `json:"cwnd"`    // the most frequent sample in the measured time, in segments
	CwndLast    int64   `json:"cwnd_last"`
	RTTus       float64 `json:"rtt_us"`
	Retrans     int64   `json:"retrans"` // segments
	PacingBps   float64 `json:"pacing_bps"`
	MSS         int     `json:"mss"`
	CC          string  `json:"cc"`
	DeliveryBps float64 `json:"delivery_bps"`
}

// Write writes m as one line.
func Write(w io.Writer, m Message) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("message %s: %w", m.Kind, err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Parse reads one line. The error names what came instead of a message.
func Parse(line []byte) (Message, error) {
	var m Message
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("not a message: %.80q: %w", line, err)
	}
	if m.Kind == "" {
		return m, fmt.Errorf("a message without a kind: %.80q", line)
	}
	return m, nil
}
