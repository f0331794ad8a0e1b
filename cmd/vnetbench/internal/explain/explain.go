// Package explain says in words what a run's counters show, ring by ring: how large
// the packets were, what cut them, what that cost, and what a change would do, which
// it finds out with the simulator. It prints nothing by itself.
package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/trace"
)

// width is that of the text.
const width = 128

// Run writes what the counters of a run of the result say.
func Run(w io.Writer, res *vmtest.Result, i int) error {
	r := &res.Runs[i]
	s, err := res.ScenarioOf(i)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: Linux %s, %s, %d queue pairs, writes of %d bytes, policy %s\n", r.Label, r.Kernel, r.Release, r.QueuePairs, r.Write, r.Policy)
	for q := range r.Queues {
		if x := &r.Queues[q]; x.Dir == "tx" && x.Bytes > 0 && strings.HasPrefix(x.Guest, "sender") {
			ring(&b, r, x, &s)
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// ring is the paragraph about a transmit ring and the receive ring beside it.
func ring(b *strings.Builder, r *vmtest.Run, q *vmtest.Queue, s *vmtest.Scenario) {
	data := q.DataPackets()
	fmt.Fprintf(b, "  %s tx queue %d:\n", q.Guest, q.Queue)
	say := func(format string, args ...any) {
		b.WriteString(grid.Wrap(fmt.Sprintf(format, args...), width, "    - ", "      "))
	}
	mb := float64(q.Bytes) / 1e6
	say("%d packets carried %s MB: %s bytes each in the mean (gso_mean_bytes), of %d that one may carry. %d of them, %s %%, would not have been needed (small_packet_excess).",
		data, grid.Number(mb), grid.Number(q.GSOMeanBytes), s.LargestPacket(), q.SmallExcess, percent(q.SmallExcess, data))
	say("What cut them: %s", reasons(r, q, s, data))
	if r.MeasuredAt == vmtest.MeasuredAtGuest {
		say("There is no device here, so nothing was kicked or called.")
		return
	}
	say("The driver kicked %s times per MB (kicks), once for %s packets; %s us per MB of exits.",
		grid.Number(vmtest.PerMB(float64(q.Kicks), q.Bytes)), each(q.Packets, q.Kicks), grid.Number(vmtest.PerMB(q.ExitNs/1e3, q.Bytes)))
	say("%s", calls(r, q))
}

// calls is about both rings of the pair.
func calls(r *vmtest.Run, q *vmtest.Queue) string {
	var text strings.Builder
	fmt.Fprintf(&text, "The device interrupted for it %s times per MB (calls)", grid.Number(vmtest.PerMB(float64(q.Calls), q.Bytes)))
	irq := q.IRQNs
	for i := range r.Queues {
		if rx := &r.Queues[i]; rx.Dir == "rx" && rx.Queue == q.Queue && rx.Guest == q.Guest {
			fmt.Fprintf(&text, ", and %s times for the %s packets per MB that came back, mostly ACKs",
				grid.Number(vmtest.PerMB(float64(rx.Calls), q.Bytes)), grid.Number(vmtest.PerMB(float64(rx.Packets), q.Bytes)))
			irq += rx.IRQNs
		}
	}
	return fmt.Sprintf("%s; %s us per MB of interrupts.", text.String(), grid.Number(vmtest.PerMB(irq/1e3, q.Bytes)))
}

// reasons are the shares of the rules, by the model's log; for a real guest, what
// the counters suggest.
func reasons(r *vmtest.Run, q *vmtest.Queue, s *vmtest.Scenario, data int64) string {
	cuts, all := map[string]int64{}, int64(0)
	for _, f := range r.Flows {
		if f.Queue != q.Queue {
			continue
		}
		for rule, n := range f.Cuts {
			cuts[rule] += n
			all += n
		}
	}
	if all == 0 {
		return inferred(r, q, s, data)
	}
	var parts []string
	for _, rule := range byCount(cuts) {
		parts = append(parts, fmt.Sprintf("%s %s %%", trace.RuleText(rule), percent(cuts[rule], all)))
	}
	text := strings.Join(parts, ", ") + " (the model's log of the flows whose last packet went here)."
	return text + backlog(r, q)
}

func byCount(m map[string]int64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if m[a] != m[b] {
			return int(m[b] - m[a])
		}
		return strings.Compare(a, b)
	})
	return keys
}

// inferred is said of guests that log no rules.
func inferred(r *vmtest.Run, q *vmtest.Queue, s *vmtest.Scenario, data int64) string {
	const mark = " (inferred from counters: a real guest logs no rules.)"
	mean := q.GSOMeanBytes
	switch {
	case !s.TSO:
		return "segmentation offload is off, so that each packet is one segment" + mark
	case mean >= 0.8*float64(s.LargestPacket()):
		return "the largest size that device and driver allow, for most" + mark
	case mean < 2*float64(r.MSS):
		return "the end of what was written, for most: they are of one segment or two, so little waited behind an unacknowledged or unfreed packet" + mark + backlog(r, q)
	case float64(r.Write) > mean && mean > 0.8*float64(min(r.Write, s.LargestPacket())):
		return "the end of a write" + mark
	}
	return fmt.Sprintf("the backlog of each moment: sizes are between a segment and the largest, %s %% of the packets below two segments",
		percent(below(q, int64(2*r.MSS)), data)) + mark + backlog(r, q)
}

// backlog says how far the device was behind.
func backlog(r *vmtest.Run, q *vmtest.Queue) string {
	if q.Kicks == 0 || r.MeasuredAt == vmtest.MeasuredAtGuest {
		return ""
	}
	per := float64(q.Packets) / float64(q.Kicks)
	if per < 4 {
		return fmt.Sprintf(" The device found its ring empty after every %s packets: it is faster than the guest, and nothing gathers.", grid.Number(per))
	}
	return fmt.Sprintf(" The device was behind: it took %s packets from kick to kick.", grid.Number(per))
}

// below counts the packets in buckets that end at or below n.
func below(q *vmtest.Queue, n int64) int64 {
	var out int64
	for bucket, count := range q.GSOHist {
		var low int64
		if _, err := fmt.Sscan(bucket, &low); err == nil && 2*low <= n && low > 0 {
			out += count
		}
	}
	return out
}

func percent(n, of int64) string {
	if of == 0 {
		return "0"
	}
	return grid.Number(100 * float64(n) / float64(of))
}

func each(n, of int64) string {
	if of == 0 {
		return "no number of"
	}
	return grid.Number(float64(n) / float64(of))
}
