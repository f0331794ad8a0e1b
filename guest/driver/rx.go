package driver

import (
	"fmt"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Frame is a received frame in guest memory.
type Frame struct {
	Hdr   virtio.NetHdr
	Parts [][]byte // the frame without net header; several with mergeable buffers
	Len   int      // bytes of all parts
}

// Sink takes received frames. The frame and its bytes are valid until Receive
// returns.
type Sink interface {
	Receive(now vtime.Time, f *Frame)
}

// RxQueue is a receive queue. It is not safe for concurrent use.
type RxQueue struct {
	Stats RxStats

	cfg   *Config
	meter vcpu.Meter
	tx    *TxQueue // of the same pair
	ring  *ring.Driver
	mem   []byte // the buffers
	gpa   uint64 // of mem
	each  uint64 // bytes from one buffer to the next

	tokens    []uint16 // buffers not in the ring
	frame     Frame
	scheduled bool // a poll is coming
	buf       [1]ring.Buf
}

func (q *RxQueue) init(n *Net, meter vcpu.Meter, p *queuePlace) (err error) {
	size := int(n.cfg.RingSize)
	q.cfg, q.meter, q.gpa, q.each = &n.cfg, meter, p.bufs, p.stride
	var ok bool
	if q.mem, ok = n.mem.Slice(p.bufs, p.stride*uint64(size)); !ok {
		return fmt.Errorf("buffers at %#x: %w", p.bufs, shm.ErrUnmapped)
	}
	q.tokens = make([]uint16, size)
	for i := range q.tokens {
		q.tokens[i] = uint16(size - 1 - i)
	}
	q.ring, err = ring.NewDriver(n.mem, p.ring)
	return err
}

// Fill gives the device all buffers it does not have, and reports whether it
// wants a kick for them (try_fill_recv, v3.8 to v6.12).
func (q *RxQueue) Fill() (kick bool) {
	added := false
	for len(q.tokens) > 0 && q.ring.Free() > 0 {
		token := q.tokens[len(q.tokens)-1]
		q.buf[0] = ring.Buf{Addr: q.gpa + uint64(token)*q.each, Len: q.cfg.RxBufLen}
		if q.ring.Add(nil, q.buf[:], uint32(token)) != nil {
			break
		}
		q.tokens = q.tokens[:len(q.tokens)-1]
		q.ring.Publish()
		added = true
	}
	if added && q.ring.NeedKick() {
		q.Stats.Kicks++
		return true
	}
	return false
}

// Interrupt is the device's call for this queue (skb_recv_done, v3.8 to v6.12).
// It reports whether to schedule Poll in a softirq on this CPU.
func (q *RxQueue) Interrupt() (poll bool) {
	q.Stats.Interrupts++
	q.ring.Called()
	if q.scheduled {
		return false
	}
	q.ring.DisableCalls()
	q.scheduled = true
	return true
}

// RxEvent is what a receive poll asks of the composer.
type RxEvent struct {
	Frames int  // handed to the sink
	Kick   bool // new buffers: the device wants a notification
	Poll   bool // there is more: schedule Poll again
	Wake   bool // the pair's transmit queue takes packets again: raise its softirq
}

// Poll is the NAPI poll of the queue (virtnet_poll, v3.8 to v6.12): it reaps the
// pair's transmit queue in napi mode, hands up to 64 frames to the sink, replaces
// buffers, and asks for calls again once nothing is left.
func (q *RxQueue) Poll(now vtime.Time, sink Sink) (e RxEvent) {
	q.Stats.Polls++
	e.Wake = q.tx.cleanFromRX(now)
	for e.Frames < pollWeight {
		token, n, ok := q.ring.Reap()
		if !ok {
			break
		}
		q.receive(now, uint16(token), n, sink)
		e.Frames++
	}
	if q.ring.Free() > q.refillAt() {
		e.Kick = q.Fill()
	}
	if e.Frames == pollWeight {
		e.Poll = true
	} else if q.ring.EnableCalls() {
		q.ring.DisableCalls()
		e.Poll = true
	}
	q.scheduled = e.Poll
	return e
}

// refillAt is the number of free slots above which a poll replaces buffers.
func (q *RxQueue) refillAt() int {
	if q.cfg.Switches.RefillEarly {
		return min(pollWeight, q.ring.Size()) / 2
	}
	return q.ring.Size() / 2
}

// receive collects the buffers of the frame that begins in token, of which n
// bytes were written, and hands it to the sink.
func (q *RxQueue) receive(now vtime.Time, token uint16, n uint32, sink Sink) {
	q.meter.Charge(vcpu.OpRxFrame, 1)
	f, hdr := &q.frame, q.cfg.hdrLen()
	first := q.take(token, n)
	if len(first) < hdr || !f.Hdr.Decode(first[:hdr]) {
		q.Stats.Drops++
		return
	}
	f.Parts = append(f.Parts[:0], first[hdr:])
	f.Len = len(first) - hdr
	if q.cfg.Features.Has(virtio.FeatureMrgRxBuf) {
		for range int(f.Hdr.NumBuffers) - 1 {
			token, n, ok := q.ring.Reap()
			if !ok {
				q.Stats.Drops++
				return
			}
			part := q.take(uint16(token), n)
			f.Parts = append(f.Parts, part)
			f.Len += len(part)
		}
	}
	q.Stats.Packets++
	q.Stats.Bytes += uint64(f.Len)
	sink.Receive(now, f)
}

// take returns the bytes that the device wrote to a buffer, which is the
// driver's again; they stay until the buffer is filled in anew.
func (q *RxQueue) take(token uint16, n uint32) []byte {
	q.tokens = append(q.tokens, token)
	q.Stats.Buffers++
	off := uint64(token) * q.each
	return q.mem[off : off+uint64(min(n, q.cfg.RxBufLen))]
}

// Posted returns the buffers that the device has.
func (q *RxQueue) Posted() int { return q.ring.Outstanding() }

// Err returns why the queue's ring is dead, because the device broke its rules,
// or nil.
func (q *RxQueue) Err() error { return q.ring.Err() }
