package netdev_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// The hostile suite, which is also row 131 of the list of faults, out-of-spec
// guests of every kind: what a guest may do against the specification, made from
// rules. Each case names the counter that it must raise by one, and no other,
// and is followed by proof that the device still works: other queues, another
// device beside it, and the same queue after it was started again.

// hostileCase is one thing that a guest does to pair 0, or the control queue, of
// a device of two pairs.
type hostileCase struct {
	name   string
	dir    netdev.Dir
	ring   virtio.Features // layout of the rings
	off    virtio.Features // not negotiated
	do     func(w *world)
	want   netdev.DropReason // counter of drops, DropNone for a refused command
	broken bool              // and the queue rests until it is started again
}

// hostileLeast is how many cases the suite has at least.
const hostileLeast = 200

func TestFault131Hostile(t *testing.T) {
	var all []hostileCase
	all = append(all, hostileChains()...)
	all = append(all, hostileIndices()...)
	all = append(all, hostileHeaders(t)...)
	all = append(all, hostileCommands()...)
	all = append(all, hostileBuffers()...)
	kinds := map[netdev.Dir]int{}
	beside := newWorld(t, setup{})
	for _, c := range all {
		kinds[c.dir]++
		t.Run(fmt.Sprintf("%v %s", c.dir, c.name), func(t *testing.T) { c.run(t, beside) })
	}
	t.Logf("%d cases: %d of transmit queues, %d of receive queues, %d of the control queue",
		len(all), kinds[netdev.DirTX], kinds[netdev.DirRX], kinds[netdev.DirCtrl])
	if len(all) < hostileLeast {
		t.Errorf("%d cases, want %d at least", len(all), hostileLeast)
	}
}

func (c *hostileCase) run(t *testing.T, beside *world) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 2}, off: c.off, ring: c.ring, ctrl: true, size: 64, mem: 2 << 20})
	beside.t = t
	c.do(w)
	err := c.poll(w)
	if c.broken != errors.Is(err, netdev.ErrBroken) || err != nil && !c.broken {
		t.Fatalf("error %v, want a broken queue: %v", err, c.broken)
	}
	s := c.stats(w)
	if c.broken && c.dir == netdev.DirRX {
		s.Drops[netdev.DropStopped] = 0 // the frame that was to be delivered
	}
	if c.want == netdev.DropNone && (s.Refused != 1 || s.Drops.Total() != 0) ||
		c.want != netdev.DropNone && (s.Drops[c.want] != 1 || s.Drops.Total() != 1) {
		t.Errorf("drops %s, refused %d; want one %v", marshal(t, s.Drops), s.Refused, c.want)
	}
	if len(w.wire.frames) != 0 {
		t.Errorf("%d frames reached the wire", len(w.wire.frames))
	}
	w.provePair(1)
	beside.provePair(0)
	if c.dir != netdev.DirCtrl {
		w.proveCommand()
	}
	c.restart(w)
}

func (c *hostileCase) stats(w *world) netdev.Stats {
	switch c.dir {
	case netdev.DirTX:
		return w.dev.Pair(0).TX.Snapshot()
	case netdev.DirRX:
		return w.dev.Pair(0).RX.Snapshot()
	}
	return w.dev.Ctrl().Snapshot()
}

// poll has the device look at the queue, for a receive queue by giving it a
// frame, until it has nothing more to do.
func (c *hostileCase) poll(w *world) (err error) {
	for range 3 {
		switch c.dir {
		case netdev.DirTX:
			_, _, err = w.dev.Pair(0).TX.Poll(w.now, netdev.Budget{})
		case netdev.DirRX:
			w.dev.Pair(0).RX.Deliver(w.now, &virtio.NetHdr{}, build(toGuest(0, 20)))
			_, _, err = w.dev.Pair(0).RX.Poll(w.now, netdev.Budget{})
			return err
		default:
			_, _, _, err = w.dev.Ctrl().Poll(w.now, netdev.Budget{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restart stops the queue, lays a new ring, and proves that it works.
func (c *hostileCase) restart(w *world) {
	switch c.dir {
	case netdev.DirTX:
		w.dev.Pair(0).DetachTX(w.now)
		w.tx[0] = w.newQueue(64)
		w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	case netdev.DirRX:
		w.dev.Pair(0).DetachRX(w.now)
		w.rx[0] = w.newQueue(64)
		w.dev.Pair(0).AttachRX(w.now, w.device(w.rx[0]))
	default:
		w.dev.Ctrl().Detach(w.now)
		w.ctrl = w.newQueue(64)
		w.dev.Ctrl().Attach(w.now, w.device(w.ctrl))
	}
	w.proveCommand()
	w.provePair(0)
}

// provePair sends a frame each way on a pair.
func (w *world) provePair(i int) {
	w.t.Helper()
	before := len(w.wire.frames)
	out := build(fromGuest(i, 77))
	w.send(i, virtio.NetHdr{}, out)
	w.pollTX(i, netdev.Budget{})
	if len(w.wire.frames) != before+1 || string(w.wire.frames[before]) != string(out) {
		w.t.Errorf("pair %d does not send", i)
	}
	w.reap(w.tx[i])
	in := build(toGuest(i, 66))
	w.offer(i, 1, 2048)
	if r := w.deliver(i, virtio.NetHdr{}, in); r != netdev.DropNone {
		w.t.Errorf("pair %d does not receive: %v", i, r)
	}
	if got := w.receive(i); len(got) < 1 || string(got[len(got)-1].frame) != string(in) {
		w.t.Errorf("pair %d receives %d frames, want that one", i, len(got))
	}
}

// proveCommand sends a command.
func (w *world) proveCommand() {
	w.t.Helper()
	cmd := cat([]byte{4, 0}, le16(2))
	if !w.dev.Acked().Has(virtio.FeatureMQ) {
		cmd = []byte{0, 0, 1}
	}
	if ack, _ := w.command(cmd); ack != ackOK {
		w.t.Errorf("a good command is answered with %d", ack)
	}
}

// Flags of descriptors beside those of world_test.go.
const (
	fIndirect = 4
	fAvail    = 1 << 7
)

// link is a descriptor of a chain that is being laid.
type link struct {
	desc
	id   uint16 // packed: driver's number for the chain
	lost bool   // packed: not marked available
}

// lay writes a chain to the ring's first descriptors, past its driver, or, with
// indirect, to a table that one descriptor names, and makes it available.
func (w *world) lay(q *guestQueue, chain []link, indirect bool) {
	if indirect {
		table := w.alloc(16 * len(chain))
		for i, l := range chain {
			if q.cfg.Packed() {
				l.desc = l.packed(0)
			}
			w.putDesc(table+16*uint64(i), l.desc)
		}
		chain = []link{{desc: desc{addr: table, len: uint32(16 * len(chain)), flags: fIndirect}}}
	}
	if q.cfg.Packed() {
		for i, l := range chain {
			flags := uint16(fAvail)
			if l.lost {
				flags = 0
			}
			w.putDesc(q.cfg.Desc+16*uint64(i), l.packed(flags))
		}
		return
	}
	for i, l := range chain {
		w.putDesc(q.cfg.Desc+16*uint64(i), l.desc)
	}
	w.avail(q, 0)
}

// packed returns the descriptor as a packed ring has it, where the number of the
// chain and the flags are the other way round.
func (l link) packed(more uint16) desc {
	d := l.desc
	d.next, d.flags = l.flags|more, l.id
	return d
}

func (w *world) putDesc(at uint64, d desc) {
	b, le := w.bytes(at, 16), binary.LittleEndian
	le.PutUint64(b, d.addr)
	le.PutUint32(b[8:], d.len)
	le.PutUint16(b[12:], d.flags)
	le.PutUint16(b[14:], d.next)
}

// avail makes heads available in a split ring.
func (w *world) avail(q *guestQueue, heads ...uint16) {
	le := binary.LittleEndian
	for i, h := range heads {
		le.PutUint16(w.bytes(q.cfg.Avail+4+2*uint64(i), 2), h)
	}
	w.setAvail(q, uint16(len(heads)))
}

// goodChain is a chain of a queue that would be served: the pieces of a frame
// with its header, a buffer in pieces, or a command.
func (w *world) goodChain(dir netdev.Dir) []link {
	var out []link
	add := func(b []byte, flags uint16) {
		at := w.alloc(len(b))
		copy(w.bytes(at, len(b)), b)
		out = append(out, link{desc: desc{addr: at, len: uint32(len(b)), flags: flags}})
	}
	switch dir {
	case netdev.DirTX:
		f := build(fromGuest(0, 100))
		add(make([]byte, virtio.NetHdrLen), 0)
		add(f[:14], 0)
		add(f[14:], 0)
	case netdev.DirRX:
		add(make([]byte, virtio.NetHdrLen), fWrite)
		add(make([]byte, 1000), fWrite)
		add(make([]byte, 1000), fWrite)
	default:
		add([]byte{4, 0}, 0)
		add([]byte{1, 0}, 0)
		add([]byte{0xee}, fWrite)
	}
	for i := range out[:len(out)-1] {
		out[i].flags |= fNext
		out[i].next = uint16(i + 1)
	}
	return out
}

// chainRule breaks one descriptor of a chain of n.
type chainRule struct {
	name string
	// edit changes descriptor i of a chain.
	edit func(w *world, chain []link, i int)
	want ring.Fault
	// only limits the rule: nil is everywhere.
	only func(packed, indirect bool, i, n int) bool
	// brk says whether a packed ring is beyond repair afterwards.
	brk bool
}

func chainRules() []chainRule {
	end := func(w *world) uint64 { return memBase + uint64(len(w.raw)) }
	inner := func(packed, indirect bool, i, n int) bool { return i < n-1 && !packed }
	direct := func(packed, indirect bool, i, n int) bool { return !indirect }
	return []chainRule{
		{name: "address 0", want: ring.ErrBadAddress, edit: func(w *world, c []link, i int) { c[i].addr = 0 }},
		{name: "address behind the memory", want: ring.ErrBadAddress, edit: func(w *world, c []link, i int) { c[i].addr = end(w) }},
		{name: "address before the memory", want: ring.ErrBadAddress, edit: func(w *world, c []link, i int) { c[i].addr = memBase - 1; c[i].len = 2 }},
		{name: "across the end", want: ring.ErrBadAddress, edit: func(w *world, c []link, i int) { c[i].addr = end(w) - 1; c[i].len = 2 }},
		{name: "largest address", want: ring.ErrAddrOverflow, edit: func(w *world, c []link, i int) { c[i].addr = ^uint64(0); c[i].len = 1 }},
		{name: "overflow", want: ring.ErrAddrOverflow, edit: func(w *world, c []link, i int) { c[i].addr = ^uint64(9); c[i].len = 100 }},
		{name: "4 GiB", want: ring.ErrBadAddress, edit: func(w *world, c []link, i int) { c[i].len = ^uint32(0) - 4096 }},
		{name: "length 0", want: ring.ErrZeroLen, edit: func(w *world, c []link, i int) { c[i].len = 0 }},
		{name: "length 0 and no address", want: ring.ErrZeroLen, edit: func(w *world, c []link, i int) { c[i].len = 0; c[i].addr = ^uint64(0) }},
		{name: "next is the size", want: ring.ErrNext, only: inner, edit: func(w *world, c []link, i int) { c[i].next = 64 }},
		{name: "next is 65535", want: ring.ErrNext, only: inner, edit: func(w *world, c []link, i int) { c[i].next = 65535 }},
		{name: "next is itself", want: ring.ErrLoop, only: inner, edit: func(w *world, c []link, i int) { c[i].next = uint16(i) }},
		{name: "not available", want: ring.ErrWrap, brk: true, edit: func(w *world, c []link, i int) { c[i].lost = true },
			only: func(packed, indirect bool, i, n int) bool { return packed && !indirect && i > 0 }},
		{name: "indirect within a table", want: ring.ErrIndirectNested, only: func(packed, indirect bool, i, n int) bool { return indirect },
			edit: func(w *world, c []link, i int) { c[i].flags |= fIndirect }},
		{name: "indirect and next", want: ring.ErrIndirectNext, only: func(packed, indirect bool, i, n int) bool { return !indirect && i < n-1 },
			edit: func(w *world, c []link, i int) { c[i].flags |= fIndirect; c[i].len = 16 }},
		{name: "indirect of 8 bytes", want: ring.ErrIndirectLen, only: func(packed, indirect bool, i, n int) bool { return !indirect && i == n-1 && !packed },
			edit: func(w *world, c []link, i int) { c[i].flags |= fIndirect; c[i].len = 8 }},
		{name: "indirect outside", want: ring.ErrIndirectTable, only: func(packed, indirect bool, i, n int) bool { return !indirect && i == n-1 && !packed },
			edit: func(w *world, c []link, i int) { c[i].flags |= fIndirect; c[i].len = 16; c[i].addr = end(w) }},
		{name: "indirect across the end", want: ring.ErrIndirectTable, only: func(packed, indirect bool, i, n int) bool { return !indirect && i == n-1 && !packed },
			edit: func(w *world, c []link, i int) { c[i].flags |= fIndirect; c[i].len = 32; c[i].addr = end(w) - 16 }},
		{name: "too many bytes", want: ring.ErrTooLong, only: direct, edit: func(w *world, c []link, i int) {
			for j := range c {
				c[j].addr, c[j].len = memBase, ^uint32(0)
			}
		}},
	}
}

// hostileChains applies each rule to each descriptor of a chain, in each layout.
func hostileChains() (all []hostileCase) {
	for _, packed := range []virtio.Features{0, virtio.FeatureRingPacked} {
		for _, indirect := range []bool{false, true} {
			for _, dir := range []netdev.Dir{netdev.DirTX, netdev.DirRX, netdev.DirCtrl} {
				for _, r := range chainRules() {
					for i := range 3 {
						if r.only != nil && !r.only(packed != 0, indirect, i, 3) {
							continue
						}
						all = append(all, chainCase(r, packed, indirect, dir, i))
					}
				}
			}
		}
	}
	return append(all, hostileDirections()...)
}

func chainCase(r chainRule, packed virtio.Features, indirect bool, dir netdev.Dir, i int) hostileCase {
	want := r.want
	if r.name == "too many bytes" {
		want = ring.ErrBadAddress // the first descriptor's 4 GiB are not there
	}
	if r.name == "indirect and next" && packed == 0 && indirect {
		want = ring.ErrIndirectNested
	}
	name := fmt.Sprintf("%s, descriptor %d, packed %v, table %v", r.name, i, packed != 0, indirect)
	return hostileCase{name: name, dir: dir, ring: packed, want: netdev.FaultDrop(want), broken: r.brk && packed != 0,
		do: func(w *world) {
			chain := w.goodChain(dir)
			r.edit(w, chain, i)
			w.lay(w.queueOf(dir), chain, indirect)
		}}
}

func (w *world) queueOf(dir netdev.Dir) *guestQueue {
	switch dir {
	case netdev.DirTX:
		return w.tx[0]
	case netdev.DirRX:
		return w.rx[0]
	}
	return w.ctrl
}

// hostileDirections turns single descriptors round: a buffer that the device
// would write where it reads, and the reverse.
func hostileDirections() (all []hostileCase) {
	order := netdev.FaultDrop(ring.ErrOrder)
	wants := map[netdev.Dir][3]netdev.DropReason{
		netdev.DirTX:   {order, order, netdev.DropDirection},
		netdev.DirRX:   {netdev.DropDirection, order, order},
		netdev.DirCtrl: {order, netdev.DropNone, netdev.DropNoAck},
	}
	for _, packed := range []virtio.Features{0, virtio.FeatureRingPacked} {
		for _, indirect := range []bool{false, true} {
			for dir, want := range wants {
				for i := range 3 {
					all = append(all, hostileCase{
						name: fmt.Sprintf("direction of descriptor %d, packed %v, table %v", i, packed != 0, indirect),
						dir:  dir, ring: packed, want: want[i],
						do: func(w *world) {
							chain := w.goodChain(dir)
							chain[i].flags ^= fWrite
							w.lay(w.queueOf(dir), chain, indirect)
						}})
				}
			}
		}
	}
	return all
}

// hostileIndices breaks what is outside the descriptors: heads and indices of a
// split ring, and what needs a feature that was not negotiated.
func hostileIndices() (all []hostileCase) {
	for _, dir := range []netdev.Dir{netdev.DirTX, netdev.DirRX, netdev.DirCtrl} {
		for _, head := range []uint16{64, 65, 0x8000, 0xffff} {
			all = append(all, hostileCase{name: fmt.Sprintf("head %d", head), dir: dir, want: netdev.FaultDrop(ring.ErrHead),
				do: func(w *world) { w.avail(w.queueOf(dir), head) }})
		}
		for _, jump := range []uint16{65, 66, 128, 0x7fff, 0x8000, 0xffff} {
			all = append(all, hostileCase{name: fmt.Sprintf("index jumps by %d", jump), dir: dir, broken: true,
				want: netdev.FaultDrop(ring.ErrAvailJump), do: func(w *world) { w.setAvail(w.queueOf(dir), jump) }})
		}
		for _, packed := range []virtio.Features{0, virtio.FeatureRingPacked} {
			all = append(all, hostileCase{name: fmt.Sprintf("indirect not negotiated, packed %v", packed != 0), dir: dir, ring: packed,
				off: virtio.FeatureIndirectDesc, want: netdev.FaultDrop(ring.ErrIndirectOff),
				do: func(w *world) { w.lay(w.queueOf(dir), w.goodChain(dir), true) }})
		}
		all = append(all, hostileCase{name: "packed chain fills the ring and goes on", dir: dir, ring: virtio.FeatureRingPacked, broken: true,
			want: netdev.FaultDrop(ring.ErrAvailJump), do: func(w *world) {
				q := w.queueOf(dir)
				var chain []link
				for range 64 {
					l := w.goodChain(dir)[0]
					l.flags |= fNext
					chain = append(chain, l)
				}
				w.lay(q, chain, false)
			}})
	}
	return all
}

// hostileHeaders makes net headers that do not fit the frame behind them. What
// makes which reason: an unknown type or one of another protocol, fields that
// name places outside the frame, offloads that were not negotiated.
func hostileHeaders(t *testing.T) (all []hostileCase) {
	add := func(name string, off virtio.Features, h virtio.NetHdr, f []byte, want netdev.DropReason) {
		all = append(all, hostileCase{name: name, dir: netdev.DirTX, off: off, want: want, do: func(w *world) { w.send(0, h, f) }})
	}
	for _, b := range cutCases(t) {
		h, f := b.hdr, b.frame
		with := func(edit func(*virtio.NetHdr)) virtio.NetHdr { h := h; edit(&h); return h }
		for _, past := range []int{1, 2, len(f)} {
			add(fmt.Sprintf("%s: checksum %d past the end", b.name, past), 0,
				with(func(h *virtio.NetHdr) { h.CSumStart = uint16(len(f) - int(h.CSumOffset) - 2 + past) }), f, netdev.DropBadCSum)
		}
		add(b.name+": checksum offset 65535", 0, with(func(h *virtio.NetHdr) { h.CSumOffset = 0xffff }), f, netdev.DropBadCSum)
		add(b.name+": checksum not negotiated", virtio.FeatureCSum, h, f, netdev.DropOffload)
		if h.GSOType == virtio.GSONone {
			continue
		}
		for typ := range 256 {
			if typ&0x7f <= 5 && typ&0x7f != 2 {
				continue // a type that exists; TestTXHeader crosses them
			}
			if typ%8 == 0 || typ < 16 || typ == 0x83|0x40 || typ == 255 {
				add(fmt.Sprintf("%s: type %#x", b.name, typ), 0, with(func(h *virtio.NetHdr) { h.GSOType = uint8(typ) }), f, netdev.DropBadGSO)
			}
		}
		for typ := range gsoTypes {
			if !fitsType(typ, f) {
				add(fmt.Sprintf("%s: as type %#x", b.name, typ), 0, with(func(h *virtio.NetHdr) { h.GSOType = typ }), f, netdev.DropBadGSO)
			}
		}
		for size := range uint16(8) {
			add(fmt.Sprintf("%s: size %d", b.name, size), 0, with(func(h *virtio.NetHdr) { h.GSOSize = size }), f, netdev.DropBadGSO)
		}
		add(b.name+": no checksum", 0, with(func(h *virtio.NetHdr) { h.Flags = 0 }), f, netdev.DropBadGSO)
		add(b.name+": checksum of layer 3", 0, with(func(h *virtio.NetHdr) { h.CSumStart = 14 }), f, netdev.DropBadGSO)
		add(b.name+": checksum two on", 0, with(func(h *virtio.NetHdr) { h.CSumOffset += 2 }), f, netdev.DropBadGSO)
		add(b.name+": over the mtu", 0, with(func(h *virtio.NetHdr) { h.GSOSize = 1600 }), f, netdev.DropMTU)
		add(b.name+": not negotiated", b.need&^virtio.FeatureCSum, h, f, netdev.DropOffload)
	}
	for n := 1; n < 26; n++ {
		all = append(all, hostileCase{name: fmt.Sprintf("frame of %d bytes, header included", n), dir: netdev.DirTX, want: netdev.DropShort,
			do: func(w *world) { w.queueTX(0, make([]byte, n)) }})
	}
	add("frame over the mtu", 0, virtio.NetHdr{}, build(fromGuest(0, 1449)), netdev.DropMTU)
	add("frame over 64 KiB", virtio.FeatureMTU, virtio.NetHdr{}, build(fromGuest(0, 65536-51)), netdev.DropOversize)
	return all
}

// gsoTypes are the types that exist, and whether they go with ECN.
var gsoTypes = map[uint8]bool{
	virtio.GSOTCPv4: true, virtio.GSOTCPv6: true, virtio.GSOUDP: false, virtio.GSOUDPL4: false,
	virtio.GSOUDP | virtio.GSOECN: false, virtio.GSOUDPL4 | virtio.GSOECN: false,
}

// fitsType reports whether a type can be that of a frame.
func fitsType(typ uint8, f []byte) bool {
	var in frame.Info
	frame.Parse(f, &in)
	switch typ {
	case virtio.GSOTCPv4:
		return in.Proto == frame.ProtoTCP && in.Version == 4
	case virtio.GSOTCPv6:
		return in.Proto == frame.ProtoTCP && in.Version == 6
	case virtio.GSOUDP, virtio.GSOUDPL4:
		return in.Proto == frame.ProtoUDP
	}
	return false
}

// hostileCommands takes every command that is good, cuts it at every length, adds
// a byte, takes its feature away; and every class and command that there is not.
func hostileCommands() (all []hostileCase) {
	add := func(name string, off virtio.Features, cmd []byte, room int) {
		all = append(all, hostileCase{name: name, dir: netdev.DirCtrl, off: off, do: func(w *world) {
			in := w.store(make([]byte, 1+room))
			if err := w.ctrl.Add(w.store(cmd), in, 1); err != nil {
				w.t.Fatal(err)
			}
			w.ctrl.Publish()
		}})
	}
	for _, c := range goodCommands() {
		for n := 1; n < len(c.cmd); n++ {
			if n != c.alsoLen {
				add(fmt.Sprintf("%s: %d bytes of %d", c.name, n, len(c.cmd)), 0, c.cmd[:n], c.room)
			}
		}
		add(c.name+": a byte too many", 0, append(append([]byte{}, c.cmd...), 0), c.room)
		add(c.name+": not negotiated", c.feature, c.cmd, c.room)
		if c.room > 0 {
			add(c.name+": no room for the answer", 0, c.cmd, c.room-1)
		}
	}
	for class := range 256 {
		if class < 7 || class == 8 {
			continue
		}
		add(fmt.Sprintf("class %d", class), 0, []byte{byte(class), 0, 0}, 8)
	}
	for class, commands := range map[byte]int{0: 6, 1: 2, 2: 2, 3: 1, 4: 3, 5: 1, 6: 4, 8: 2} {
		for cmd := commands; cmd < 256; cmd += 50 {
			add(fmt.Sprintf("class %d, command %d", class, cmd), 0, []byte{class, byte(cmd), 0, 0}, 8)
		}
	}
	for _, v := range []uint16{0, 3, 0x7fff, 0x8000, 0xffff} {
		add(fmt.Sprintf("%d pairs of 2", v), 0, cat([]byte{4, 0}, le16(v)), 0)
	}
	for _, v := range []uint16{4096, 0x8000, 0xffff} {
		add(fmt.Sprintf("vlan %d", v), 0, cat([]byte{2, 0}, le16(v)), 0)
	}
	for _, v := range []uint16{4, 5, 256, 0x7fff, 0xfffe} {
		add(fmt.Sprintf("coalesce queue %d of 4", v), 0, cat([]byte{6, 2}, le16(v), le16(0), le64(0)), 0)
		add(fmt.Sprintf("counters of queue %d of 5", v+1), 0, cat([]byte{8, 1}, statsOf(v+1, 1)), 100)
	}
	for mode := range byte(6) {
		add(fmt.Sprintf("mode %d is 2", mode), 0, []byte{0, mode, 2}, 0)
	}
	return all
}

type goodCommand struct {
	name    string
	cmd     []byte
	feature virtio.Features
	room    int // bytes of its result
	alsoLen int // a shorter form that is good as well
}

func goodCommands() []goodCommand {
	mac := []byte{0x52, 0x54, 0, 1, 2, 3}
	return []goodCommand{
		{"promisc", []byte{0, 0, 1}, virtio.FeatureCtrlRX, 0, 0},
		{"nobcast", []byte{0, 5, 1}, virtio.FeatureCtrlRXExtra, 0, 0},
		{"table", cat([]byte{1, 0}, le32(2), mac, mac, le32(1), mac), virtio.FeatureCtrlRX, 0, 0},
		{"mac", cat([]byte{1, 1}, mac), virtio.FeatureCtrlMACAddr, 0, 0},
		{"vlan", cat([]byte{2, 0}, le16(5)), virtio.FeatureCtrlVLAN, 0, 0},
		{"pairs", cat([]byte{4, 0}, le16(2)), virtio.FeatureMQ, 0, 0},
		{"offloads", cat([]byte{5, 0}, le64(0)), virtio.FeatureCtrlGuestOffloads, 0, 0},
		{"coalesce tx", cat([]byte{6, 0}, le32(1), le32(1)), virtio.FeatureNotfCoal, 0, 0},
		{"coalesce rx", cat([]byte{6, 1}, le32(1), le32(1)), virtio.FeatureNotfCoal, 0, 0},
		{"coalesce a queue", cat([]byte{6, 2}, le16(1), le16(0), le64(1)), virtio.FeatureVQNotfCoal, 0, 0},
		{"ask for coalescing", cat([]byte{6, 3}, le16(1), le16(0), le64(1)), virtio.FeatureVQNotfCoal, 8, 6},
		{"ask for groups", []byte{8, 0}, virtio.FeatureDeviceStats, 8, 0},
		{"ask for counters", cat([]byte{8, 1}, statsOf(0, 1)), virtio.FeatureDeviceStats, 56, 0},
	}
}

// hostileBuffers offers receive buffers that cannot hold a net header.
func hostileBuffers() (all []hostileCase) {
	for _, packed := range []virtio.Features{0, virtio.FeatureRingPacked} {
		for n := 1; n < virtio.NetHdrLen; n++ {
			all = append(all, hostileCase{name: fmt.Sprintf("buffer of %d bytes, packed %v", n, packed != 0), dir: netdev.DirRX, ring: packed,
				want: netdev.DropSmallBuffer, do: func(w *world) { w.offer(0, 1, n) }})
		}
	}
	return all
}
