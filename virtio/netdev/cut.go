package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// hostOffloads are the features by which a guest leaves work to the port.
const hostOffloads = virtio.FeatureCSum | virtio.FeatureHostTSO4 | virtio.FeatureHostTSO6 |
	virtio.FeatureHostECN | virtio.FeatureHostUFO | virtio.FeatureHostUSO

// Limited is a Port that does not take every offload. The device then completes
// checksums and cuts large packets itself, into memory of its own that is used
// again as soon as Send has returned: such a port copies what it keeps, and
// never answers Later. What it answers Sent to such a packet with is when it
// left; the guest's buffers are free with the last one.
type Limited interface {
	Port
	// Offloads returns which of FeatureCSum, the HOST_TSO features,
	// FeatureHostECN, FeatureHostUFO and FeatureHostUSO the port takes. It is
	// asked by SetPort. A port that takes no checksums takes nothing.
	Offloads() virtio.Features
}

// cutTX is a frame that a transmit queue sends in pieces of its own making.
type cutTX struct {
	takes   virtio.Features // what the port takes
	limited bool            // which is not everything

	active bool
	head   uint16
	done   vtime.Time // of the pieces so far
	cutter cutter
	plain  bool   // the frame is sent in one piece: only its checksum was missing
	last   bool   // no piece comes after the one in iov
	copied []byte // scratch: the frame in one piece
	size   int    // bytes in it
	piece  []byte // scratch: the packet to be sent
	n      int    // bytes in it, 0 if the next one is to be made
	iov    [1][]byte
	hdr    virtio.NetHdr // of the piece: nothing is left to be done
}

// setPort notes what the port takes.
func (c *cutTX) setPort(p Port) {
	c.takes = hostOffloads
	if l, ok := p.(Limited); ok {
		c.takes = l.Offloads()
	}
	if !c.takes.Has(virtio.FeatureCSum) {
		c.takes = 0
	}
	c.limited = c.takes&hostOffloads != hostOffloads
}

// takesIt reports whether the port takes a frame with this header.
func (c *cutTX) takesIt(h *virtio.NetHdr) bool {
	if h.Flags&virtio.HdrNeedsCSum == 0 {
		return true
	}
	need := virtio.FeatureCSum
	if k := gsoKindOf(h.GSOType); k != nil {
		need |= k.host
	}
	if h.GSOType&virtio.GSOECN != 0 {
		need |= virtio.FeatureHostECN
	}
	return c.takes.Has(need)
}

// sendCut sends the frame in t.view, which the port does not take as it is. It
// works on a copy and looks at that anew, since the guest may have changed its
// frame meanwhile.
func (t *TX) sendCut(now vtime.Time, c *ring.Chain) bool {
	x := &t.cut
	f := gather(scratch(&x.copied, t.view.len), t.view.iov)
	t.whole[0] = f
	t.view.parse(t.whole[:], len(f))
	why := t.rules.check(&t.view)
	if why == DropNone {
		t.saw(now) // before its checksum is completed
		if !x.begin(f, &t.view) {
			why = DropBadGSO
		}
	}
	if why != DropNone {
		t.reject(c.Head, why)
		t.work.Dropped++
		return true
	}
	t.work.Copied += len(f)
	x.active, x.head, x.done, x.n, x.size = true, c.Head, now, 0, len(f)
	t.slots[c.Head] = slot{state: slotLater, kickAt: t.took()}
	t.account(now, c.Head, c.Descs)
	if t.view.hdr.GSOType != virtio.GSONone {
		t.stats.CutGSO++
		t.stats.CutGSOBytes += uint64(t.view.len)
	}
	return t.sendPieces(now)
}

// begin prepares the copy f for sending.
func (c *cutTX) begin(f []byte, v *frameView) bool {
	h := &v.hdr
	c.plain, c.last = h.GSOType == virtio.GSONone, false
	if c.plain {
		return frame.CompleteCSum(f, int(h.CSumStart), int(h.CSumOffset))
	}
	room, err := c.cutter.reset(f, v)
	scratch(&c.piece, room)
	return err == nil
}

// make puts the next piece into c.iov; false means that there is none.
func (c *cutTX) make() bool {
	switch {
	case c.n > 0 || c.last:
	case c.plain:
		c.n, c.last = c.size, true
		c.iov[0] = c.copied[:c.n]
	default:
		n, err := c.cutter.next(c.piece)
		if err != nil {
			panic("netdev: a piece does not fit the room that was computed for it: " + err.Error())
		}
		c.iov[0], c.n = c.piece[:n], n
	}
	return c.n > 0
}

// maxPieces is the most packets that one Poll makes of frames that are cut: a
// guest can have one frame become thousands, and other queues wait meanwhile.
const maxPieces = 256

// sendPieces sends what is left of the frame that is being cut, and reports
// whether all of it went. If not, nothing else is taken before the rest has gone.
func (t *TX) sendPieces(now vtime.Time) bool {
	x := &t.cut
	for n := 0; t.port != nil && x.make(); n++ {
		if n == maxPieces {
			t.more = true
			return false
		}
		x.hdr = virtio.NetHdr{}
		done, r := t.port.Send(now, &x.hdr, x.iov[:], noToken)
		if r == Full {
			t.blocked = true
			t.stats.FullStops++
			return false
		}
		if r == Sent {
			x.done = max(x.done, done)
		}
		t.stats.Cut++
		x.n = 0
	}
	x.active = false
	t.slots[x.head].state = slotSent
	t.pend.insert(x.done, x.head)
	return true
}

// resumeCut goes on with a frame that the port had no room for all of.
func (t *TX) resumeCut(now vtime.Time) {
	t.sendPieces(now)
	if t.port != nil {
		t.port.Flush(now)
	}
}

// noToken is the token of a frame that is not the guest's.
const noToken = ^Token(0)

// Inject sends a frame of the host's own, without a net header, out of the
// pair's port, as if the guest had sent it: the announcement of a guest that was
// migrated here. It is called by the pair's owner; f may be used again when it
// returns. False means that there is no port or that it has no room. The frame
// is in none of the queue's counters.
func (p *Pair) Inject(now vtime.Time, f []byte) bool {
	port := p.TX.port
	if port == nil {
		return false
	}
	var h virtio.NetHdr
	_, r := port.Send(now, &h, [][]byte{append([]byte(nil), f...)}, noToken)
	port.Flush(now)
	return r != Full
}
