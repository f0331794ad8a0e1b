package umlguest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// snapshot is every counter of the world at one time.
type snapshot struct {
	at       vtime.Time
	rings    []host.Rings  // of the guests, in the calendar's order: the senders first
	busy     time.Duration // of the senders' workers
	received []int64       // by flow
}

func (w *world) snapshot(now vtime.Time) snapshot {
	if w.s.Topology == vmtest.TopologyVeth {
		return w.capture.snapshot(now)
	}
	s := snapshot{at: now}
	for _, c := range w.cal.clients {
		s.rings = append(s.rings, c.dev.rings())
	}
	for _, x := range w.sources {
		for _, k := range x.c.dev.workers {
			s.busy += k.Busy
		}
	}
	for i := range w.flows {
		s.received = append(s.received, w.received(i))
	}
	return s
}

// rings are the device's counters.
func (s *session) rings() host.Rings {
	r := host.Rings{Ctrl: s.dev.Ctrl().Snapshot()}
	for i := range s.dev.Pairs() {
		p := s.dev.Pair(i)
		r.TX, r.RX = append(r.TX, p.TX.Snapshot()), append(r.RX, p.RX.Snapshot())
	}
	return r
}

// received is the payload of a flow that arrived in order, and that was
// acknowledged by a receiving guest.
func (w *world) received(flow int) int64 {
	if len(w.receivers) == 0 {
		return w.net.Received(flow)
	}
	return max(int64(w.flows[flow].acked)-1, 0)
}

// outcome turns the marks into a Run. It can be had of a run that was cut short.
func (w *world) outcome(k Kernel) *vmtest.Run {
	if len(w.marks) == 0 {
		w.marks = append(w.marks, w.snapshot(w.cal.at))
	}
	from, to := &w.marks[0], &w.marks[len(w.marks)-1]
	t, _ := vmtest.GuestTable(w.s.GuestCPU)
	exit, irq := float64(t.Picos(vcpu.OpKick))/1000, float64(t.Picos(vcpu.OpIRQ))/1000
	r := &vmtest.Run{
		MeasuredAt: vmtest.MeasuredAtOf(&w.s), Kernel: w.s.Kernel, KernelVersion: k.Version, Release: w.s.Release, Remedies: w.s.Remedies,
		Policy: w.s.Policy, QueuePairs: w.s.QueuePairs, Write: int64(w.s.Write), MSS: w.s.EffectiveMSS(),
		DurationNs: int64(to.at.Sub(from.at)), GuestCounters: w.guestCounters(), CostOffset: map[string]float64{},
		Sizes: w.rec.sizes(), Series: w.series(), Warnings: w.warnings(),
	}
	if r.Release == "" && w.s.Topology == vmtest.TopologyVirtio {
		r.Release = vmtest.ReleaseNAPI // what virtio_net does since v5.3
	}
	w.addQueues(r, from, to, exit, irq)
	if w.s.Topology == vmtest.TopologyVirtio {
		host := vmtest.PerMB(float64(to.busy-from.busy), r.Totals.Bytes)
		r.Totals.HostNsPerMB = &host
	}
	w.addFlows(r, from, to)
	if w.sender.began > 0 {
		phase := int(w.sender.began.Sub(base))
		r.ClockPhase = &phase
	}
	hash := w.rec.hash.Hex()
	r.TraceHash = &hash
	return r
}

// addQueues adds the queues of all guests; the totals are the senders'.
func (w *world) addQueues(r *vmtest.Run, from, to *snapshot, exit, irq float64) {
	var tx, rx netdev.Stats
	for i, x := range w.sources {
		t, v := to.rings[i].Append(r, strings.TrimPrefix(x.c.name, "guest "), from.rings[i], exit, irq)
		tx.Merge(&t)
		rx.Merge(&v)
	}
	r.Totals = vmtest.NewTotals(&tx, &rx, exit, irq)
	for i, far := range w.receivers {
		i += len(w.sources)
		to.rings[i].Append(r, strings.TrimPrefix(far.c.name, "guest "), from.rings[i], exit, irq)
	}
}

func (w *world) addFlows(r *vmtest.Run, from, to *snapshot) {
	r.Flows = []vmtest.Flow{}
	seconds := to.at.Sub(from.at).Seconds()
	warm, end := w.said("warm"), w.said("end")
	for i := range w.flows {
		got := to.received[i] - from.received[i]
		f := vmtest.Flow{Flow: i, Queue: w.flows[i].queue, Bytes: got,
			Cwnd: end[i]["cwnd"], CwndLast: end[i]["cwnd_last"], RTTus: float64(end[i]["rtt_us"]),
			Retrans: end[i]["retrans"] - warm[i]["retrans"], Latency: latency(w.s.Flow(i), end[i])}
		if written, ok := end[i]["written"]; ok {
			f.SentBytes = &written
		}
		received := to.received[i]
		f.RecvBytes = &received
		if seconds > 0 {
			f.GoodputBps = float64(got) * 8 / seconds
		}
		if p, ok := end[i]["pacing"]; ok && p > 0 {
			rate := float64(p) * 8
			f.PacingBps = &rate
		}
		r.Totals.GoodputBps += f.GoodputBps
		r.Flows = append(r.Flows, f)
	}
}

// said is what the guest's program printed of its flows at a point of the run.
func (w *world) said(when string) []map[string]int64 {
	out := make([]map[string]int64, len(w.flows))
	for i := range out {
		out[i] = map[string]int64{}
	}
	for k, x := range w.sources {
		for _, line := range x.c.vm.console.said("flow") {
			words := strings.Fields(line)
			if len(words) < 2 || words[1] != when {
				continue
			}
			i, err := strconv.Atoi(words[0])
			if i = i*len(w.sources) + k; err != nil || i < 0 || i >= len(out) { // a guest counts its own
				continue
			}
			readValues(out[i], words[2:])
		}
	}
	return out
}

// readValues reads words of the form name=number.
func readValues(out map[string]int64, words []string) {
	for _, word := range words {
		name, v, _ := strings.Cut(word, "=")
		if n, err := strconv.ParseUint(v, 10, 64); err == nil && n < 1<<63 {
			out[name] = int64(n)
		}
	}
}

// guestCounters are what the senders' TCP counted in the measured time, as
// /proc/net/netstat and snmp name it; counters that did not move are left out.
func (w *world) guestCounters() map[string]float64 {
	out := map[string]float64{}
	for _, x := range w.sources {
		for name, v := range counters(x.c.vm.console.said("end")) {
			out[name] += v
		}
		for name, v := range counters(x.c.vm.console.said("warm")) {
			out[name] -= v
		}
	}
	for name, v := range out {
		if v == 0 || name == "RtoAlgorithm" || name == "RtoMin" || name == "RtoMax" || name == "MaxConn" || name == "CurrEstab" {
			delete(out, name)
		}
	}
	return out
}

// counters reads pairs of lines, of names and of values, of the TCP tables.
func counters(lines []string) map[string]float64 {
	out := map[string]float64{}
	for i := 0; i+1 < len(lines); i++ {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		if len(names) < 2 || len(names) != len(values) || names[0] != values[0] || names[0] != "TcpExt:" && names[0] != "Tcp:" {
			continue
		}
		for j := 1; j < len(names); j++ {
			if v, err := strconv.ParseFloat(values[j], 64); err == nil {
				out[names[j]] = v
			}
		}
		i++
	}
	return out
}

func (w *world) series() []vmtest.Sample {
	out := []vmtest.Sample{}
	for i := 1; i < len(w.marks); i++ {
		out = append(out, sample(&w.marks[i-1], &w.marks[i], len(w.sources)))
	}
	return out
}

// sample is what the senders' devices counted between two marks.
func sample(from, to *snapshot, senders int) vmtest.Sample {
	s := vmtest.Sample{TNs: int64(to.at.Sub(base))}
	for g := range senders {
		to, from := &to.rings[g], &from.rings[g]
		for i := range to.TX {
			s.Bytes += int64(to.TX[i].PayloadBytes - from.TX[i].PayloadBytes)
			s.Packets += int64(to.TX[i].DataPackets - from.TX[i].DataPackets)
			s.Kicks += int64(to.TX[i].Kicks - from.TX[i].Kicks)
			s.TxCalls += int64(to.TX[i].Calls - from.TX[i].Calls)
			s.RxCalls += int64(to.RX[i].Calls - from.RX[i].Calls)
		}
	}
	return s
}

// warnings say what of the scenario was modelled, and how.
func (w *world) warnings() []string {
	out := []string{"the guest computes in no virtual time: exits, interrupts and softirqs cost it nothing; host, link and receivers are models"}
	if len(w.receivers) > 0 {
		out[0] = "the guests compute in no virtual time: exits, interrupts and softirqs cost them nothing; the senders' hosts and the link are models, the receivers' hosts take no time"
	}
	if w.s.Topology == vmtest.TopologyVeth {
		out[0] = "the guest computes in no virtual time; there is no device: sender, router and receiver are namespaces of one guest"
	}
	if d := think(&w.s, w.s.Flow(0)); w.s.Flow(0).Think == 0 && d > 0 {
		out = append(out, fmt.Sprintf("its CPU is represented by a pause of %v after each write: guest.work, and the system call and copy of %s", d, w.s.GuestCPU))
	}
	if w.s.CPUs() > 1 && w.s.Topology == vmtest.TopologyVirtio {
		out = append(out, "the guest has one CPU, and flows go to queues by hash")
	}
	if w.s.Topology == vmtest.TopologyVeth {
		return append(out, w.capture.warnings()...)
	}
	if w.shared() {
		out = append(out, "flows share a queue while another has none; another --seed gives other queues")
	}
	if w.s.GSOMaxSize > maxGSOSize && w.s.NIC.TSOMaxSize > maxGSOSize {
		out = append(out, fmt.Sprintf("gso_max_size is %d: virtio_net allows no more, whatever the scenario says (%d)", maxGSOSize, w.s.GSOMaxSize))
	}
	if w.sender.vm != nil && w.sender.vm.random {
		out = append(out, "not deterministic: personality(2) was refused, and the guest's memory lies at random addresses")
	}
	return out
}

// latency is what a flow's program says of its requests; nil for one that asks
// nothing. A reading of the clock at either end is in it.
func latency(f vmtest.FlowConfig, end map[string]int64) *vmtest.Latency {
	if f.Kind != vmtest.FlowRequest {
		return nil
	}
	return &vmtest.Latency{Count: end["answers"], MedianNs: end["median"], P99Ns: end["p99"], MaxNs: end["max"]}
}
