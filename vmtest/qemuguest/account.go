package qemuguest

import (
	"errors"
	"fmt"
	"time"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// ErrMismatch says that the device and the guest's driver counted different
// numbers of kicks in the measured time: one of them is wrong.
var ErrMismatch = errors.New("kick counts differ")

// account lays the two points out as a Run. Without an end the device's
// counters of now take its place.
func (s *session) account(b *bench) *vmtest.Run {
	sc := s.scenario
	end := s.end
	if end == nil {
		end = &point{guest: s.start.guest, device: s.back.counters(), received: s.recv.received(), cpu: ownCPU()}
	}
	r := &vmtest.Run{
		Kernel: sc.Kernel, KernelVersion: s.hello.Kernel, Release: sc.Release,
		Remedies: append([]string{}, sc.Remedies...), Policy: sc.Policy, QueuePairs: sc.QueuePairs,
		Write: int64(sc.Write), MSS: sc.EffectiveMSS(), DurationNs: int64(s.measured(end)),
		Queues: []vmtest.Queue{}, Flows: []vmtest.Flow{}, Series: s.series, Warnings: []string{},
		GuestCounters: differences(s.start.guest, end.guest), CostOffset: offsets(s.start),
	}
	if s.series == nil {
		r.Series = []vmtest.Sample{}
	}
	if s.report != nil {
		r.Release = s.report.Release
		r.Warnings = append(r.Warnings, s.report.Warnings...)
	}
	s.addQueues(r, end)
	s.addFlows(r, b.watch, end)
	s.addWarnings(r, b)
	return r
}

// measured is the time between the points: as the guest measured it, from the
// first write to the last acknowledgement, or if it was interrupted ours.
func (s *session) measured(end *point) time.Duration {
	if s.report != nil {
		return s.report.Measured
	}
	return time.Since(s.started)
}

// addQueues fills in the queues and the totals.
func (s *session) addQueues(r *vmtest.Run, end *point) {
	exit, irq := notificationCosts(s.scenario.GuestCPU)
	var tx, rx netdev.Stats
	for i, q := range end.device {
		d := q.stats
		d.Sub(&s.start.device[i].stats)
		r.Queues = append(r.Queues, vmtest.NewQueue(q.pair, q.dir, &d, exit, irq))
		if q.dir == netdev.DirTX {
			tx.Merge(&d)
		} else {
			rx.Merge(&d)
		}
	}
	r.Totals = vmtest.NewTotals(&tx, &rx, exit, irq)
	var got int64
	for i, n := range end.received {
		got += n - before(s.start.received, i)
	}
	r.Totals.GoodputBps = perSecond(8*got, time.Duration(r.DurationNs))
	host := vmtest.PerMB(float64(end.cpu-s.start.cpu), r.Totals.Bytes)
	r.Totals.HostNsPerMB = &host
	if s.report != nil {
		guest := vmtest.PerMB(float64(s.report.Busy), r.Totals.Bytes)
		r.Totals.GuestNsPerMB = &guest
	}
}

// notificationCosts are what one kick and one call cost by the cost table, in
// nanoseconds.
func notificationCosts(table string) (exit, irq float64) {
	t, err := vmtest.GuestTable(table)
	if err != nil {
		return 0, 0
	}
	return float64(t.Picos(vcpu.OpKick)) / 1000, float64(t.Picos(vcpu.OpIRQ)) / 1000
}

func before(counts []int64, i int) int64 {
	if i < len(counts) {
		return counts[i]
	}
	return 0
}

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// addFlows fills in the flows: our sender's, or a program's connections, of
// which only the receiver's side is known.
func (s *session) addFlows(r *vmtest.Run, w *watch, end *point) {
	total := s.recv.received()
	for i, got := range total {
		if i >= len(w.queue) || got > 0 || s.report != nil && i < len(s.report.Flows) {
			r.Flows = append(r.Flows, s.flow(i, got, w, end, time.Duration(r.DurationNs)))
		}
	}
}

func (s *session) flow(i int, got int64, w *watch, end *point, d time.Duration) vmtest.Flow {
	measured := before(end.received, i) - before(s.start.received, i)
	f := vmtest.Flow{Flow: i, Queue: -1, Bytes: measured, GoodputBps: perSecond(8*measured, d), RecvBytes: &got}
	if i < len(w.queue) {
		f.Queue = w.last(i)
	}
	if s.report == nil || i >= len(s.report.Flows) {
		return f
	}
	fr := s.report.Flows[i]
	f.Cwnd, f.CwndLast, f.RTTus, f.Retrans = fr.Cwnd, fr.CwndLast, fr.RTTus, fr.Retrans
	f.SentBytes, f.PacingBps = &fr.Written, &fr.PacingBps
	return f
}

// addWarnings says what makes the run's figures less than they seem.
func (s *session) addWarnings(r *vmtest.Run, b *bench) {
	warn := func(format string, a ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, a...)) }
	if !b.kvm.Works {
		warn("the guest's CPU is emulated (TCG): counts are real, times and rates are those of the emulator")
	}
	if d := s.scenario.Duration; d < 200*time.Millisecond {
		warn("measured for %v of real time: too short for steady figures; set duration=2s", d)
	}
	if s.report == nil {
		return
	}
	for i, f := range s.report.Flows {
		if f.MSS != 0 && f.MSS != r.MSS {
			warn("flow %d has segments of %d bytes, not %d", i, f.MSS, r.MSS)
		}
	}
	for i := range b.network.tap.Queues() {
		st := b.network.tap.Queue(i).Stats()
		if lost := st.Rejected + st.Detached + st.NoMemory + st.Pieces + st.Cut; lost > 0 {
			warn("the tap of queue %d lost %d frames: %+v", i, lost, st)
		}
	}
}

// differences are the guest's counters between two points. Those that did not
// move are left out.
func differences(start, end *proto.Snapshot) map[string]float64 {
	out := map[string]float64{}
	add := func(prefix string, a, b map[string]uint64) {
		for name, v := range b {
			if d := v - a[name]; d != 0 {
				out[prefix+name] = float64(int64(d))
			}
		}
	}
	add("nic.", start.NIC, end.NIC)
	add("irq.", start.Interrupts, end.Interrupts)
	add("", start.Protocol, end.Protocol)
	return out
}

// kicksSaid is the driver's counter of notifications for one ring. virtio_net
// calls it tx_queue_0_kicks in Linux 6.1 and tx0_kicks in 6.12.
func kicksSaid(s *proto.Snapshot, q *queueCount) (name string, n uint64, ok bool) {
	for _, format := range []string{"%s_queue_%d_kicks", "%s%d_kicks"} {
		name = fmt.Sprintf(format, q.dir, q.pair)
		if n, ok = s.NIC[name]; ok {
			return name, n, true
		}
	}
	return "", 0, false
}

// offsets are the device's counters less the driver's at a point. A driver
// begins to count when it is loaded, a device when its ring starts.
func offsets(p *point) map[string]float64 {
	out := map[string]float64{}
	for i := range p.device {
		if name, n, ok := kicksSaid(p.guest, &p.device[i]); ok {
			out["nic."+name] = float64(int64(p.device[i].stats.Kicks - n))
		}
	}
	return out
}

// mismatch compares the kicks of each ring between two points.
func mismatch(start, end *point) error {
	if start == nil || end == nil {
		return nil
	}
	for i := range end.device {
		q := &end.device[i]
		name, last, ok := kicksSaid(end.guest, q)
		if !ok {
			continue
		}
		_, first, _ := kicksSaid(start.guest, q)
		device := q.stats.Kicks - start.device[i].stats.Kicks
		if device != last-first {
			return fmt.Errorf("%w: %s %d: the driver says %d (%s), the device %d", ErrMismatch, q.dir, q.pair, last-first, name, device)
		}
	}
	return nil
}
