package ring

import (
	"math"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// Device is the device's side of a ring. It is not safe for concurrent use; the
// guest's side may run at the same time.
type Device struct {
	parts                  // of a split ring
	packedParts            // of a packed one
	reads       shm.Cursor // into what may be read
	writes      shm.Cursor // into what may be written
	maxBytes    uint32
	size        uint16
	mask        uint16 // of a split ring
	packed      bool
	indirect    bool

	translates bool // addresses need a translation, which may come later
	wants      bool // one is wanted: missing
	missing    Missing

	eventIdx bool
	serial   bool // no other goroutine has the driver's side
	broken   bool

	seen   uint16 // avail.idx as last read; split
	next   uint16 // chains taken, modulo 2^16; split: the index of the next available entry
	used   uint16 // used elements written, staged ones included; split: as the used index counts
	shown  uint16 // of these, published
	out    uint16 // chains taken and not pushed
	pushed uint16 // of these, none: pushed and waiting for their turn; only IN_ORDER

	signalled uint16 // shown when NeedCall was last asked
	recalls   bool   // signalled is to be trusted
	news      bool   // something was published since

	pk    packedState
	track *tracker  // what is known of each chain; nil for a split ring that needs none of it
	fl    *flight   // record of chains in flight, nil without
	dirty *dirtyLog // nil without

	cfg Config
}

// NewDevice lays a Device over a ring that the driver has set up. It writes to
// guest memory: kicks are wanted from the start, whatever an earlier device left
// there. It takes the used index from memory (packed: from cfg.Base), and the
// available one from cfg.Base or, with BaseFromUsed, from the used index. With
// cfg.Inflight it goes on where the device left off that wrote it. The caller must
// look at the ring once without a kick, since the driver may have kicked before.
// The error wraps ErrSize, ErrMisplaced, ErrBase, ErrInflight, ErrLog or
// shm.ErrUnmapped.
func NewDevice(mem *shm.Memory, cfg Config) (*Device, error) {
	if cfg.MaxChainBytes == 0 {
		cfg.MaxChainBytes = math.MaxUint32
	}
	d := &Device{
		cfg: cfg, size: cfg.Size, mask: cfg.Size - 1, maxBytes: cfg.MaxChainBytes,
		packed:   cfg.Packed(),
		indirect: cfg.Features.Has(virtio.FeatureIndirectDesc),

		translates: cfg.Features.Has(virtio.FeatureAccessPlatform),

		eventIdx: cfg.Features.Has(virtio.FeatureEventIdx),
		serial:   cfg.Serial,
	}
	if err := d.SetMemory(mem); err != nil {
		return nil, err
	}
	if err := d.SetLog(cfg.Log); err != nil {
		return nil, err
	}
	d.newTracker()
	start := d.startSplit
	if d.packed {
		start = d.startPacked
	}
	if err := start(); err != nil {
		return nil, err
	}
	return d, nil
}

// startSplit takes the indices from memory and from the configuration.
func (d *Device) startSplit() error {
	d.used = shm.Load16(d.usedIdx)
	d.shown, d.signalled = d.used, d.used
	d.next = uint16(d.cfg.Base)
	if d.cfg.BaseFromUsed {
		d.next = d.used
	}
	if err := d.recoverSplit(); err != nil {
		return err
	}
	d.seen = d.next
	shm.Store16(d.usedFlags, 0)
	d.logUsed(0, 2)
	d.EnableKicks()
	return nil
}

// cursor is that into what may be read, or written.
func (d *Device) cursor(write bool) *shm.Cursor {
	if write {
		return &d.writes
	}
	return &d.reads
}

// SetMemory moves the ring to another memory, at the same guest addresses: a
// memory table that changes while the ring runs. Indices stay. Chains that are
// out still refer to the old memory, which must stay mapped until they are
// pushed. On an error, of NewDevice's kinds, nothing changes.
func (d *Device) SetMemory(mem *shm.Memory) error {
	d.wants = false
	if d.packed {
		p, err := d.cfg.placePacked(mem)
		if err != nil {
			return err
		}
		d.packedParts = p
	} else {
		p, err := d.cfg.place(mem)
		if err != nil {
			return err
		}
		d.parts = p
	}
	d.reads, d.writes = shm.NewCursor(mem.Readable()), shm.NewCursor(mem.Writable())
	return nil
}

// Size returns the queue size.
func (d *Device) Size() uint16 { return d.size }

// Packed reports whether the ring is a packed one.
func (d *Device) Packed() bool { return d.packed }

// Base returns where the ring would go on, in the form of Config.Base: what
// GET_VRING_BASE answers.
func (d *Device) Base() uint32 {
	if d.packed {
		return uint32(d.pk.next.word()) | uint32(d.pk.shown.word())<<16
	}
	return uint32(d.next)
}

// NextAvail counts the chains taken, less those put back, modulo 2^16. In a split
// ring that is the index of the available entry that Next takes next.
func (d *Device) NextAvail() uint16 { return d.next }

// UsedIdx counts the chains given back and published, modulo 2^16. In a split ring
// that is the used index.
func (d *Device) UsedIdx() uint16 { return d.shown }

// Staged returns the used elements that Push wrote and Publish has not shown.
func (d *Device) Staged() uint16 { return d.used - d.shown }

// InFlight returns the number of chains taken and not yet pushed. It never
// exceeds the queue size, whatever the guest does.
func (d *Device) InFlight() uint16 { return d.out }

// Broken reports whether the guest's indices stopped making sense; Next then
// answers a Fault that says so for good.
func (d *Device) Broken() bool { return d.broken }

// Next takes the next available chain into c and returns true, or false without
// an error if there is none. With an error, a Fault, ok is false: if c.HasHead,
// a chain was taken whose buffers are not to be used, and the caller gives it
// back by Push(c.Head, 0); else the ring is broken.
//
// A head that is not below the queue size (ErrHead) is given back like others:
// it is the driver's own number.
//
// With ACCESS_PLATFORM a chain that lies, in part, where the memory has nothing,
// or nothing that allows what the descriptor is for, is not taken: ok is false without an error, Missing says what is wanted, and so
// it stays until SetMemory.
func (d *Device) Next(c *Chain) (ok bool, err error) {
	if !d.translates {
		return d.nextOf(c)
	}
	if d.wants {
		c.reset()
		return false, nil
	}
	ok, err = d.nextOf(c)
	if d.wants && c.HasHead {
		d.Unget(1)
		c.reset()
		return false, nil
	}
	return ok, err
}

// nextOf is Next for a ring whose addresses are those of the memory.
func (d *Device) nextOf(c *Chain) (ok bool, err error) {
	c.reset()
	if d.fl != nil && d.fl.resubmits() {
		return d.resubmit(c)
	}
	if d.packed {
		return d.nextPacked(c)
	}
	if d.next == d.seen {
		if more, f := d.look(); f != 0 {
			return false, f
		} else if !more {
			return false, nil
		}
	}
	head := shm.Load16(&d.availRing[d.next&d.mask])
	d.next++
	f := d.walk(c, head)
	d.taken(c, head, f)
	if f != 0 {
		return false, f
	}
	return true, nil
}

// taken accounts the chain in c, a split ring's, that the driver knows as head.
func (d *Device) taken(c *Chain, head uint16, f Fault) {
	d.out++
	c.Head, c.HasHead = head, true
	if d.track != nil {
		c.Head = d.track.take(head, 1, f == 0 && c.InLen == 0)
		if d.fl != nil {
			d.fl.takeSplit(d.track.at(c.Head), head)
		}
	}
	if d.dirty != nil {
		d.dirty.keep(c.Head)
	}
}

// look reads avail.idx and reports whether there is something to take. The
// chains that the driver believes available or not yet given back must fit in
// the ring.
func (d *Device) look() (more bool, f Fault) {
	if d.broken {
		return false, ErrAvailJump
	}
	idx := shm.Load16(d.availIdx)
	n := idx - d.next
	if n == 0 {
		return false, 0
	}
	if uint32(n)+d.held() > uint32(d.size) {
		d.broken = true
		return false, ErrAvailJump
	}
	d.seen = idx
	shm.Acquire()
	return true, 0
}

// held counts the chains that the driver waits for.
func (d *Device) held() uint32 {
	n := uint32(d.out) + uint32(d.pushed) + uint32(d.Staged())
	if d.fl != nil {
		n += uint32(d.fl.left())
	}
	return n
}

// Unget puts the n chains that were taken last back, to be taken again in the
// same order. None of them may have been pushed.
func (d *Device) Unget(n uint16) {
	if n > d.out {
		panic("ring: more chains put back than are out")
	}
	d.out -= n
	if d.track != nil {
		d.ungetTracked(n)
		return
	}
	d.next -= n
}

// Push gives a chain back, of whose writable buffers the device wrote the first
// n bytes. The driver sees it at the next Publish. Any order is allowed; with
// IN_ORDER a chain waits until those taken before it were pushed.
func (d *Device) Push(head uint16, n uint32) {
	if d.out == 0 {
		panic("ring: a chain pushed that was not taken")
	}
	d.out--
	if d.dirty != nil {
		d.dirty.wrote(head, n)
	}
	if d.track != nil {
		d.pushTracked(head, n)
		return
	}
	shm.StorePair32(&d.usedRing[d.used&d.mask], uint32(head), n)
	d.used++
}

// PushAll is Push(head, 0) for each of the heads, in order.
func (d *Device) PushAll(heads []uint16) {
	if d.track != nil || d.dirty != nil {
		for _, head := range heads {
			d.Push(head, 0)
		}
		return
	}
	n := uint16(len(heads))
	if n > d.out {
		panic("ring: a chain pushed that was not taken")
	}
	for i, head := range heads {
		shm.StorePair32(&d.usedRing[(d.used+uint16(i))&d.mask], uint32(head), 0)
	}
	d.used += n
	d.out -= n
}

// Publish shows the staged elements to the driver, by one store of the used
// index, or in a packed ring of the first element's flags, and returns their
// number.
func (d *Device) Publish() (staged uint16) {
	staged = d.Staged()
	if staged == 0 {
		return 0
	}
	if d.packed {
		d.publishPacked()
	} else {
		d.publishSplit(staged)
	}
	d.news = true
	return staged
}

func (d *Device) publishSplit(staged uint16) {
	if d.track != nil {
		d.closeBatch()
	}
	if d.fl != nil {
		d.fl.stageSplit()
	}
	shm.Release()
	from := d.shown
	d.shown = d.used
	shm.Store16(d.usedIdx, d.shown)
	if d.dirty != nil {
		d.logElements(from, staged)
	}
	if d.fl != nil {
		d.fl.doneSplit(d.shown)
	}
	if d.shown-d.signalled < staged {
		d.recalls = false // 2^16 elements since NeedCall was asked
	}
}

// Pending returns how many chains can be taken, as far as the driver's index or
// descriptors say; more than the queue size is reported as the queue size, and
// Next finds the fault. In a packed ring each available chain is looked at once,
// however often it is asked.
func (d *Device) Pending() uint16 {
	again := uint16(0)
	if d.fl != nil {
		again = d.fl.left()
	}
	switch {
	case d.broken:
		return again
	case d.packed:
		return again + d.scan()
	}
	return again + min(shm.Load16(d.availIdx)-d.next, d.size)
}
