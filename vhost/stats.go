package vhost

import (
	"time"

	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// historyMax is how many past sessions a server remembers.
const historyMax = 16

// PairStats are the counters of a queue pair.
type PairStats struct {
	RX netdev.Stats `json:"rx"`
	TX netdev.Stats `json:"tx"`
	// SmallExcess is the number of TX data packets beyond those of the largest
	// size that could have carried the bytes. Stats.CountExcess sets it.
	SmallExcess uint64 `json:"small_packet_excess"`
}

// The largest TCP payloads of one packet: of a TSO packet, whose IP packet has at
// most 65535 bytes, with timestamps, and of a segment at an MTU of 1500.
const (
	largestTSO = 65535 - 20 - 32
	oneSegment = 1500 - 20 - 32
)

// CountExcess sets SmallExcess of every pair from its counters, by whether the
// guest of the last session negotiated TSO.
func (s *Stats) CountExcess() {
	largest := uint64(oneSegment)
	if n := len(s.Sessions); n > 0 && s.Sessions[n-1].Acked&(virtio.FeatureHostTSO4|virtio.FeatureHostTSO6) != 0 {
		largest = largestTSO
	}
	for i := range s.Pairs {
		p := &s.Pairs[i]
		need := (p.TX.PayloadBytes + largest - 1) / largest
		p.SmallExcess = p.TX.DataPackets - min(need, p.TX.DataPackets)
	}
}

// Stats is a snapshot of a server. The counters of the queues count over all
// sessions since the server began to listen: they survive a reconnect and a
// reset. What one session did is the difference of two snapshots; Generation
// says which session they belong to.
type Stats struct {
	// Generation is the number of sessions that there have been, the present
	// one included.
	Generation uint64 `json:"generation"`
	// Connected says whether there is a session now.
	Connected bool `json:"connected"`
	// Pairs are the counters of the pairs, and Ctrl those of the control queue.
	Pairs []PairStats  `json:"pairs"`
	Ctrl  netdev.Stats `json:"ctrl"`
	// Sessions are the last sessions, at most 16, the present one last.
	Sessions []SessionReport `json:"sessions"`
}

// SessionReport is what is known of one session.
type SessionReport struct {
	Generation uint64                `json:"generation"`
	Start      time.Time             `json:"start"`
	End        time.Time             `json:"end"` // zero while it lasts
	Acked      virtio.Features       `json:"acked"`
	Protocol   wire.ProtocolFeatures `json:"protocol"`
	Stats      SessionStats          `json:"stats"`
	// Software are the offloads that the guest uses and that the host's side does
	// not take: the device does them on the CPU.
	Software virtio.Features `json:"software"`
	// SharedCalls is the number of rings whose call descriptor is another ring's
	// too: a guest with one interrupt for several queues gains little from them.
	SharedCalls int    `json:"shared_calls"`
	Reason      string `json:"reason"` // why it ended, empty while it lasts
	// Err is the reason as an error, for errors.Is; nil while the session lasts.
	Err error `json:"-"`
}

// merge adds the counters of a session's queues.
func (s *Stats) merge(pairs []PairStats, ctrl netdev.Stats) {
	for i := range pairs {
		s.Pairs[i].RX.Merge(&pairs[i].RX)
		s.Pairs[i].TX.Merge(&pairs[i].TX)
	}
	s.Ctrl.Merge(&ctrl)
}
