package netdev

import "github.com/vnetbench/vnetbench/virtio/ring"

// CallReason says why a Poll wants the guest to be interrupted, or why not: the
// ring's reasons, and that of the completion policy.
type CallReason uint8

// The reasons.
const (
	// CallNoneUsed: nothing was published, so there was nothing to decide.
	CallNoneUsed = CallReason(ring.CallNoneUsed)
	// CallFirst: wanted, as the first notification after a (re)start is
	// unconditional: what the guest saw before is not known.
	CallFirst = CallReason(ring.CallFirst)
	// CallEvent: wanted; the used index passed used_event.
	CallEvent = CallReason(ring.CallEvent)
	// CallFlag: wanted; without EVENT_IDX, NO_INTERRUPT is clear.
	CallFlag = CallReason(ring.CallFlag)
	// CallEventIdx: suppressed; the used index did not pass used_event.
	CallEventIdx = CallReason(ring.CallEventIdx)
	// CallNoInterrupt: suppressed; without EVENT_IDX, NO_INTERRUPT is set.
	CallNoInterrupt = CallReason(ring.CallNoInterrupt)
	// CallHold: suppressed; the completion policy holds what has finished.
	CallHold = CallReason(ring.NumCallReasons)
	// CallCoalesce: suppressed; the call waits, by the guest's coalescing or
	// the policy's, or because a call for the receive queue does its work.
	CallCoalesce = CallHold + 1
	// CallForced: wanted, although the used index did not pass used_event: an
	// entry was published past others that the policy holds, and the guest had
	// not foreseen that.
	CallForced = CallHold + 2

	numCallReasons = int(CallForced) + 1
)

var callReasonNames = func() (names [numCallReasons]string) {
	for r := range ring.NumCallReasons {
		names[r] = r.String()
	}
	names[CallHold], names[CallCoalesce], names[CallForced] = "hold", "coalesce", "forced"
	return names
}()

// String returns the reason's name, as in reports: "event_idx", "hold".
func (r CallReason) String() string { return callReasonNames[min(int(r), numCallReasons-1)] }

// Call is the answer of a Poll: whether the guest has to be interrupted, and
// why or why not. If Needed, the caller makes the call and reports by
// CallResult.
type Call struct {
	Needed bool
	Reason CallReason
}

// Suppressed counts suppressed calls by reason: Suppressed[r] is the count of
// CallReason r.
type Suppressed [numCallReasons]uint64

// Total is the sum over all reasons.
func (s *Suppressed) Total() uint64 {
	var n uint64
	for _, v := range s {
		n += v
	}
	return n
}

// MarshalJSON writes {"<reason>": count, …} for the reasons that occurred.
func (s Suppressed) MarshalJSON() ([]byte, error) {
	return marshalNamed(s[:], callReasonNames[:]), nil
}

// BigSegs is the number of full segments from which on a packet counts as big.
const BigSegs = 8

// Stats are the counters of one queue. They survive a stop and a reset of the
// device. Each is incremented by exactly the event that its comment names. A
// "chain" is a descriptor chain that the device took off the ring; for every
// TX chain either Packets or one of Drops is incremented.
//
// Copying the struct is a snapshot; Sub makes the difference of two. The owner
// of the queue takes snapshots; the counters are not safe to read while the
// queue is being polled elsewhere.
type Stats struct {
	// Packets counts frames that the port took (TX), that were written to
	// guest buffers (RX), and commands that were answered (control).
	Packets uint64 `json:"packets"`
	// Bytes counts the bytes of those frames, Ethernet header included, net
	// header excluded; of commands the device-readable bytes.
	Bytes uint64 `json:"bytes"`
	// PayloadBytes counts their TCP payload bytes, retransmissions included.
	PayloadBytes uint64 `json:"payload_bytes"`
	// DataPackets counts the frames with TCP payload.
	DataPackets uint64 `json:"data_packets"`
	// Segs counts the packets that the frames become on a wire: for a GSO
	// frame its payload in gso_size pieces, else 1.
	Segs uint64 `json:"segs"`
	// GSOPackets counts the frames with a GSO type, GSOSegs their segments.
	GSOPackets uint64 `json:"gso_packets"`
	GSOSegs    uint64 `json:"gso_segs"`
	// GSOBytes counts the bytes of GSOPackets, GSOSegBytes those of the packets
	// that they become, each of which repeats the headers.
	GSOBytes    uint64 `json:"gso_bytes"`
	GSOSegBytes uint64 `json:"gso_seg_bytes"`
	// Cut counts packets that the device made itself because the port does not
	// take the offload that the guest asked for: segments, fragments, and frames
	// whose checksum it completed (TX).
	Cut uint64 `json:"cut"`
	// CutGSO counts those of GSOPackets that the device cut itself, CutGSOBytes
	// their bytes (TX).
	CutGSO      uint64 `json:"cut_gso"`
	CutGSOBytes uint64 `json:"cut_gso_bytes"`
	// NeedsCSum counts frames with a partial checksum, DataValid those that
	// arrived with the word that their checksum is right (RX).
	NeedsCSum uint64 `json:"needs_csum"`
	DataValid uint64 `json:"data_valid"`
	// Passed counts frames that came in here and that the guest's indirection
	// table has another pair receive, which counts them as its own (RX).
	Passed uint64 `json:"passed"`
	// Refused counts commands that were answered with an error (control).
	Refused uint64 `json:"refused"`
	// BigBytes counts the payload bytes in GSO frames of BigSegs times their
	// gso_size and more: BigBytes/PayloadBytes is the share of bytes in big packets.
	BigBytes uint64 `json:"big_bytes"`
	// ACKs counts TCP frames with the ACK flag, PureACKs those without
	// payload and without SYN, FIN and RST.
	ACKs     uint64 `json:"acks"`
	PureACKs uint64 `json:"pure_acks"`
	// Descs counts the descriptors of the chains of Packets.
	Descs uint64 `json:"descs"`
	// Drops counts chains (TX, control) or frames (RX) dropped, by reason. On
	// RX the reasons of chains count chains returned to the guest.
	Drops Drops `json:"drops"`
	// CSums counts checksums that the device completed itself because the
	// guest does not take partial ones (RX).
	CSums uint64 `json:"csums"`
	// Spilled counts frames that had to wait for buffers (RX).
	Spilled uint64 `json:"spilled"`
	// FullStops counts sends that the port refused as full (TX).
	FullStops uint64 `json:"full_stops"`
	// Thinned counts pure ACKs that were not delivered because a newer one of
	// their flow took their place while they waited (RX).
	Thinned uint64 `json:"thinned"`
	// Joined counts packets that were sent as the rest of another one: on the
	// wire there are Packets less Joined (TX).
	Joined uint64 `json:"joined"`
	// Floor counts the fewest packets of maxIPLen bytes that could have carried
	// the payload of those that may be joined, at least one for each flow each
	// time that the ring was drained (TX, where the policy joins packets).
	Floor uint64 `json:"floor"`
	// StaleTokens counts Complete calls that were ignored: a token of an
	// earlier attachment, or one not in flight (TX).
	StaleTokens uint64 `json:"stale_tokens"`

	// Kicks counts notifications received: the sum of the eventfd's values, or
	// of in-band kick messages. It equals the kicks that the driver sent.
	Kicks uint64 `json:"kicks"`
	// Wakes counts calls of Kick, each of which is one or more Kicks that were
	// read together. KicksCoalesced is Kicks minus Wakes.
	Wakes          uint64 `json:"wakes"`
	KicksCoalesced uint64 `json:"kicks_coalesced"`
	// KicksEmpty counts Wakes that brought nothing: the look at the ring that
	// followed found no chain that an earlier look had not already seen.
	KicksEmpty uint64 `json:"kicks_empty"`
	// KicksSuppressed counts chains that needed no kick because the device
	// was already looking: at the look that saw them first, no kick had
	// arrived since the look before. SuppressedBatches counts such looks that
	// saw at least one. A look is one reading of the available index at the
	// start of a Poll. Chains that were there when the ring was started are
	// not counted. A kick that the driver sent but that has not yet arrived
	// when its chain is seen counts its chain here and itself in KicksEmpty.
	KicksSuppressed   uint64 `json:"kicks_suppressed"`
	SuppressedBatches uint64 `json:"suppressed_batches"`

	// Calls counts calls delivered to the guest (CallResult without error),
	// CallsFailed those that failed.
	Calls       uint64 `json:"calls"`
	CallsFailed uint64 `json:"calls_failed"`
	// CallsSuppressed counts, by reason, Polls that published used entries
	// and needed no call; with CallHold, Polls in which a completion came due
	// that the policy did not let through.
	CallsSuppressed Suppressed `json:"calls_suppressed"`

	// GSOSize is the histogram of TCP payload bytes of each of DataPackets.
	GSOSize Hist `json:"gso_size"`
	// PacketsPerKick is the histogram of chains taken between one wake and the
	// next; the run since the last wake is not in it yet.
	PacketsPerKick Hist `json:"packets_per_kick"`
	// PacketsPerCall is the histogram of used entries published between one
	// delivered call and the next.
	PacketsPerCall Hist `json:"packets_per_call"`
	// KickToUsed is the histogram of nanoseconds from a kick to the
	// publication of the used entry of a chain that it announced. A kick
	// announces the chains that the first look after it finds in a ring that
	// had been empty.
	KickToUsed Hist `json:"kick_to_used_ns"`
	// UsedToCall is the histogram of nanoseconds from the publication that
	// needed a call, the first one if calls are held back, to the delivery of
	// the call.
	UsedToCall Hist `json:"used_to_call_ns"`
}

func (s *Stats) counters() [33]*uint64 {
	return [...]*uint64{
		&s.Packets, &s.Bytes, &s.PayloadBytes, &s.DataPackets, &s.Segs,
		&s.GSOPackets, &s.GSOSegs, &s.BigBytes, &s.ACKs, &s.PureACKs, &s.Descs,
		&s.CSums, &s.Spilled, &s.FullStops, &s.StaleTokens, &s.Thinned, &s.Joined, &s.Floor,
		&s.Kicks, &s.Wakes, &s.KicksCoalesced, &s.KicksEmpty,
		&s.KicksSuppressed, &s.SuppressedBatches,
		&s.GSOBytes, &s.GSOSegBytes, &s.Cut, &s.NeedsCSum, &s.DataValid, &s.Refused, &s.Passed, &s.CutGSO, &s.CutGSOBytes,
	}
}

func (s *Stats) hists() [5]*Hist {
	return [...]*Hist{&s.GSOSize, &s.PacketsPerKick, &s.PacketsPerCall, &s.KickToUsed, &s.UsedToCall}
}

// Merge adds the counters of o to s, for totals over queues.
func (s *Stats) Merge(o *Stats) { s.combine(o, func(a *uint64, b uint64) { *a += b }, (*Hist).Merge) }

// Sub takes the counters of an earlier snapshot o of the same queue off s.
func (s *Stats) Sub(o *Stats) { s.combine(o, func(a *uint64, b uint64) { *a -= b }, (*Hist).Sub) }

func (s *Stats) combine(o *Stats, f func(*uint64, uint64), h func(*Hist, *Hist)) {
	a, b := s.counters(), o.counters()
	for i := range a {
		f(a[i], *b[i])
	}
	f(&s.Calls, o.Calls)
	f(&s.CallsFailed, o.CallsFailed)
	for i := range s.Drops {
		f(&s.Drops[i], o.Drops[i])
	}
	for i := range s.CallsSuppressed {
		f(&s.CallsSuppressed[i], o.CallsSuppressed[i])
	}
	ha, hb := s.hists(), o.hists()
	for i := range ha {
		h(ha[i], hb[i])
	}
}
