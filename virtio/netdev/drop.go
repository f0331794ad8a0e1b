package netdev

import (
	"strconv"

	"github.com/vnetbench/vnetbench/virtio/ring"
)

// DropReason says why a frame was not sent or delivered. Each is a counter of
// its queue.
type DropReason uint8

// The reasons that are not faults of a ring. The head of a dropped TX chain
// goes back with used.len 0.
const (
	// DropNone: not dropped.
	DropNone DropReason = iota
	// DropDirection: TX with a writable buffer, or RX with a readable one or
	// without a writable one.
	DropDirection
	// DropHeadBusy: the guest offered a head that it has not got back yet.
	DropHeadBusy
	// DropSmallBuffer: an RX chain smaller than the net header.
	DropSmallBuffer
	// DropNoAck: a control command without a byte for its answer.
	DropNoAck

	// DropShort: the chain is shorter than the net header and an Ethernet
	// header.
	DropShort
	// DropOversize: longer than Config.TSOMaxSize.
	DropOversize
	// DropMTU: FeatureMTU was acknowledged and the frame, or a segment of it,
	// exceeds the MTU.
	DropMTU
	// DropOffload: the header asks for what was not negotiated.
	DropOffload
	// DropBadCSum: the checksum field lies outside the frame.
	DropBadCSum
	// DropBadGSO: GSO without NEEDS_CSUM, with gso_size below 8, of an unknown type,
	// or on a frame that is not of that type.
	DropBadGSO
	// DropDisabled: TX of a ring that is started but disabled.
	DropDisabled
	// DropNoPort: TX of a pair that has no port.
	DropNoPort

	// DropStopped: the receive queue is not started, disabled or broken.
	DropStopped
	// DropFiltered: the destination address is not wanted.
	DropFiltered
	// DropVLAN: the VLAN is not wanted.
	DropVLAN
	// DropNoBuffers: the guest offers no buffers and the spill is full.
	DropNoBuffers
	// DropNoRoom: the frame does not fit the buffer (without MRG_RXBUF), or
	// the whole ring.
	DropNoRoom

	// dropFault is the first of the reasons that are faults of a ring.
	dropFault
	numDrops = int(dropFault) + int(ring.NumFaults)
)

// FaultDrop returns the reason under which a chain with the ring's fault f is
// counted. Its name is "chain_" and the fault's name.
func FaultDrop(f ring.Fault) DropReason { return dropFault + DropReason(min(f, ring.NumFaults-1)) }

var dropNames = func() (names [numDrops]string) {
	copy(names[:], []string{
		"none", "wrong_direction", "head_busy", "small_buffer", "no_ack",
		"short_frame", "oversize", "over_mtu", "offload_not_negotiated",
		"bad_csum", "bad_gso", "disabled", "no_port",
		"stopped", "filtered", "vlan_filtered", "no_buffers", "no_room",
	})
	for f := range ring.NumFaults {
		names[FaultDrop(f)] = "chain_" + f.Name()
	}
	return names
}()

// String returns the reason's name, as in reports.
func (r DropReason) String() string { return dropNames[min(int(r), numDrops-1)] }

// Drops counts drops by reason: Drops[r] is the count of DropReason r.
type Drops [numDrops]uint64

// Total is the sum over all reasons.
func (d *Drops) Total() uint64 {
	var n uint64
	for _, v := range d {
		n += v
	}
	return n
}

// Malformed is the sum over the reasons for which a chain itself was at fault.
func (d *Drops) Malformed() uint64 {
	n := d[DropDirection] + d[DropHeadBusy] + d[DropShort] + d[DropOversize] + d[DropBadCSum] + d[DropBadGSO] + d[DropOffload]
	for _, v := range d[dropFault:] {
		n += v
	}
	return n
}

// MarshalJSON writes {"<reason>": count, …} for the reasons that occurred.
func (d Drops) MarshalJSON() ([]byte, error) {
	return marshalNamed(d[:], dropNames[:]), nil
}

func marshalNamed(counts []uint64, names []string) []byte {
	b := []byte{'{'}
	for i, n := range counts {
		if n == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, names[i])
		b = append(b, ':')
		b = strconv.AppendUint(b, n, 10)
	}
	return append(b, '}')
}
