package ring

import "github.com/vnetbench/vnetbench/virtio/shm"

// walkPacked reads the chain at the next position into c, and returns the driver's
// number for it and the descriptors that it takes. It walks a chain to its end
// although it has found a fault, since the next one begins behind. If it cannot
// tell where that is, the ring is broken.
func (d *Device) walkPacked(c *Chain) (id, n uint16, f Fault) {
	at := d.pk.next
	room := uint32(d.size) - d.pk.slots
	for {
		addr, w := shm.LoadPair64(&d.ring[at.off])
		switch {
		case uint32(n) >= room:
			d.broken = true
			return 0, 0, ErrAvailJump
		case n > 0 && w&bothFlags != at.availFlags():
			d.broken = true
			return 0, 0, ErrWrap
		}
		n++
		if f == 0 {
			f = d.addPacked(c, addr, w, n)
		}
		if w&(descNext<<flagShift) == 0 {
			return uint16(w >> 32), n, f
		}
		at = at.on(1, d.size)
	}
}

// addPacked appends what descriptor n of a chain, counted from 1, says. A chain
// with an indirect table is that descriptor alone (virtio 1.3 §2.8.19).
func (d *Device) addPacked(c *Chain, addr, w uint64, n uint16) Fault {
	const indirect, next = descIndirect << flagShift, descNext << flagShift
	if w&indirect == 0 {
		return d.add(c, addr, uint32(w), w&(descWrite<<flagShift) != 0)
	}
	if d.indirect && (n > 1 || w&next != 0) {
		return ErrIndirectNext
	}
	return d.walkTable(c, addr, uint32(w))
}

// walkTable reads the indirect table of a packed ring, whose entries are all of
// the chain, in their order; WRITE is their only flag.
func (d *Device) walkTable(c *Chain, addr uint64, bytes uint32) Fault {
	table, f := d.table(addr, bytes)
	if f != 0 {
		return f
	}
	c.IndirectTables = 1
	for ; len(table) >= 16; table = table[16:] {
		addr, w := shm.Load64At(table, 0), shm.Load64At(table, 8)
		if w&(descIndirect<<flagShift) != 0 {
			return ErrIndirectNested
		}
		if f := d.add(c, addr, uint32(w), w&(descWrite<<flagShift) != 0); f != 0 {
			return f
		}
	}
	return 0
}
