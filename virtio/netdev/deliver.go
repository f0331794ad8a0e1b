package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// MaxFrame is the longest frame in bytes that Reserve makes room for.
const MaxFrame = 1 << 20

// Deliver copies a frame into the guest's buffers, or into the spill if there
// are none. h is the frame's net header: its NumBuffers and HdrLen are ignored,
// and what it says of checksum and GSO is brought down to what the guest takes
// now, by completing the checksum or by segmenting. Neither h nor f is kept or
// changed. The result is DropNone if the frame was delivered or waits, else
// why it, or a segment of it, was dropped and counted.
func (r *RX) Deliver(now vtime.Time, h *virtio.NetHdr, f []byte) DropReason {
	if !r.live() {
		return r.drop(DropStopped)
	}
	if len(f) < ethHdrLen {
		return r.drop(DropShort)
	}
	if r.deliverAhead(h, f) {
		return DropNone
	}
	r.view.hdr = *h
	r.whole[0] = f
	r.view.parse(r.whole[:], len(f))
	r.clock = now
	r.saw(AtPort)
	if why, other := r.passOn(); other {
		return why
	}
	return r.deliverHere(now, h, f)
}

// deliverHere delivers the frame f, which is in r.view.
func (r *RX) deliverHere(now vtime.Time, h *virtio.NetHdr, f []byte) DropReason {
	if r.flows != nil {
		if r.deliverThin(now, h, f) {
			return DropNone
		}
	}
	v, why := r.gate()
	return r.dispose(v, why, f)
}

// Reserve returns room for a frame of at least want bytes, to be filled from
// the start: guest memory as far as there is, then memory of the queue's own.
// The caller ends it by Commit or Abort; in between the slice is the caller's,
// and frames that are delivered wait in the spill. ok is false if the queue
// delivers nothing now, if frames wait already, or if the guest offers no
// buffer at all: the port keeps its frame, and Starved tells.
func (r *RX) Reserve(want int) (iov [][]byte, ok bool) {
	if !r.live() || r.reserved || r.spill.frames > 0 || want <= 0 || want > MaxFrame {
		return nil, false
	}
	r.fill(r.hdrLen + want)
	if r.bufs.len() == 0 {
		r.starved = r.broken == nil
		return nil, false
	}
	pieces := r.bufs.all()
	r.room = r.bufs.room - r.hdrLen
	if !r.mrg {
		pieces = r.bufs.one()
		r.room = r.bufs.front().room - r.hdrLen
	}
	r.data = skip(append(r.data[:0], pieces...), r.hdrLen)
	if short := want - r.room; short > 0 {
		r.data = append(r.data, scratch(&r.tail, short))
	}
	r.reserved = true
	return r.data, true
}

// Commit delivers the n bytes that were written to the reservation, as Deliver
// does a frame; the bytes stay where they are unless the frame has to be
// changed or waits for more buffers. Without a reservation it does nothing and
// returns DropStopped.
func (r *RX) Commit(n int, h *virtio.NetHdr) DropReason {
	if !r.reserved {
		return DropStopped
	}
	r.Abort()
	if n < ethHdrLen {
		return r.drop(DropShort)
	}
	r.view.hdr = *h
	r.view.parse(r.data, n)
	r.saw(AtPort)
	if why, other := r.passOn(); other {
		return why
	}
	if r.flows != nil {
		if f := r.commitThin(r.clock, n, h); f != nil {
			v, why := r.gate()
			return r.dispose(v, why, f)
		}
	}
	v, why := r.gate()
	if v == gatePass && n <= r.room && r.spill.frames == 0 {
		r.commit(r.hdrLen + n)
		return DropNone
	}
	if v == gateDrop {
		return r.drop(why)
	}
	return r.dispose(v, why, gather(scratch(&r.linear, n), r.data))
}

// Abort ends a reservation without a frame. The buffers serve the next one.
func (r *RX) Abort() {
	if r.reserved {
		r.reserved = false
		r.more = r.more || r.spill.frames > 0
	}
}

// dispose does with a frame in one piece what gate has decided.
func (r *RX) dispose(v gateVerdict, why DropReason, f []byte) DropReason {
	switch v {
	case gateDrop:
		return r.drop(why)
	case gateSegment:
		return r.putSegments(f)
	case gateCSum:
		f = r.completeCSum(f)
	}
	return r.put(f)
}

// put delivers or spills the frame f, whose header is in r.view.
func (r *RX) put(f []byte) DropReason {
	if r.reserved || r.spill.frames > 0 {
		return r.keep(f)
	}
	switch r.fill(r.hdrLen + len(f)) {
	case fits:
		r.write(f)
		return DropNone
	case fitShort:
		r.starved = true
		return r.keep(f)
	}
	if r.view.hdr.GSOType != virtio.GSONone {
		return r.putSegments(f)
	}
	return r.drop(DropNoRoom)
}

// keep puts the frame into the spill.
func (r *RX) keep(f []byte) DropReason {
	switch {
	case r.broken != nil:
		return r.drop(DropStopped)
	case !r.spill.put(&r.view.hdr, f):
		return r.drop(DropNoBuffers)
	}
	r.stats.Spilled++
	r.work.Copied += len(f)
	return DropNone
}

// unspill moves the first frame of the spill to the guest, and reports whether
// there were buffers for it.
func (r *RX) unspill(done *Work) bool {
	n := r.spill.frontLen()
	ok := r.fill(r.hdrLen + n)
	if ok == fitShort {
		r.starved = r.broken == nil
		return false
	}
	f := scratch(&r.linear, n)
	r.spill.pop(&r.view.hdr, f)
	if ok == fitNever {
		r.drop(DropNoRoom)
		done.Dropped++
		return true
	}
	r.whole[0] = f
	r.view.parse(r.whole[:], n)
	r.write(f)
	done.Packets++
	done.Bytes += n
	return true
}

// write copies a frame to the buffers, which fit it.
func (r *RX) write(f []byte) {
	iov, n := r.bufs.all(), r.hdrLen+len(f)
	if p := iov[0]; len(p) >= n {
		copy(p[r.hdrLen:], f)
	} else {
		scatter(iov, r.hdrLen, f)
	}
	r.work.Copied += len(f)
	r.commit(n)
}

// commit writes the net header before a frame that is in the buffers, and
// gives the n bytes of both to the guest.
func (r *RX) commit(n int) {
	h := &r.view.hdr
	h.NumBuffers = 1
	if r.mrg && n > r.bufs.front().room {
		h.NumBuffers = uint16(r.bufs.span(n))
	}
	if p := r.bufs.all()[0]; len(p) >= r.hdrLen {
		r.encode(p[:r.hdrLen])
	} else {
		var raw [virtio.HashNetHdrLen]byte
		r.encode(raw[:r.hdrLen])
		scatter(r.bufs.all(), 0, raw[:r.hdrLen])
	}
	r.starved = false
	r.saw(AtGuest)
	r.use(n)
	r.view.count(&r.stats, &r.work)
}

// encode writes the net header of the frame in r.view, the hash included if the
// guest wants it.
func (r *RX) encode(b []byte) {
	r.view.hdr.Encode(b)
	if r.hashing {
		hash, report := r.pair.dev.filter.Load().hash(&r.view)
		virtio.EncodeHash(b, hash, report)
	}
}

// putSegments delivers a GSO frame as the frames that a wire would carry.
func (r *RX) putSegments(f []byte) DropReason {
	flags := r.validFlag()
	if r.view.hdr.GSOType == virtio.GSOUDP {
		flags, f = 0, r.own(f) // its checksum is completed in place
	}
	room, err := r.cutter.reset(f, &r.view)
	if err != nil {
		return r.drop(DropBadGSO)
	}
	buf := scratch(&r.segment, room)
	worst := DropNone
	for {
		n, err := r.cutter.next(buf)
		if n == 0 || err != nil {
			return worst
		}
		r.view.hdr = virtio.NetHdr{Flags: flags}
		r.whole[0] = buf[:n]
		r.view.parse(r.whole[:], n)
		if d := r.put(buf[:n]); d != DropNone {
			worst = d
		}
	}
}

// completeCSum returns the frame with its checksum completed. It copies the
// frame, unless it is the queue's own copy.
func (r *RX) completeCSum(f []byte) []byte {
	h := &r.view.hdr
	f = r.own(f)
	frame.CompleteCSum(f, int(h.CSumStart), int(h.CSumOffset))
	h.Flags, h.CSumStart, h.CSumOffset = 0, 0, 0
	r.stats.CSums++
	return f
}

// own returns the frame as the queue's own copy, which may be changed.
func (r *RX) own(f []byte) []byte {
	if len(r.linear) > 0 && &f[0] == &r.linear[0] {
		return f
	}
	c := scratch(&r.linear, len(f))
	copy(c, f)
	return c
}

// scratch returns n bytes of a buffer that grows to what was needed once.
func scratch(buf *[]byte, n int) []byte {
	if len(*buf) < n {
		*buf = make([]byte, n)
	}
	return (*buf)[:n]
}

// skip returns iov without its first n bytes, which it has. It changes the
// elements of iov.
func skip(iov [][]byte, n int) [][]byte {
	for n > 0 {
		k := min(n, len(iov[0]))
		n -= k
		if iov[0] = iov[0][k:]; len(iov[0]) == 0 {
			iov = iov[1:]
		}
	}
	return iov
}

// scatter copies b to iov from the offset on. iov has room for it.
func scatter(iov [][]byte, off int, b []byte) {
	for i := 0; len(b) > 0; i++ {
		if off >= len(iov[i]) {
			off -= len(iov[i])
			continue
		}
		b = b[copy(iov[i][off:], b):]
		off = 0
	}
}
