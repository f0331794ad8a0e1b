package ring

import "github.com/vnetbench/vnetbench/virtio/shm"

// packedState is where a Device is in a packed ring.
type packedState struct {
	next  spot   // the next available descriptor
	used  spot   // where the next used element goes
	shown spot   // used at the last Publish
	slots uint32 // descriptors of chains that were taken and whose used element is not published

	edge   spot   // how far Pending has looked
	ahead  uint16 // chains from next to edge
	extent uint32 // descriptors there

	// The first element of what is staged is written by Publish, and the driver,
	// which goes from one element to the next, sees none before.
	first     spot
	firstWord uint64
	held      bool   // there is one
	since     uint32 // descriptors published since NeedCall was asked
}

// startPacked takes both positions from the configuration.
func (d *Device) startPacked() error {
	p := &d.pk
	if d.cfg.Base == 0 && d.cfg.ZeroIsStart && shm.Load64(&d.ring[0][1])&(packedUsed<<flagShift) == 0 {
		d.cfg.Base = StartBase(d.cfg.Features)
	}
	avail, used, err := d.cfg.startSpots()
	if err != nil {
		return err
	}
	if d.cfg.BaseFromUsed {
		avail = used
	}
	p.next, p.used = avail, used
	if err := d.recoverPacked(); err != nil {
		return err
	}
	p.shown, p.edge = p.used, p.next
	p.slots = p.used.until(p.next, d.size)
	d.EnableKicks()
	return nil
}

// availableAt reports whether the descriptor at s is available.
func (d *Device) availableAt(s spot) bool {
	return shm.Load64(&d.ring[s.off][1])&bothFlags == s.availFlags()
}

// nextPacked takes the chain at the next position, if it is available.
func (d *Device) nextPacked(c *Chain) (ok bool, err error) {
	p := &d.pk
	if d.broken {
		return false, ErrAvailJump
	}
	if !d.availableAt(p.next) {
		return false, nil
	}
	shm.Acquire()
	id, n, f := d.walkPacked(c)
	if d.broken {
		return false, f
	}
	at := p.next
	d.out++
	d.next++
	p.next = at.on(n, d.size)
	p.slots += uint32(n)
	d.look1(n)
	c.Head, c.HasHead = d.track.take(id, n, f == 0 && c.InLen == 0), true
	if d.fl != nil {
		d.takePacked(d.track.at(c.Head), at)
	}
	if d.dirty != nil {
		d.dirty.keep(c.Head)
	}
	if f != 0 {
		return false, f
	}
	return true, nil
}

// look1 takes a chain of n descriptors off what Pending has seen.
func (d *Device) look1(n uint16) {
	p := &d.pk
	if p.ahead <= 1 || p.extent < uint32(n) {
		p.edge, p.ahead, p.extent = p.next, 0, 0
		return
	}
	p.ahead--
	p.extent -= uint32(n)
}

// scan looks for available chains beyond those that were seen before, and returns
// how many can be taken.
func (d *Device) scan() uint16 {
	p := &d.pk
	for room := uint32(d.size) - p.slots; p.extent < room && d.availableAt(p.edge); p.ahead++ {
		for more := true; more && p.extent < room; p.extent++ {
			more = shm.Load64(&d.ring[p.edge.off][1])&(descNext<<flagShift) != 0
			p.edge = p.edge.on(1, d.size)
		}
	}
	return p.ahead
}

// ungetPacked undoes the taking of a chain of n descriptors.
func (d *Device) ungetPacked(n uint16) {
	p := &d.pk
	p.next = p.next.back(n, d.size)
	p.slots -= uint32(n)
	p.ahead++
	p.extent += uint32(n)
}

// stagePacked writes a used element, w without its flags, at s.
func (d *Device) stagePacked(s spot, w uint64) {
	p := &d.pk
	w |= s.usedFlags()
	if !p.held {
		p.first, p.firstWord, p.held = s, w, true
		return
	}
	shm.Store64(&d.ring[s.off][1], w)
}

// publishPacked shows what is staged by the flags of its first element.
func (d *Device) publishPacked() {
	p := &d.pk
	d.closeBatch()
	n := p.shown.until(p.used, d.size)
	if n == 0 {
		n = uint32(d.size)
	}
	if d.fl != nil {
		d.fl.stagePacked(p.used, p.shown)
	}
	shm.Release()
	shm.Store64(&d.ring[p.first.off][1], p.firstWord)
	p.held = false
	if d.dirty != nil {
		d.logRing(p.shown, n)
	}
	if d.fl != nil {
		d.fl.donePacked(p.used)
	}
	p.shown = p.used
	p.slots -= n
	d.shown = d.used
	if p.since += n; p.since > uint32(d.size) {
		d.recalls, p.since = false, uint32(d.size)
	}
}
