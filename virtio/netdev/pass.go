package netdev

import (
	"math/bits"
	"sync/atomic"

	"github.com/vnetbench/vnetbench/virtio"
)

// passSlots is how many frames wait for the owner of another pair.
const passSlots = 64

// passBox takes frames that came in at one pair and that the guest's indirection
// table has another one receive. Any pair's owner puts frames in, without
// waiting; the box's own takes them out. It is a bounded queue of slots that
// count their turns: at turn t of slot i, seq is i + t*passSlots if it is free and
// one more if it is full.
type passBox struct {
	slots []passSlot // nil unless RSS is negotiated
	tail  atomic.Uint32
	head  uint32
}

type passSlot struct {
	seq atomic.Uint32
	hdr virtio.NetHdr
	buf []byte
	n   int
}

// open makes the box ready, empty. Nobody may be using it.
func (b *passBox) open() {
	b.slots, b.head = make([]passSlot, passSlots), 0
	b.tail.Store(0)
	for i := range b.slots {
		b.slots[i].seq.Store(uint32(i))
	}
}

// put copies a frame of n bytes into the box; false means that it is full.
func (b *passBox) put(h *virtio.NetHdr, iov [][]byte, n int) bool {
	for {
		at := b.tail.Load()
		s := &b.slots[at%passSlots]
		switch turn := int32(s.seq.Load() - at); {
		case turn < 0:
			return false
		case turn == 0 && b.tail.CompareAndSwap(at, at+1):
			s.hdr, s.n = *h, n
			gather(scratch(&s.buf, n), iov)
			s.seq.Store(at + 1)
			return true
		}
	}
}

// front returns the first frame, nil if there is none. It is valid until drop.
func (b *passBox) front() *passSlot {
	if b.slots == nil {
		return nil
	}
	if s := &b.slots[b.head%passSlots]; s.seq.Load() == b.head+1 {
		return s
	}
	return nil
}

// drop removes the first frame.
func (b *passBox) drop() {
	b.slots[b.head%passSlots].seq.Store(b.head + passSlots)
	b.head++
}

// passOn gives the frame in r.view to the pair that the guest's table says, and
// reports whether that is another one. The frame is dropped and counted if that
// pair cannot take it.
func (r *RX) passOn() (why DropReason, other bool) {
	d := r.pair.dev
	t := d.filter.Load().rss
	if t == nil || !t.steers {
		return DropNone, false
	}
	i := t.steer(r.view.front, &r.view.info)
	if i == r.pair.index {
		return DropNone, false
	}
	to := d.pairs[i].RX
	if !to.up.Load() {
		return r.drop(DropStopped), true
	}
	if !to.box.put(&r.view.hdr, r.view.iov, r.view.len) {
		return r.drop(DropNoBuffers), true
	}
	d.passed[i/64].Or(1 << (i % 64))
	r.stats.Passed++
	return DropNone, true
}

// takePassed delivers the frames that other pairs have given to this one.
func (r *RX) takePassed() {
	for s := r.box.front(); s != nil; s = r.box.front() {
		r.view.hdr = s.hdr
		r.whole[0] = s.buf[:s.n]
		r.view.parse(r.whole[:], s.n)
		if r.live() {
			r.deliverHere(r.clock, &s.hdr, s.buf[:s.n])
		} else {
			r.drop(DropStopped)
		}
		r.box.drop()
	}
}

// NextPassed returns a pair whose receive queue was given frames that came in at
// another pair since it was last returned, -1 if there is none. Its owner has to
// poll it. It may be called from anywhere.
func (d *Device) NextPassed() int {
	for w := range d.passed {
		for {
			v := d.passed[w].Load()
			if v == 0 {
				break
			}
			i := bits.TrailingZeros64(v)
			if d.passed[w].CompareAndSwap(v, v&^(1<<i)) {
				return 64*w + i
			}
		}
	}
	return -1
}
