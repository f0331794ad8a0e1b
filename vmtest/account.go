package vmtest

import (
	"encoding/json"
	"strconv"

	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// NewQueue turns the device's counters of one ring, as a difference of two
// snapshots, into a Queue. exitNs and irqNs are the modelled costs of one kick
// and of one call.
func NewQueue(pair int, dir netdev.Dir, s *netdev.Stats, exitNs, irqNs float64) Queue {
	return Queue{
		Guest: "sender", Queue: pair, Dir: dir.String(),
		Packets: int64(s.Packets), Bytes: int64(s.PayloadBytes), FrameBytes: int64(s.Bytes), Segments: int64(s.Segs),
		GSOMeanBytes: ratio(s.PayloadBytes, s.DataPackets),
		GSOHist:      hist(&s.GSOSize), PacketsPerKick: hist(&s.PacketsPerKick), PacketsPerCall: hist(&s.PacketsPerCall),
		Kicks: int64(s.Kicks), KicksCoalesced: int64(s.KicksCoalesced), KicksEmpty: int64(s.KicksEmpty),
		KicksSuppressed: int64(s.KicksSuppressed),
		Calls:           int64(s.Calls), CallsSuppressed: named(s.CallsSuppressed), CallsFailed: int64(s.CallsFailed),
		Drops:      named(s.Drops),
		KickToUsed: hist(&s.KickToUsed), UsedToCall: hist(&s.UsedToCall),
		ExitNs: float64(s.Kicks) * exitNs, IRQNs: float64(s.Calls) * irqNs,
	}
}

// NewTotals sums the counters of the transmit and the receive queues over the
// pairs. Goodput and CPU times are the caller's to fill in.
func NewTotals(tx, rx *netdev.Stats, exitNs, irqNs float64) Totals {
	bytes := int64(tx.PayloadBytes)
	t := Totals{
		Bytes: bytes, Packets: int64(tx.DataPackets), Acks: int64(rx.PureACKs),
		GSOMeanBytes: ratio(tx.PayloadBytes, tx.DataPackets), BigShare: ratio(tx.BigBytes, tx.PayloadBytes),
		Kicks: int64(tx.Kicks), TxCalls: int64(tx.Calls), RxCalls: int64(rx.Calls),
		PacketsPerMB: PerMB(float64(tx.DataPackets), bytes), AcksPerMB: PerMB(float64(rx.PureACKs), bytes),
		KicksPerMB: PerMB(float64(tx.Kicks), bytes), TxCallsPerMB: PerMB(float64(tx.Calls), bytes),
		RxCallsPerMB: PerMB(float64(rx.Calls), bytes),
		ExitNsPerMB:  PerMB(float64(tx.Kicks+rx.Kicks)*exitNs, bytes),
		IRQNsPerMB:   PerMB(float64(tx.Calls+rx.Calls)*irqNs, bytes),
		WirePerMB:    PerMB(float64(tx.DataPackets-tx.Joined), bytes),
	}
	if tx.Floor > 0 {
		floor := PerMB(float64(tx.Floor), bytes)
		t.WireFloor = &floor
	}
	return t
}

func ratio(a, b uint64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func hist(h *netdev.Hist) map[string]int64 {
	out := map[string]int64{}
	for i, n := range h.Buckets {
		if n > 0 {
			out[strconv.FormatUint(netdev.LowerBound(i), 10)] = int64(n)
		}
	}
	return out
}

// named reads back the counts that the device names in its JSON.
func named(v json.Marshaler) map[string]int64 {
	out := map[string]int64{}
	text, err := v.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic("vmtest: the device's own JSON does not parse: " + err.Error())
	}
	return out
}
