package simguest

import (
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// guestCount is the part of a snapshot that every topology has.
type guestCount struct {
	usage vcpu.Usage
	flows []flowCount
}

type flowCount struct {
	received int64 // payload in order at the receiver
	info     tcp.Info
}

func (w *world) snapshot() snapshot {
	s := snapshot{at: w.loop.Now()}
	w.lower.count(&s)
	for _, c := range w.cpus {
		s.guest.usage = s.guest.usage.Add(c.Usage())
	}
	for _, k := range w.conns {
		s.guest.flows = append(s.guest.flows, flowCount{w.cable.received(k), k.sock.Info()})
	}
	return s
}

// cwndCount counts how often each congestion window was in force when an ACK
// had been processed.
type cwndCount struct{ n []int32 }

// maxCwndCounted bounds the table; larger windows count as this one.
const maxCwndCounted = 1 << 16

func (c *cwndCount) add(cwnd uint32) {
	i := int(min(cwnd, maxCwndCounted))
	for i >= len(c.n) {
		c.n = append(c.n, make([]int32, max(64, len(c.n)))...)
	}
	c.n[i]++
}

func (c *cwndCount) reset() { clear(c.n) }

// mode returns the most frequent value, the smallest of equals.
func (c *cwndCount) mode() int64 {
	best := 0
	for i, n := range c.n {
		if n > c.n[best] {
			best = i
		}
	}
	return int64(best)
}

func (s *snapshot) rings() host.Rings { return host.Rings{RX: s.rx, TX: s.tx, Ctrl: s.ctrl} }

// run turns the difference of two snapshots into a Run.
func (w *world) run(from, to snapshot) *vmtest.Run {
	exit, irq := float64(w.cost.cpu.Picos(vcpu.OpKick))/1000, float64(w.cost.cpu.Picos(vcpu.OpIRQ))/1000
	r := &vmtest.Run{
		MeasuredAt: vmtest.MeasuredAtOf(&w.s),
		Kernel:     w.s.Kernel, KernelVersion: w.s.Kernel, Release: w.lower.release(), Remedies: w.s.Remedies,
		Policy: w.s.Policy, QueuePairs: w.s.QueuePairs, Write: int64(w.s.Write), MSS: w.s.EffectiveMSS(),
		DurationNs: int64(to.at.Sub(from.at)), GuestCounters: w.guestCounters(from, to),
		CostOffset: map[string]float64{}, Sizes: w.rec.sizes(), Series: []vmtest.Sample{}, Warnings: w.warnings(),
	}
	to.rings().AddQueues(r, from.rings(), exit, irq)
	guest := vmtest.PerMB(float64(to.guest.usage.Sub(from.guest.usage).Total()), r.Totals.Bytes)
	host := vmtest.PerMB(float64(to.busy-from.busy), r.Totals.Bytes)
	r.Totals.GuestNsPerMB, r.Totals.HostNsPerMB = &guest, &host
	w.flows(r, from, to)
	hash := w.rec.hash.Hex()
	r.TraceHash = &hash
	return r
}

// warnings says what of the scenario the run did not have.
func (w *world) warnings() []string {
	if w.s.Receiver.Kind == vmtest.ReceiverKernel && !w.cable.receives() {
		return []string{"receiver.kind=kernel: the receiver was the model; the simulated guest has a receiving kernel with guest_cpu=uml and one CPU only"}
	}
	return []string{}
}

func (w *world) flows(r *vmtest.Run, from, to snapshot) {
	r.Flows = []vmtest.Flow{}
	seconds := to.at.Sub(from.at).Seconds()
	for i, k := range w.conns {
		got := to.guest.flows[i].received - from.guest.flows[i].received
		info := &to.guest.flows[i].info
		written, received := k.written, to.guest.flows[i].received
		f := vmtest.Flow{
			Flow: i, Queue: max(k.queue, 0), Bytes: got, Cwnd: k.cwnd.mode(), CwndLast: int64(info.Cwnd),
			RTTus: float64(info.SRTTUs), Retrans: int64(info.Counters.RetransPkts - from.guest.flows[i].info.Counters.RetransPkts),
			SentBytes: &written, RecvBytes: &received,
		}
		if seconds > 0 {
			f.GoodputBps = float64(got) * 8 / seconds
		}
		if info.PacingRate != tcp.Unlimited {
			rate := float64(info.PacingRate) * 8
			f.PacingBps = &rate
		}
		f.Model = pathModel(info)
		f.Cuts = cuts(&info.Counters, &from.guest.flows[i].info.Counters)
		f.Latency, f.DoneNs = k.ask.latency(k), k.doneNs()
		r.Totals.GoodputBps += f.GoodputBps
		r.Flows = append(r.Flows, f)
	}
}

// cuts are the packets of a flow by the rule that bounded them.
func cuts(to, from *tcp.Counters) map[string]int64 {
	out := map[string]int64{}
	for rule := range tcp.NumRules {
		if n := to.Cuts[rule] - from.Cuts[rule]; n > 0 {
			out[rule.String()] = int64(n)
		}
	}
	return out
}

// pathModel is BBR's view of the path; nil for algorithms without one.
func pathModel(i *tcp.Info) *vmtest.PathModel {
	m := &i.Model
	if m.Mode == "" {
		return nil
	}
	return &vmtest.PathModel{Mode: m.Mode, BandwidthBps: float64(m.Bandwidth) * 8, MinRTTus: float64(m.MinRTTUs),
		BDPSegs: int64(m.BDP), GoalSegs: int64(m.Goal)}
}

// guestCounters are the guest's own: the driver's as ethtool -S names them, TCP's
// as /proc/net/netstat does where it has them, and the CPUs'.
func (w *world) guestCounters(from, to snapshot) map[string]float64 {
	out := map[string]float64{}
	for i, s := range to.stats {
		out[s.Name] = float64(s.Value - from.stats[i].Value)
	}
	for i := range to.guest.flows {
		a, b := &to.guest.flows[i].info.Counters, &from.guest.flows[i].info.Counters
		out["TCPAutoCorking"] += float64(a.Autocork - b.Autocork)
		out["tsq_throttled"] += float64(a.Throttled - b.Throttled)
		out["tso_deferred"] += float64(a.Deferred - b.Deferred)
		out["RetransSegs"] += float64(a.RetransSegs - b.RetransSegs)
		out["TCPTimeouts"] += float64(a.Timeouts - b.Timeouts)
		for rule, n := range cuts(a, b) {
			out["cut_"+rule] += float64(n)
		}
	}
	usage := to.guest.usage.Sub(from.guest.usage)
	for op, n := range usage.Ops {
		if n > 0 {
			out["cpu_"+vcpu.Op(op).String()] = float64(n)
		}
	}
	for i, b := range usage.Busy {
		out["cpu_ns_"+vcpu.Class(i).String()] = float64(b)
	}
	return out
}
