package driver

import (
	"fmt"

	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// TxQueue is a transmit queue. It is not safe for concurrent use.
type TxQueue struct {
	Stats TxStats

	cfg    *Config
	meter  vcpu.Meter
	ring   *ring.Driver
	hdrLen int    // of the net header
	csum   bool   // the device completes checksums
	lazy   bool   // packets are reaped in polls only
	limits bool   // there is a byte limit
	mem    []byte // the header slots
	gpa    uint64 // of mem
	arena  uint64 // guest physical address of payload offset 0

	packets []*skb.SKB // by token: in the ring
	tokens  []uint16   // free tokens
	bufs    [2 + skb.MaxFrags]ring.Buf

	stopped   bool // by the driver: ring nearly full
	scheduled bool // a poll is coming
	bql       bql
}

var _ qdisc.Dev = (*TxQueue)(nil)

func (q *TxQueue) init(n *Net, meter vcpu.Meter, p *queuePlace) (err error) {
	size := int(n.cfg.RingSize)
	q.cfg, q.meter, q.gpa, q.arena = &n.cfg, meter, p.bufs, n.places.arena
	q.hdrLen, q.csum = n.cfg.hdrLen(), n.cfg.Features.Has(virtio.FeatureCSum)
	q.lazy, q.limits = n.cfg.NAPI && n.cfg.Switches.LazyClean, n.cfg.NAPI && n.cfg.Switches.BQL
	var ok bool
	if q.mem, ok = n.mem.Slice(p.bufs, p.stride*uint64(size)); !ok {
		return fmt.Errorf("headers at %#x: %w", p.bufs, shm.ErrUnmapped)
	}
	q.packets, q.tokens = make([]*skb.SKB, size), make([]uint16, size)
	for i := range q.tokens {
		q.tokens[i] = uint16(size - 1 - i)
	}
	q.bql.init()
	q.ring, err = ring.NewDriver(n.mem, p.ring)
	return err
}

// Xmit puts a packet into the ring (start_xmit, v3.8 to v6.15). The verdict's
// Kick says whether the device wants to be notified, for this packet and those
// before it that said more; Poll, whether to schedule the queue's poll. The
// packet is the driver's afterwards; without napi release its owner is told
// before Xmit returns. Call it only if Stopped is false.
func (q *TxQueue) Xmit(now vtime.Time, p *skb.SKB, more bool) (v qdisc.Verdict) {
	q.meter.Charge(vcpu.OpDriverXmit, 1)
	more = more && q.cfg.Switches.XmitMore
	if q.lazy {
		q.ring.DisableCalls()
	} else {
		q.clean(now, q.cfg.NAPI && !more)
	}
	bytes := int64(p.HdrLen) + int64(p.Len)
	if !q.add(p) {
		q.Stats.Drops++
		p.Free()
		return v
	}
	if !q.cfg.NAPI {
		p.Orphan()
	}
	if q.ring.Free() < stopSlots {
		v.Poll = q.stop(now)
	}
	kick := q.account(bytes, more)
	if kick && q.ring.NeedKick() {
		q.Stats.Kicks++
		v.Kick = true
	}
	if q.lazy && kick && q.ring.EnableCallsDelayed() {
		v.Poll = true
	}
	if v.Poll = v.Poll && q.schedule(); v.Poll {
		q.ring.DisableCalls()
	}
	return v
}

// clean reaps what is completed. In napi mode calls are off meanwhile, and with
// arm they are asked for anew, at three quarters of what is outstanding.
func (q *TxQueue) clean(now vtime.Time, arm bool) {
	for {
		if q.cfg.NAPI {
			q.ring.DisableCalls()
		}
		q.reap(now)
		if !arm || !q.ring.EnableCallsDelayed() {
			return
		}
	}
}

// stop stops the queue, since the next packet might not fit, and asks for a call
// when three quarters of the ring are done (check_sq_full_and_disable, v6.1). It
// reports whether they are already and a poll must see to it.
func (q *TxQueue) stop(now vtime.Time) (poll bool) {
	q.stopped = true
	q.Stats.Stops++
	switch {
	case q.lazy: // armed after the kick
		return false
	case !q.ring.EnableCallsDelayed():
		return false
	case q.cfg.NAPI:
		return true
	}
	q.reap(now)
	if q.ring.Free() >= stopSlots {
		q.start()
		q.ring.DisableCalls()
	}
	return false
}

// account tells the byte limit of a packet and decides whether it is the
// occasion for a kick: the last of a batch, or one that stops the queue.
func (q *TxQueue) account(bytes int64, more bool) (kick bool) {
	if q.limits {
		q.bql.queued(bytes)
		if q.bql.full() && !q.bql.stopped {
			q.bql.stopped = true
			q.Stats.BQLStops++
		}
	}
	return !more || q.Stopped()
}

// add writes a packet's headers and descriptors and shows them to the device.
// It fails if the ring is full, which the stop rule prevents.
func (q *TxQueue) add(p *skb.SKB) bool {
	if len(q.tokens) == 0 {
		return false
	}
	token := q.tokens[len(q.tokens)-1]
	n := q.describe(p, uint64(token)*txStride)
	if q.ring.Add(q.bufs[:n], nil, uint32(token)) != nil {
		return false
	}
	q.tokens = q.tokens[:len(q.tokens)-1]
	q.packets[token] = p
	q.ring.Publish()
	q.Stats.Descs += uint64(n)
	return true
}

// describe writes the headers of a packet to the slot at off and fills bufs.
//
// Deviation: the linear part of a kernel's packet may hold payload behind the
// headers; here all payload is in fragments. With indirect descriptors, which
// make one ring slot of any packet, that changes no decision.
func (q *TxQueue) describe(p *skb.SKB, off uint64) (n int) {
	hdr := q.hdrLen
	slot := (*[txStride]byte)(q.mem[off:])
	putNetHdr(slot[:hdr], p, q.csum)
	*(*[skb.MaxHeader]byte)(slot[hdr:]) = p.Hdr // of one length, so that it is a few moves
	gpa := q.gpa + off
	if q.cfg.Switches.InlineHeader {
		q.bufs[0] = ring.Buf{Addr: gpa, Len: uint32(hdr) + uint32(p.HdrLen)}
		n = 1
	} else {
		q.bufs[0] = ring.Buf{Addr: gpa, Len: uint32(hdr)}
		q.bufs[1] = ring.Buf{Addr: gpa + uint64(hdr), Len: uint32(p.HdrLen)}
		n = 2
	}
	for i := range p.NFrags {
		f := &p.Frags[i]
		q.bufs[n] = ring.Buf{Addr: q.arena + f.Addr, Len: f.Len}
		n++
	}
	return n
}

// Stopped reports whether the queue takes no packet: its ring is nearly full,
// or its byte limit is reached.
func (q *TxQueue) Stopped() bool { return q.stopped || q.bql.stopped }

// BulkBytes returns what the byte limit leaves, 0 without one.
func (q *TxQueue) BulkBytes() int64 {
	if !q.limits {
		return 0
	}
	return q.bql.room()
}

// Outstanding returns the packets in the ring that were not reaped.
func (q *TxQueue) Outstanding() int { return q.ring.Outstanding() }

// start undoes stop.
func (q *TxQueue) start() {
	q.stopped = false
	q.Stats.Wakes++
}

// schedule notes that a poll is coming and reports whether that is news.
func (q *TxQueue) schedule() bool {
	if q.scheduled {
		return false
	}
	q.scheduled = true
	return true
}
