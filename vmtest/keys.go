package vmtest

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/vnetbench/vnetbench/guest/driver"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/vcpu"
)

// ErrUnknownKey is wrapped by the errors of Set and Load for a key that no
// scenario has; the text offers the nearest one.
var ErrUnknownKey = errors.New("unknown key")

// Key is one setting of a Scenario, by the name that scenario files and --set
// use.
type Key struct {
	Name string
	Doc  string // what it is, its unit and its values
	set  func(*Scenario, string) error
	get  func(*Scenario) string
}

// Get returns the key's value in s as text that Set reads back.
func (k Key) Get(s *Scenario) string { return k.get(s) }

// Keys returns every key in the order of the documentation. Five families are
// open: sysctl.NAME, tcp.NAME, driver.NAME, guest.NAME and flow.N.KEY, of which only the pattern is
// listed.
func Keys() []Key { return append([]Key(nil), keys...) }

var keys = []Key{
	text("kernel", "kernel: a named release, or for --guest qemu 6.1, 6.12 or VMLINUZ[:MODULES]", func(s *Scenario) *string { return &s.Kernel }),
	oneOf("release", "when the driver lets go of a packet: orphan (at transmit, napi_tx=0), napi (after completion) or default", releasePtr, "orphan", "napi", "default"),
	{"remedies", "changes to the kernel's TCP, joined by +, or none; `list --remedies` names them", setRemedies, func(s *Scenario) string { return RemedyLabel(s.Remedies) }},
	number32("vcpus", "the guest's CPUs; 0: as many as flows or queue pairs", 0, 256, func(s *Scenario) *int { return &s.VCPUs }),
	number32("queue_pairs", "queue pairs of the device", 1, 128, func(s *Scenario) *int { return &s.QueuePairs }),
	oneOf("ring", "kind of ring: split, or packed, which Linux has from 5.0 on", func(s *Scenario) *string { return &s.Ring.Kind }, RingSplit, RingPacked),
	number32("ring_size", "entries of a data ring, a power of two", 2, 32768, func(s *Scenario) *int { return &s.Ring.Size }),
	onOff("event_idx", "offer EVENT_IDX", func(s *Scenario) *bool { return &s.Ring.EventIdx }),
	onOff("indirect", "offer INDIRECT_DESC", func(s *Scenario) *bool { return &s.Ring.Indirect }),
	onOff("in_order", "offer IN_ORDER, which the simulated driver takes; no release of Linux up to 6.12 does", func(s *Scenario) *bool { return &s.Ring.InOrder }),
	onOff("tso", "TCP segmentation offload of the guest's device", func(s *Scenario) *bool { return &s.TSO }),
	onOff("gso", "generic segmentation offload of the guest's device", func(s *Scenario) *bool { return &s.GSO }),
	oneOf("qdisc", "queueing discipline of each transmit queue: pfifo_fast, noqueue, fq, fq_codel, tbf or netem, with parameters as in tbf:rate=200M,burst=70k,limit=20M (a real guest takes any kind that it has)", func(s *Scenario) *string { return &s.Qdisc }),
	oneOf("cc", "congestion control: reno, cubic, bbr or dctcp (a real guest takes any that it has)", func(s *Scenario) *string { return &s.CC }),
	number32("clock_phase", "nanoseconds by which the guest's time is past a step of its clock when the program starts; it counts for a clock with steps and topology veth, where it decides which timers share an interrupt", 0, 255, func(s *Scenario) *int { return &s.ClockPhase }),
	number32("bbr_phase", "phase of its gain cycle that BBR begins in, 1 to 7; 0: by the seed", 0, 7, func(s *Scenario) *int { return &s.BBRPhase }),
	number32("hz", "clock ticks per second of the simulated kernel; 0: 250", 0, 1000, func(s *Scenario) *int { return &s.HZ }),
	number32("max_tcp_header", "MAX_TCP_HEADER of the simulated kernel's build in bytes; 0: a distribution's", 0, 512, func(s *Scenario) *int { return &s.MaxHeader }),
	text("guest_cpu", "cost table of the guest's CPU: free, one that `list --costs` names, or a file of costs", func(s *Scenario) *string { return &s.GuestCPU }),
	number32("flows", "TCP connections", 1, 10000, func(s *Scenario) *int { return &s.Flows }),
	onOff("spread", "flows take the transmit queues in turn, as on a guest with a CPU for each queue; a real guest chooses by itself", func(s *Scenario) *bool { return &s.Spread }),
	size("write", "bytes of one write call", 1, func(s *Scenario) *Bytes { return &s.Write }),
	duration("think", "sleep after each write", func(s *Scenario) *time.Duration { return &s.Think }),
	duration("work", "mean CPU time of the simulated program between two writes, each pass by chance from half to one and a half of it", func(s *Scenario) *time.Duration { return &s.Work }),
	size("bytes", "bytes that each flow sends; 0: until the run ends", 0, func(s *Scenario) *Bytes { return &s.Total }),
	onOff("more", "write with MSG_MORE", func(s *Scenario) *bool { return &s.More }),
	onOff("nodelay", "TCP_NODELAY", func(s *Scenario) *bool { return &s.NoDelay }),
	byteRate("pacing", "SO_MAX_PACING_RATE, such as 85.7MB/s; 0: none", func(s *Scenario) *ByteRate { return &s.Pacing }),
	duration("duration", "measured time, after the warm-up", func(s *Scenario) *time.Duration { return &s.Duration }),
	duration("warmup", "time before the measurement", func(s *Scenario) *time.Duration { return &s.WarmUp }),
	onOff("drain", "after the measured time, run on until all that the simulated programs wrote has arrived", func(s *Scenario) *bool { return &s.Drain }),
	duration("pregap", "pause in the start of the simulated program: it writes 1448 bytes, pauses pregap2 and writes 1448 more if pregap2 is set, pauses pregap, makes the rest of ten such writes, and begins", func(s *Scenario) *time.Duration { return &s.PreGap }),
	duration("pregap2", "see pregap", func(s *Scenario) *time.Duration { return &s.PreGap2 }),
	{"seed", "seed of every random choice", setSeed, func(s *Scenario) string { return strconv.FormatUint(s.Seed, 10) }},
	{"ip", "IP version: 4 or 6", setIP, func(s *Scenario) string { return strconv.Itoa(s.IP) }},
	number32("mtu", "largest IP packet in bytes", 576, 65535, func(s *Scenario) *int { return &s.MTU }),
	number32("mss", "payload of a full segment in bytes; 0: from mtu, with timestamps", 0, 65483, func(s *Scenario) *int { return &s.MSS }),
	size("gso_max_size", "largest GSO packet of the guest's device in bytes", 1, func(s *Scenario) *Bytes { return &s.GSOMaxSize }),
	number32("gso_max_segs", "most segments of a GSO packet", 1, 65535, func(s *Scenario) *int { return &s.GSOMaxSegs }),
	size("nic.tso_max_size", "largest TSO packet that the driver allows in bytes; virtio_net allows 65536", 1, func(s *Scenario) *Bytes { return &s.NIC.TSOMaxSize }),
	oneOf("topology", "the network around the sender: virtio, or veth (three namespaces of one guest, no device)", func(s *Scenario) *string { return &s.Topology }, TopologyVirtio, TopologyVeth),
	text("router.fwd", "veth: the router's queueing discipline towards the receiver, as qdisc", func(s *Scenario) *string { return &s.Router.Forward }),
	text("router.rev", "veth: the router's queueing discipline towards the sender, as qdisc", func(s *Scenario) *string { return &s.Router.Reverse }),
	text("policy", "policy of the device: none, or NAME[:k=v,...] joined by +", func(s *Scenario) *string { return &s.Policy }),
	text("host", "host model: fast, med, med2, slow, calibrated or a file of costs", func(s *Scenario) *string { return &s.Host.Model }),
	optDuration("host.wake", "time from a kick to the idle host worker running", func(s *Scenario) **time.Duration { return &s.Host.Wake }),
	optDuration("host.tx_base", "host worker's time for one transmitted packet; with a guest in real time, time that it is busy beside its work", func(s *Scenario) **time.Duration { return &s.Host.TxBase }),
	optDuration("host.tx_per_kb", "host worker's time for each 1000 bytes of it; with a guest in real time as host.tx_base", func(s *Scenario) **time.Duration { return &s.Host.TxPerKB }),
	optDuration("host.rx", "host worker's time for one packet to the guest", func(s *Scenario) **time.Duration { return &s.Host.Rx }),
	bitRate("link.rate", "rate of the link, such as 10G; 0: no limit", func(s *Scenario) *BitRate { return &s.Link.Rate }),
	duration("link.delay", "delay of the link, one way", func(s *Scenario) *time.Duration { return &s.Link.Delay }),
	size("link.queue", "queue in front of the link in bytes; 0: no limit", 0, func(s *Scenario) *Bytes { return &s.Link.Queue }),
	{"link.loss", "share of data packets lost, 0 to 1", setLoss, func(s *Scenario) string { return strconv.FormatFloat(s.Link.Loss, 'g', -1, 64) }},
	size("receiver.rmem", "largest receive buffer (tcp_rmem[2]) in bytes", 4096, func(s *Scenario) *Bytes { return &s.Receiver.Rmem }),
	number32("receiver.mtu", "MTU of the receiver's device, which its MSS option comes from; 0: the sender's", 0, 65535, func(s *Scenario) *int { return &s.Receiver.MTU }),
	onOff("receiver.gro", "packets reach the receiver's TCP whole", func(s *Scenario) *bool { return &s.Receiver.GRO }),
	text("receiver.kernel", "release whose receiver rules hold; empty: the sender's", func(s *Scenario) *string { return &s.Receiver.Kernel }),
	oneOf("receiver.kind", "model, or kernel: a second guest of its own (uml; the simulated guest models it with guest_cpu=uml and one CPU, and else takes model, with a warning)", func(s *Scenario) *string { return &s.Receiver.Kind }, ReceiverModel, ReceiverKernel),
	number32("guests.senders", "guests that send, each with a device of its own; flow i is sender i mod guests.senders' (uml)", 1, MaxGuests, func(s *Scenario) *int { return &s.Guests.Senders }),
	number32("guests.receivers", "guests that receive, with receiver.kind kernel; flow i goes to receiver i mod guests.receivers (uml)", 1, MaxGuests, func(s *Scenario) *int { return &s.Guests.Receivers }),
	oneOf("trace.at", "where packets are recorded: qdisc, driver, device or host", func(s *Scenario) *string { return &s.Trace.At }, "qdisc", "driver", "device", "host"),
	onOff("trace.rules", "a column more in traces of the simulated guest: the rule that gave each packet its length", func(s *Scenario) *bool { return &s.Trace.Rules }),
	pattern("sysctl.NAME", "a TCP sysctl by its name, such as sysctl.tcp_limit_output_bytes (the prefix may be left out)"),
	pattern("tcp.NAME", "one switch of the kernel's TCP, on or off or a value; `list --switches` names them"),
	pattern("driver.NAME", "one switch of the kernel's virtio-net driver; `list --switches` names them"),
	pattern("guest.NAME", "time that one operation of the simulated guest's CPU costs, over guest_cpu's; `list --costs` names them"),
	pattern("flow.N.KEY", "one of cpu, queue, start, write, think, bytes, cc, nodelay, pacing for flow N only; or kind: stream, request (the program writes flow.N.request bytes, waits for an answer of one byte, and times that; not in qemu) or message (each write of the simulated program is timed until it arrives)"),
}

// Set gives the key a value. An error names the key and what would be right.
func (s *Scenario) Set(key, value string) error {
	set, err := setter(key)
	if err != nil {
		return err
	}
	if err := set(s, value); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

func setter(key string) (func(*Scenario, string) error, error) {
	for _, k := range keys {
		if k.Name == key && k.set != nil {
			return k.set, nil
		}
	}
	family, rest, _ := strings.Cut(key, ".")
	switch {
	case family == "sysctl":
		return sysctlSetter(key, rest)
	case isSysctl(key):
		return sysctlSetter(key, key)
	case family == "tcp":
		return switchSetter(key, rest)
	case family == "driver":
		return driverSetter(key, rest)
	case family == "guest":
		return costSetter(key, rest)
	case family == "flow":
		return flowSetter(key, rest)
	}
	return nil, unknown(key, keyNames())
}

func keyNames() []string {
	names := make([]string, 0, len(keys))
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return append(names, tcp.SysctlNames()...)
}

func unknown(key string, valid []string) error {
	return fmt.Errorf("%w %q; the nearest is %q", ErrUnknownKey, key, Nearest(key, valid))
}

func isSysctl(name string) bool {
	return contains(tcp.SysctlNames(), name)
}

func sysctlSetter(key, name string) (func(*Scenario, string) error, error) {
	if !isSysctl(name) {
		return nil, unknown(key, prefixed("sysctl.", tcp.SysctlNames()))
	}
	return func(s *Scenario, v string) error {
		var c tcp.Sysctl
		if err := c.Set(name, v); err != nil {
			return err
		}
		s.Sysctl = cloneMap(s.Sysctl)
		s.Sysctl[name] = v
		return nil
	}, nil
}

func switchSetter(key, name string) (func(*Scenario, string) error, error) {
	if !contains(tcp.SwitchNames(), name) {
		return nil, unknown(key, prefixed("tcp.", tcp.SwitchNames()))
	}
	return func(s *Scenario, v string) error {
		var sw tcp.Switches
		if err := sw.Set(name, v); err != nil {
			return err
		}
		s.TCP = cloneMap(s.TCP)
		s.TCP[name] = v
		return nil
	}, nil
}

func driverSetter(key, name string) (func(*Scenario, string) error, error) {
	if !contains(driver.SwitchNames(), name) {
		return nil, unknown(key, prefixed("driver.", driver.SwitchNames()))
	}
	return func(s *Scenario, v string) error {
		var sw driver.Switches
		if err := sw.Set(name, v); err != nil {
			return err
		}
		s.Driver = cloneMap(s.Driver)
		s.Driver[name] = v
		return nil
	}, nil
}

func costSetter(key, name string) (func(*Scenario, string) error, error) {
	if _, ok := vcpu.OpByName(name); !ok {
		return nil, unknown(key, prefixed("guest.", vcpu.OpNames()))
	}
	return func(s *Scenario, v string) error {
		if _, err := ParseDuration(v); err != nil {
			return err
		}
		s.GuestCosts = cloneMap(s.GuestCosts)
		s.GuestCosts[name] = v
		return nil
	}, nil
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// flowKeys are the settings that one flow may have for itself.
var flowKeys = map[string]func(*FlowConfig, string) error{
	"cpu":     func(f *FlowConfig, v string) error { return intInto(&f.CPU, v, 0, 255) },
	"queue":   func(f *FlowConfig, v string) error { return intInto(&f.Queue, v, 0, 127) },
	"start":   func(f *FlowConfig, v string) error { return into(&f.Start, v, ParseDuration) },
	"write":   func(f *FlowConfig, v string) error { return into(&f.Write, v, ParseBytes) },
	"think":   func(f *FlowConfig, v string) error { return into(&f.Think, v, ParseDuration) },
	"bytes":   func(f *FlowConfig, v string) error { return into(&f.Total, v, ParseBytes) },
	"cc":      func(f *FlowConfig, v string) error { f.CC = v; return nil },
	"nodelay": func(f *FlowConfig, v string) error { return into(&f.NoDelay, v, parseOnOff) },
	"pacing":  func(f *FlowConfig, v string) error { return into(&f.Pacing, v, ParseByteRate) },
	"kind":    setFlowKind,
	"request": func(f *FlowConfig, v string) error { return into(&f.Request, v, ParseBytes) },
}

func setFlowKind(f *FlowConfig, v string) error {
	kinds := []string{FlowStream, FlowRequest, FlowMessage}
	if !contains(kinds, v) {
		return fmt.Errorf("%q is not one of %s", v, strings.Join(kinds, ", "))
	}
	f.Kind = v
	return nil
}

func flowSetter(key, rest string) (func(*Scenario, string) error, error) {
	index, name, _ := strings.Cut(rest, ".")
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || i >= 10000 {
		return nil, fmt.Errorf("%w %q; write flow.N.KEY with N from 0, such as flow.0.write", ErrUnknownKey, key)
	}
	set, ok := flowKeys[name]
	if !ok {
		names := make([]string, 0, len(flowKeys))
		for n := range flowKeys {
			names = append(names, "flow."+index+"."+n)
		}
		sort.Strings(names)
		return nil, unknown(key, names)
	}
	return func(s *Scenario, v string) error {
		s.PerFlow = append([]FlowConfig{}, s.PerFlow...)
		for len(s.PerFlow) <= i {
			s.PerFlow = append(s.PerFlow, FlowConfig{CPU: -1, Queue: -1})
		}
		return set(&s.PerFlow[i], v)
	}, nil
}
