package ring

import "github.com/vnetbench/vnetbench/virtio/shm"

// maxDescs bounds the descriptors of a chain with an indirect table, and the
// pieces of its buffers: a next field cannot tell more of them apart.
const maxDescs = 1 << 16

// Chain is one descriptor chain as the device sees it. The caller owns it and
// passes it to Next again and again; its slices are reused. The buffers are
// guest memory, shared with the guest.
type Chain struct {
	// Head is what Push takes, below the queue size unless Next said ErrHead. In a
	// split ring without IN_ORDER and a record of chains in flight it is the number
	// of the first descriptor; else it is the Device's own number for the chain.
	Head    uint16
	HasHead bool // a chain was taken, so that Head has to be pushed

	Out, In        [][]byte // device-readable and -writable buffers, until the next Next
	OutLen, InLen  uint32   // bytes in them
	Descs          int      // descriptors walked, that of an indirect table not counted
	IndirectTables int      // 1 if the chain used one, else 0
}

func (c *Chain) reset() {
	c.HasHead = false
	c.Out, c.In = c.Out[:0], c.In[:0]
	c.OutLen, c.InLen, c.Descs, c.IndirectTables = 0, 0, 0, 0
}

// SetOut makes c the chain of one readable descriptor that a Batch has.
func (c *Chain) SetOut(head uint16, buf []byte) {
	c.Head, c.HasHead = head, true
	c.Out, c.In = append(c.Out[:0], buf), c.In[:0]
	c.OutLen, c.InLen, c.Descs, c.IndirectTables = uint32(len(buf)), 0, 1, 0
}

// walk reads the chain that starts at head into c.
func (d *Device) walk(c *Chain, head uint16) Fault {
	i, left := uint(head), len(d.desc)
	if i >= uint(len(d.desc)) {
		return ErrHead
	}
	for {
		addr, meta := shm.LoadPair64(&d.desc[i])
		if meta&(descIndirect<<32) != 0 {
			return d.walkIndirect(c, addr, meta)
		}
		if f := d.add(c, addr, uint32(meta), meta&(descWrite<<32) != 0); f != 0 {
			return f
		}
		if meta&(descNext<<32) == 0 {
			return 0
		}
		i = uint(meta >> 48)
		if i >= uint(len(d.desc)) {
			return ErrNext
		}
		if left--; left == 0 {
			return ErrLoop
		}
	}
}

// walkIndirect reads the indirect table at addr, which ends the chain.
func (d *Device) walkIndirect(c *Chain, addr, meta uint64) Fault {
	if meta&(descNext<<32) != 0 && d.indirect {
		return ErrIndirectNext
	}
	table, f := d.table(addr, uint32(meta))
	if f != 0 {
		return f
	}
	c.IndirectTables = 1
	n := uint64(len(table)) / 16
	left := min(int(n), maxDescs-c.Descs)
	for i := uint64(0); ; {
		entry := (*[16]byte)(table[i*16:])
		addr, meta := shm.Load64At(entry[:], 0), shm.Load64At(entry[:], 8)
		if meta&(descIndirect<<32) != 0 {
			return ErrIndirectNested
		}
		if f := d.add(c, addr, uint32(meta), meta&(descWrite<<32) != 0); f != 0 {
			return f
		}
		if meta&(descNext<<32) == 0 {
			return 0
		}
		if i = meta >> 48; i >= n {
			return ErrNext
		}
		if left--; left == 0 {
			return ErrLoop
		}
	}
}

// table validates an indirect descriptor and returns its table. The WRITE flag
// means nothing there (virtio 1.3 §2.7.5.3.2, §2.8.19).
func (d *Device) table(addr uint64, bytes uint32) ([]byte, Fault) {
	n := uint64(bytes)
	switch {
	case !d.indirect:
		return nil, ErrIndirectOff
	case n == 0 || n%16 != 0 || n > 16*maxDescs:
		return nil, ErrIndirectLen
	case addr+n < addr:
		return nil, ErrAddrOverflow
	}
	b, ok := d.reads.Slice(addr, n)
	if !ok {
		d.miss(addr, n, false)
		return nil, ErrIndirectTable
	}
	return b, 0
}

// add appends the buffer of one descriptor.
func (d *Device) add(c *Chain, addr uint64, n uint32, write bool) Fault {
	c.Descs++
	if n == 0 {
		return ErrZeroLen
	}
	if uint64(c.OutLen)+uint64(c.InLen)+uint64(n) > uint64(d.maxBytes) {
		return ErrTooLong
	}
	cur := d.cursor(write)
	b, ok := cur.Near(addr, uint64(n))
	if !ok {
		if b, ok = cur.Slice(addr, uint64(n)); !ok {
			return d.addCrossing(c, addr, n, write)
		}
	}
	if write {
		if d.dirty != nil {
			d.dirty.note(addr, n)
		}
		c.In, c.InLen = append(c.In, b), c.InLen+n
		return 0
	}
	if len(c.In) > 0 {
		return ErrOrder
	}
	c.Out, c.OutLen = append(c.Out, b), c.OutLen+n
	return 0
}

// addCrossing appends a buffer that no single region holds.
func (d *Device) addCrossing(c *Chain, addr uint64, n uint32, write bool) (f Fault) {
	if addr+uint64(n) < addr {
		return ErrAddrOverflow
	}
	if !write && len(c.In) > 0 {
		return ErrOrder
	}
	var err error
	if write {
		if d.dirty != nil {
			d.dirty.note(addr, n)
		}
		c.In, err = d.writes.Memory().Append(c.In, addr, uint64(n))
		c.InLen += n
	} else {
		c.Out, err = d.reads.Memory().Append(c.Out, addr, uint64(n))
		c.OutLen += n
	}
	switch {
	case err != nil:
		d.miss(addr, uint64(n), write)
		return ErrBadAddress
	case len(c.Out)+len(c.In) > maxDescs:
		return ErrTooLong
	}
	return 0
}
