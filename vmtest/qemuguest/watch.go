package qemuguest

import (
	"sync"
	"sync/atomic"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
)

// watch follows the flows' packets through the taps: on which queue each was
// last seen, and, if asked for, a line in the trace for each.
type watch struct {
	queue []atomic.Int32 // by flow, -1 before its first packet

	mu    sync.Mutex // of what follows
	trace *vmtest.TraceWriter
	begin vtime.Time // of the trace
	isn   [][2]frame.Seq
}

// newWatch watches so many flows. trace may be nil.
func newWatch(flows int, trace *vmtest.TraceWriter) *watch {
	w := &watch{queue: make([]atomic.Int32, flows), trace: trace, isn: make([][2]frame.Seq, flows)}
	for i := range w.queue {
		w.queue[i].Store(-1)
	}
	return w
}

// last is the queue that flow i last sent on, -1 if it has not sent.
func (w *watch) last(i int) int { return int(w.queue[i].Load()) }

// watchQueue is a watch at one queue pair: a tap.Observer.
type watchQueue struct {
	*watch
	pair int
	info frame.Info
}

// Frame implements tap.Observer.
func (q *watchQueue) Frame(now vtime.Time, toGuest bool, _ *virtio.NetHdr, first []byte, size int) {
	if !frame.Parse(first, &q.info) || q.info.Proto != frame.ProtoTCP {
		return
	}
	port := q.info.SrcPort
	if toGuest {
		port = q.info.DstPort
	}
	i := int(port) - firstPort
	if i < 0 || i >= len(q.queue) {
		return
	}
	if !toGuest && q.queue[i].Load() != int32(q.pair) {
		q.queue[i].Store(int32(q.pair))
	}
	if q.trace != nil {
		q.record(now, i, toGuest, size-q.info.Payload)
	}
}

// record writes a packet of flow i with the sequence numbers of its two sides
// counted from their SYN.
func (q *watchQueue) record(now vtime.Time, i int, toGuest bool, payload int) {
	in := &q.info
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.begin == 0 {
		q.begin = now
	}
	from, to := 0, 1
	if toGuest {
		from, to = 1, 0
	}
	if in.Flags&skb.SYN != 0 {
		q.isn[i][from] = in.Seq
	}
	p := vmtest.TracePacket{
		TNs: int64(now - q.begin), Ack: toGuest, Flow: i, Len: payload, Flags: in.Flags,
		Seq: uint32(in.Seq - q.isn[i][from]),
	}
	if in.Flags&skb.ACK != 0 {
		p.AckNo = uint32(in.Ack - q.isn[i][to])
	}
	q.trace.Packet(p)
}
