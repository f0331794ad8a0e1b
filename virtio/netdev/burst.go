package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// burst is the chains of one descriptor that a transmit queue takes together.
// Frames among them that ask for nothing, and that the port takes at once, are
// accounted together as well: run is those that are not accounted yet.
type burst struct {
	ring.Batch
	one   [1][]byte // the frame that is sent, as pieces
	quick bool      // a frame that the port takes at once is finished
	run   struct {
		first int // index in the batch
		n     int // frames
		bytes int
	}
}

// takeBatch takes chains of one descriptor off the ring, as many as the budget
// leaves, and reports whether it did and there may be more. The ring's other
// chains are takeOne's.
func (t *TX) takeBatch(now vtime.Time, b Budget) bool {
	u := &t.burst
	n := t.q.NextBatch(&u.Batch, b.left(&t.work, t.size), false)
	if n == 0 {
		return false
	}
	u.quick = t.enabled && t.port != nil && t.pend.n == 0 && t.direct &&
		t.pair.ctl == nil && !t.observed
	u.run.first, u.run.n, u.run.bytes = 0, 0, 0
	for i := range n {
		if i > 0 && b.Bytes > 0 && t.work.Bytes+u.run.bytes >= b.Bytes {
			t.q.Unget(uint16(n - i))
			break
		}
		if !t.sendOf(now, i) {
			break
		}
	}
	t.endRun(now)
	return !t.blocked
}

// sendOf sends the frame of chain i of the batch, and reports whether the port
// takes more.
func (t *TX) sendOf(now vtime.Time, i int) bool {
	u := &t.burst
	head, left := u.Heads[i], uint16(u.N-i)
	if !u.quick || !t.open(head, u.Bufs[i]) {
		t.endRun(now)
		u.run.first = i + 1
		t.chain.SetOut(head, u.Bufs[i])
		more := t.handle(now, &t.chain, left)
		u.quick = u.quick && t.pend.n == 0
		return more
	}
	t.slots[head].state = slotLater
	done, r := t.port.Send(now, &t.view.hdr, t.view.iov, makeToken(t.gen, head))
	if r == Sent && done <= now {
		t.slots[head].state = slotFree
		u.run.n++
		u.run.bytes += t.view.len
		if !t.view.unparsed {
			t.view.countTCP(&t.stats)
			t.work.Payload += t.view.payload
			t.learn()
		}
		return true
	}
	t.endRun(now)
	u.run.first = i + 1
	u.quick = r == Later
	return t.sent(now, head, 1, done, r, left)
}

// open leaves a frame that asks for nothing in t.view, and reports whether it
// is one. What it does not let through is not wrong: admit looks at it again.
func (t *TX) open(head uint16, buf []byte) bool {
	h := t.rules.hdrLen
	if len(buf) < h+ethHdrLen || t.slots[head].state != slotFree {
		return false
	}
	f := buf[h:]
	l3 := len(f) - ethHdrLen
	if buf[0]&virtio.HdrNeedsCSum != 0 || buf[1] != virtio.GSONone || l3 > t.rules.tso || t.rules.mtu > 0 && l3 > t.rules.mtu {
		return false
	}
	t.view.hdr = virtio.NetHdr{}
	t.burst.one[0] = f
	if !t.learns && notTCP(f) {
		t.view.skip(t.burst.one[:], len(f))
		return true
	}
	t.view.parse(t.burst.one[:], len(f))
	return true
}

// notTCP reports that a frame is certainly not TCP, from two of its fields.
func notTCP(f []byte) bool {
	return len(f) > 23 && f[12] == 0x08 && f[13] == 0x00 && f[23] != frame.ProtoTCP
}

// endRun accounts the frames of the run as sent and stages their used entries.
func (t *TX) endRun(now vtime.Time) {
	u := &t.burst
	n := u.run.n
	if n == 0 {
		return
	}
	t.q.PushAll(u.Heads[u.run.first : u.run.first+n])
	t.staged += n
	if k := min(n, t.announced); k > 0 {
		t.announced -= k
		t.stats.KickToUsed.AddN(nanos(now.Sub(t.announcedAt)), k)
	}
	t.runKick += uint64(n)
	s, w := &t.stats, &t.work
	s.Packets += uint64(n)
	s.Bytes += uint64(u.run.bytes)
	s.Segs += uint64(n)
	s.Descs += uint64(n)
	w.Packets += n
	w.Bytes += u.run.bytes
	w.Segs += n
	w.Descs += n
	u.run.first += n
	u.run.n, u.run.bytes = 0, 0
}
