package netdev_test

import (
	"encoding/binary"
	"fmt"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

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
	// brk says whether the ring is beyond repair afterwards.
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

// hostileLayouts are the kinds of ring.
var hostileLayouts = []virtio.Features{
	0, virtio.FeatureRingPacked, virtio.FeatureInOrder, virtio.FeatureRingPacked | virtio.FeatureInOrder,
}

// layoutName names a kind of ring.
func layoutName(f virtio.Features) string {
	if f == 0 {
		return "split"
	}
	return f.String()
}

// hostileChains applies each rule to each descriptor of a chain, in each layout.
func hostileChains() (all []hostileCase) {
	for _, layout := range hostileLayouts {
		for _, indirect := range []bool{false, true} {
			for _, dir := range []netdev.Dir{netdev.DirTX, netdev.DirRX, netdev.DirCtrl} {
				for _, r := range chainRules() {
					for i := range 3 {
						if r.only != nil && !r.only(layout.Has(virtio.FeatureRingPacked), indirect, i, 3) {
							continue
						}
						all = append(all, chainCase(r, layout, indirect, dir, i))
					}
				}
			}
		}
	}
	return append(all, hostileDirections()...)
}

func chainCase(r chainRule, layout virtio.Features, indirect bool, dir netdev.Dir, i int) hostileCase {
	want := r.want
	if r.name == "too many bytes" {
		want = ring.ErrBadAddress // the first descriptor's 4 GiB are not there
	}
	name := fmt.Sprintf("%s, descriptor %d, %s, table %v", r.name, i, layoutName(layout), indirect)
	return hostileCase{name: name, dir: dir, ring: layout, want: netdev.FaultDrop(want), broken: r.brk,
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
	for _, layout := range hostileLayouts {
		for _, indirect := range []bool{false, true} {
			for dir, want := range wants {
				for i := range 3 {
					all = append(all, hostileCase{
						name: fmt.Sprintf("direction of descriptor %d, %s, table %v", i, layoutName(layout), indirect),
						dir:  dir, ring: layout, want: want[i],
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
