package trace

import (
	"fmt"
	"strings"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
)

// Complete returns the scenario with what the experiment says beyond it, so
// that the simulated guest can run it: topology, router, build of the kernel,
// the program's start, and the flows' connections.
func (x *Experiment) Complete(s vmtest.Scenario) vmtest.Scenario {
	s = s.Clone()
	s.Topology, s.HZ, s.MaxHeader = x.Topology, x.HZ, x.MaxTCPHeader
	s.PreGap, s.PreGap2, s.Drain = x.PreGap, x.PreGap2, true
	s.Qdisc = x.Sender.text()
	if x.Topology == TopologyVirtio {
		s.ClockPhase = extPhase[s.Kernel]
		s.Receiver.Kind = vmtest.ReceiverKernel
		s.Driver["bql"] = "off" // the kernels are built from allnoconfig, without CONFIG_BQL
	}
	if x.Topology == TopologyVeth {
		s.ClockPhase = clockPhase[s.Kernel]
		s.Router = vmtest.RouterConfig{Forward: x.Forward.text(), Reverse: x.Reverse.text()}
	}
	if x.Topology == TopologyVeth && s.NIC.TSOMaxSize < s.GSOMaxSize {
		s.NIC.TSOMaxSize = s.GSOMaxSize // a veth has no limit of its own below it
	}
	for len(s.PerFlow) < len(x.Flows) {
		s.PerFlow = append(s.PerFlow, vmtest.FlowConfig{CPU: -1, Queue: -1})
	}
	for i, f := range x.Flows {
		s.PerFlow[f.ID].Start = x.start(&s, i)
		if x.Separate {
			s.PerFlow[f.ID].Queue = i
		}
	}
	return s
}

// start is when the program of the flow with the i-th SYN connects. With
// TopologyVirtio a SYN is captured when the host has finished it: one that waited
// there for the SYN before it says nothing of when it was sent, and its program is
// taken to have started with that one's.
func (x *Experiment) start(s *vmtest.Scenario, i int) time.Duration {
	at := x.Flows[i].SYN
	if x.Topology != TopologyVirtio || i == 0 || x.Separate || s.Host.TxBase == nil {
		return at
	}
	before := x.Flows[i-1]
	if at-before.SYN > *s.Host.TxBase+synBytes**s.Host.TxPerKB/1000 {
		return at
	}
	return s.PerFlow[before.ID].Start + 1
}

// synBytes is the length of a SYN with its net header.
const synBytes = 12 + 74

// clockPhase is how far the guests' time is past a step of their clock when a
// trace begins, in nanoseconds, by their kernel. It comes from what the guest did
// while it booted, which no header says. Where timers are due within a step of
// each other it decides whether one interrupt serves them all, and so how ACKs are
// bunched. These values were found with the open traces: 128 for 6.1, any of 44 to
// 50 for 6.12, let all of them agree in every length.
var clockPhase = map[string]int{"6.1": 128, "6.12": 47}

// extPhase is the same for the guests with an outside calendar, by their kernel:
// what most of the open traces have. With another of the 256 values a trace differs
// within its first packets, so that a comparison can find it.
var extPhase = map[string]int{"6.1": 56, "6.12": 181}

// text writes the discipline as the key qdisc reads it.
func (q *Qdisc) text() string {
	var args []string
	add := func(name string, v int64) {
		if v > 0 {
			args = append(args, fmt.Sprintf("%s=%d", name, v))
		}
	}
	if q.Delay > 0 {
		args = append(args, "delay="+time.Duration(q.Delay).String())
	}
	add("rate", q.RateBps)
	add("burst", q.Burst)
	add("limit", q.Limit)
	if len(args) == 0 {
		return q.Kind
	}
	return q.Kind + ":" + strings.Join(args, ",")
}
