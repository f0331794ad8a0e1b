package ring

import (
	"math"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// Device is the device's side of a split ring. It is not safe for concurrent
// use; the guest's side may run at the same time.
type Device struct {
	parts
	cursor   shm.Cursor
	maxBytes uint32
	mask     uint16
	indirect bool
	eventIdx bool
	broken   bool

	seen  uint16 // avail.idx as last read
	next  uint16 // available entries taken, modulo 2^16
	used  uint16 // used elements written, staged ones included
	shown uint16 // used.idx
	out   uint16 // chains taken and not pushed

	signalled uint16 // used.idx when NeedCall was last asked
	recalls   bool   // signalled is to be trusted
	news      bool   // something was published since

	cfg Config
}

// NewDevice lays a Device over a ring that the driver has set up. It writes to
// guest memory: kicks are wanted from the start, whatever an earlier device left
// there. It takes the used index from memory, and the available one from
// cfg.Base or, with BaseFromUsed, from the used index. The caller must look at
// the ring once without a kick, since the driver may have kicked before. The
// error wraps ErrSize, ErrMisplaced or shm.ErrUnmapped.
func NewDevice(mem *shm.Memory, cfg Config) (*Device, error) {
	p, err := cfg.place(mem)
	if err != nil {
		return nil, err
	}
	if cfg.MaxChainBytes == 0 {
		cfg.MaxChainBytes = math.MaxUint32
	}
	d := &Device{
		parts: p, cursor: shm.NewCursor(mem), cfg: cfg,
		maxBytes: cfg.MaxChainBytes, mask: cfg.Size - 1,
		indirect: cfg.Features.Has(virtio.FeatureIndirectDesc),
		eventIdx: cfg.Features.Has(virtio.FeatureEventIdx),
		next:     cfg.Base,
	}
	d.used = shm.Load16(d.usedIdx)
	d.shown, d.signalled = d.used, d.used
	if cfg.BaseFromUsed {
		d.next = d.used
	}
	d.seen = d.next
	shm.Store16(d.usedFlags, 0)
	d.EnableKicks()
	return d, nil
}

// SetMemory moves the ring to another memory, at the same guest addresses: a
// memory table that changes while the ring runs. Indices stay. Chains that are
// out still refer to the old memory, which must stay mapped until they are
// pushed. On an error, of NewDevice's kinds, nothing changes.
func (d *Device) SetMemory(mem *shm.Memory) error {
	p, err := d.cfg.place(mem)
	if err != nil {
		return err
	}
	d.parts, d.cursor = p, shm.NewCursor(mem)
	return nil
}

// Size returns the queue size.
func (d *Device) Size() uint16 { return d.cfg.Size }

// NextAvail returns the index of the available entry that Next takes next: what
// GET_VRING_BASE answers.
func (d *Device) NextAvail() uint16 { return d.next }

// UsedIdx returns the published used index.
func (d *Device) UsedIdx() uint16 { return d.shown }

// Staged returns the used elements that Push wrote and Publish has not shown.
func (d *Device) Staged() uint16 { return d.used - d.shown }

// InFlight returns the number of chains taken and not yet pushed. It never
// exceeds the queue size, whatever the guest does.
func (d *Device) InFlight() uint16 { return d.out }

// Broken reports whether the guest's indices stopped making sense; Next then
// answers ErrAvailJump for good.
func (d *Device) Broken() bool { return d.broken }

// Next takes the next available chain into c and returns true, or false without
// an error if there is none. With an error, a Fault, ok is false: if c.HasHead,
// a chain was taken whose buffers are not to be used, and the caller gives it
// back by Push(c.Head, 0); else the ring is broken.
//
// A head that is not below the queue size (ErrHead) is given back like others:
// it is the driver's own number.
func (d *Device) Next(c *Chain) (ok bool, err error) {
	c.reset()
	if d.next == d.seen {
		if more, f := d.look(); f != 0 {
			return false, f
		} else if !more {
			return false, nil
		}
	}
	c.Head = shm.Load16(&d.availRing[d.next&d.mask])
	c.HasHead = true
	d.next++
	d.out++
	if f := d.walk(c, c.Head); f != 0 {
		return false, f
	}
	return true, nil
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
	if uint32(n)+uint32(d.out)+uint32(d.Staged()) > uint32(d.cfg.Size) {
		d.broken = true
		return false, ErrAvailJump
	}
	d.seen = idx
	shm.Acquire()
	return true, 0
}

// Unget puts the n chains that were taken last back, to be taken again in the
// same order. None of them may have been pushed.
func (d *Device) Unget(n uint16) {
	if n > d.out {
		panic("ring: more chains put back than are out")
	}
	d.next -= n
	d.out -= n
}

// Push gives a chain back, of whose writable buffers the device wrote the first
// n bytes. The driver sees it at the next Publish. Any order is allowed.
func (d *Device) Push(head uint16, n uint32) {
	if d.out == 0 {
		panic("ring: a chain pushed that was not taken")
	}
	shm.StorePair32(&d.usedRing[d.used&d.mask], uint32(head), n)
	d.used++
	d.out--
}

// Publish shows the staged elements to the driver, by one store of the used
// index, and returns their number.
func (d *Device) Publish() (staged uint16) {
	staged = d.Staged()
	if staged == 0 {
		return 0
	}
	shm.Release()
	d.shown = d.used
	shm.Store16(d.usedIdx, d.shown)
	d.news = true
	if d.shown-d.signalled < staged {
		d.recalls = false // 2^16 elements since NeedCall was asked
	}
	return staged
}

// Pending returns how many chains can be taken, having read avail.idx; more than
// the queue size is reported as the queue size, and Next finds the fault.
func (d *Device) Pending() uint16 {
	if d.broken {
		return 0
	}
	return min(shm.Load16(d.availIdx)-d.next, d.cfg.Size)
}
