package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// The flow table of a pair: so many flows in sets of so many, of which a new
// flow takes the place of the one that was quiet longest.
const (
	flowSets = 32
	flowWays = 4
)

// maxACK is the longest ACK in bytes that may wait: Ethernet, IPv6 and TCP
// headers with the longest options.
const maxACK = frame.EthernetLen + frame.IPv6Len + 60

// flow is what a pair remembers of a TCP connection for its policies.
type flow struct {
	key   frame.FlowKey // of the direction from the guest; the zero key is none
	index int16         // its place in the table
	heard vtime.Time    // the last packet of either direction

	acks ackState
	send sendState
}

// ackState is the direction to the guest.
type ackState struct {
	known bool       // what follows is of a frame that was seen
	seq   frame.Seq  // sequence number of the newest ACK
	ack   frame.Seq  // the newest acknowledgement
	wnd   uint16     // and the window with it
	hasTS bool       // it had a timestamp
	tsval uint32     // this one
	ecn   uint8      // bits of newACK.ecn
	n     int        // ACKs since the flow began or was idle
	at    vtime.Time // the last of them

	waits bool          // an ACK waits:
	hdr   virtio.NetHdr // its net header, as it came
	len   int
	frame [maxACK]byte
}

// flowTable finds flows by their key. It is bounded, and forgets.
type flowTable struct {
	flows   [flowSets * flowWays]flow
	order   [flowSets * flowWays]int16 // flows whose ACK waits, in the order in which they began to
	waiting int
}

// take returns the flow of a parsed TCP frame, which begins now if it is not known.
// toGuest says which direction the frame has. A new flow takes the place of one
// whose ACK does not wait; if all in its set wait, take returns nil.
func (t *flowTable) take(now vtime.Time, front []byte, in *frame.Info, toGuest bool) *flow {
	k, ok := in.Key(front)
	if !ok {
		return nil
	}
	if toGuest {
		k = k.Reverse()
	}
	var old *flow
	at := setOf(&k)
	for i := at; i < at+flowWays; i++ {
		f := &t.flows[i]
		if f.key == k {
			return f
		}
		if !f.acks.waits && (old == nil || f.heard < old.heard) {
			old = f
		}
	}
	if old != nil {
		*old = flow{key: k, heard: now, index: int16(t.place(old, at))}
	}
	return old
}

// setOf returns the first place of a key's set.
func setOf(k *frame.FlowKey) int { return int(k.Hash()%flowSets) * flowWays }

func (t *flowTable) place(f *flow, at int) int {
	for &t.flows[at] != f {
		at++
	}
	return at
}

// enlist puts a flow whose ACK begins to wait behind the others.
func (t *flowTable) enlist(f *flow) {
	t.order[t.waiting] = f.index
	t.waiting++
	f.acks.waits = true
}

// delist takes a flow whose ACK no longer waits out.
func (t *flowTable) delist(f *flow) {
	f.acks.waits = false
	for j := range t.waiting {
		if t.order[j] == f.index {
			copy(t.order[j:t.waiting], t.order[j+1:t.waiting])
			t.waiting--
			return
		}
	}
	panic("netdev: a waiting ACK that is not listed")
}

// first returns the flow whose ACK has waited longest; there is one.
func (t *flowTable) first() *flow { return &t.flows[t.order[0]] }

// forget forgets what was learned of the direction from the guest.
func (t *flowTable) forget() {
	for i := range t.flows {
		t.flows[i].send = sendState{}
	}
}

// clear forgets all flows.
func (t *flowTable) clear() { *t = flowTable{} }
