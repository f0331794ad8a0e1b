package netdev

import "github.com/vnetbench/vnetbench/virtio/ring"

// buffers are the chains that a receive queue has taken off the ring and not
// yet used, in order. A frame takes what it may need, and what it did not need
// stays for the next, which saves walking the same chains again. A chain that
// cannot be used keeps its place among the others, so that all can be put back
// to the ring in order, and goes back to the guest when its turn comes; it is
// never the first.
type buffers struct {
	parts []part
	first int      // parts before it are used up
	iov   [][]byte // the pieces of the parts
	piece int      // pieces before it are used up
	room  int      // bytes in pieces from there on
	bad   int      // parts from first on that cannot be used
}

// part is one chain.
type part struct {
	head   uint16
	bad    DropReason // why it cannot be used; it has no pieces then
	pieces int
	room   int // bytes in its pieces
	descs  int
}

// len is the number of chains; if there is one, the first can be used.
func (b *buffers) len() int { return len(b.parts) - b.first }

// front is the first chain.
func (b *buffers) front() *part { return &b.parts[b.first] }

// all is the guest memory of all chains.
func (b *buffers) all() [][]byte { return b.iov[b.piece:] }

// one is the guest memory of the first chain.
func (b *buffers) one() [][]byte { return b.iov[b.piece : b.piece+b.front().pieces] }

func (b *buffers) add(c *ring.Chain) {
	b.parts = append(b.parts, part{head: c.Head, pieces: len(c.In), room: int(c.InLen), descs: c.Descs})
	b.iov = append(b.iov, c.In...)
	b.room += int(c.InLen)
}

// addOne adds a chain of one descriptor.
func (b *buffers) addOne(head uint16, buf []byte) {
	b.parts = append(b.parts, part{head: head, pieces: 1, room: len(buf), descs: 1})
	b.iov = append(b.iov, buf)
	b.room += len(buf)
}

func (b *buffers) addBad(head uint16, why DropReason) {
	b.parts = append(b.parts, part{head: head, bad: why})
	b.bad++
}

// span returns how many chains n bytes fill. They have room for them.
func (b *buffers) span(n int) int {
	parts := 0
	for i := b.first; n > 0; i++ {
		if p := &b.parts[i]; p.bad == DropNone {
			n -= p.room
			parts++
		}
	}
	return parts
}

// pop removes the first chain, and returns it; it is valid until the next add.
func (b *buffers) pop() *part {
	p := &b.parts[b.first]
	b.first++
	b.piece += p.pieces
	b.room -= p.room
	if p.bad != DropNone {
		b.bad--
	}
	return p
}

// compact moves what is left to the front once as much is used up, so that a
// chain is moved once on average.
func (b *buffers) compact() {
	if b.first == len(b.parts) {
		b.parts, b.iov = b.parts[:0], b.iov[:0]
		b.first, b.piece = 0, 0
		return
	}
	if 2*b.first < len(b.parts) {
		return
	}
	b.parts = b.parts[:copy(b.parts, b.parts[b.first:])]
	b.first = 0
	b.iov = b.iov[:copy(b.iov, b.iov[b.piece:])]
	b.piece = 0
}

// clear forgets all chains and returns how many there were.
func (b *buffers) clear() int {
	n := b.len()
	clear(b.iov[:cap(b.iov)])
	b.parts, b.iov = b.parts[:0], b.iov[:0]
	b.first, b.piece, b.room, b.bad = 0, 0, 0, 0
	return n
}

// fit is the answer to whether the offered buffers hold a frame.
type fit uint8

const (
	fits     fit = iota
	fitShort     // not yet: the guest has to offer more
	fitNever     // the buffer, or the whole ring, is too small
)

// fill takes chains until they hold n bytes, net header included.
func (r *RX) fill(n int) fit {
	b := &r.bufs
	if r.ahead.len() > 0 {
		r.recall()
	}
	for b.len() == 0 || r.mrg && b.room < n {
		if int(r.q.InFlight()) == r.size {
			return fitNever
		}
		if !r.takeOne() {
			return fitShort
		}
	}
	if !r.mrg && b.front().room < n {
		return fitNever
	}
	return fits
}

// takeOne takes a chain off the ring, and reports whether there was one.
func (r *RX) takeOne() bool {
	c := &r.chain
	ok, err := r.q.Next(c)
	switch {
	case err != nil && !c.HasHead:
		r.fault(c, err)
		return false
	case err != nil:
		r.refuse(c.Head, faultOf(err))
	case !ok:
		return false
	case c.OutLen > 0 || c.InLen == 0:
		r.refuse(c.Head, DropDirection)
	case int64(c.InLen) < int64(r.hdrLen):
		r.refuse(c.Head, DropSmallBuffer)
	default:
		r.bufs.add(c)
	}
	return true
}

// refuse returns a chain that cannot be used, or, if others are kept before
// it, keeps it until their turn is over.
func (r *RX) refuse(head uint16, why DropReason) {
	if r.bufs.len() == 0 {
		r.reject(head, why)
		return
	}
	r.bufs.addBad(head, why)
}

// use gives the first n bytes of buffers to the guest. The used entries of a
// frame are neighbours, so chains that cannot be used go before them.
func (r *RX) use(n int) {
	b := &r.bufs
	if b.bad > 0 {
		r.rejectWithin(n)
	}
	for n > 0 {
		p := b.pop()
		if p.bad != DropNone {
			continue // returned above
		}
		k := min(n, p.room)
		n -= k
		r.push(p.head, uint32(k))
		r.took()
		r.stats.Descs += uint64(p.descs)
		r.work.Descs += p.descs
	}
	for b.len() > 0 && b.front().bad != DropNone {
		p := b.pop()
		r.reject(p.head, p.bad)
	}
	b.compact()
}

// rejectWithin returns the unusable chains among those that n bytes fill.
func (r *RX) rejectWithin(n int) {
	for i := r.bufs.first; n > 0; i++ {
		p := &r.bufs.parts[i]
		if n -= p.room; p.bad != DropNone {
			r.reject(p.head, p.bad)
		}
	}
}
