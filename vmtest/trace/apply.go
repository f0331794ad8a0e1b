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
	if x.Topology == TopologyVeth {
		s.ClockPhase = clockPhase
		s.Router = vmtest.RouterConfig{Forward: x.Forward.text(), Reverse: x.Reverse.text()}
	}
	if x.Topology == TopologyVeth && s.NIC.TSOMaxSize < s.GSOMaxSize {
		s.NIC.TSOMaxSize = s.GSOMaxSize // a veth has no limit of its own below it
		s.Receiver.MTU = bigTCPMTU
	}
	for len(s.PerFlow) < len(x.Flows) {
		s.PerFlow = append(s.PerFlow, vmtest.FlowConfig{CPU: -1, Queue: -1})
	}
	for i, f := range x.Flows {
		s.PerFlow[f.ID].Start = f.SYN
		if x.Separate {
			s.PerFlow[f.ID].Queue = i
		}
	}
	return s
}

// clockPhase is how far the guests' time is past a step of their clock when a
// trace begins, in nanoseconds. It comes from what the guest did while it booted,
// and no header says it; so it is the middle of a step of 256. Where timers are
// due within a step of each other it decides whether one interrupt serves them
// all, and so how ACKs are bunched: of the open traces, o03 and o09 of 6.12 need
// another phase to agree packet for packet.
const clockPhase = 128

// bigTCPMTU is the MTU of the links behind the sender's where packets are longer
// than 64 KB: with the sender's own MTU there, a router drops them.
const bigTCPMTU = 9000

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
