package netdev

import (
	"encoding/binary"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// ahead is the chains of one descriptor that a receive queue has taken off the
// ring for frames that are expected. They come after those in buffers, and are
// used while there are none of these.
type ahead struct {
	ring.Batch
	at int // chains before it are used
}

func (a *ahead) len() int { return a.N - a.at }

// Expect says that up to n small frames come by Deliver now, so that the queue may
// take their buffers together, and have the CPU fetch them. It changes nothing
// else, and nothing has to follow.
func (r *RX) Expect(n int) {
	if n <= 0 || !r.live() || r.reserved || r.spill.frames > 0 || r.bufs.len() > 0 || r.ahead.len() > 0 {
		return
	}
	r.ahead.at = 0
	r.q.NextBatch(&r.ahead.Batch, n, true)
}

// deliverAhead delivers a frame that asks for nothing into a buffer taken ahead,
// and reports whether it did.
func (r *RX) deliverAhead(h *virtio.NetHdr, f []byte) bool {
	a := &r.ahead
	if a.len() == 0 || h.Flags != 0 || h.GSOType != virtio.GSONone || r.hashing || r.reserved ||
		r.spill.frames > 0 || r.flows != nil || r.pair.ctl != nil ||
		r.pair.dev.cfg.Observer != nil {
		return false
	}
	buf, n := a.Bufs[a.at], r.hdrLen+len(f)
	if r.bufs.len() > 0 || len(buf) < n || !r.pair.dev.filter.Load().passes(f) {
		return false
	}
	copy(buf[r.hdrLen:], f)
	v := &r.view
	v.hdr = virtio.NetHdr{NumBuffers: 1}
	if r.hdrLen == virtio.NetHdrLen {
		binary.LittleEndian.PutUint64(buf, 0)
		binary.LittleEndian.PutUint32(buf[8:], 1<<16)
	} else {
		v.hdr.Encode(buf[:r.hdrLen])
	}
	r.whole[0] = f
	if notTCP(f) {
		v.skip(r.whole[:], len(f))
	} else {
		v.parse(r.whole[:], len(f))
	}
	r.starved = false
	r.push(a.Heads[a.at], uint32(n))
	a.at++
	r.took()
	r.stats.Descs++
	r.work.Descs++
	r.work.Copied += len(f)
	v.count(&r.stats, &r.work)
	return true
}

// passes reports whether a frame without offloads certainly goes through, to the
// pair that it came to. What it does not let through is looked at again.
func (f *filter) passes(b []byte) bool {
	return (f.promisc || f.admit(b) == DropNone) && (f.mtu == 0 || len(b)-ethHdrLen <= f.mtu) &&
		(f.rss == nil || !f.rss.steers)
}

// recall moves the chains taken ahead to the others.
func (r *RX) recall() {
	a := &r.ahead
	for ; a.at < a.N; a.at++ {
		head, buf := a.Heads[a.at], a.Bufs[a.at]
		if len(buf) >= r.hdrLen {
			r.bufs.addOne(head, buf)
			continue
		}
		r.refuse(head, DropSmallBuffer)
	}
}
