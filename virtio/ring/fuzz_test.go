package ring_test

import (
	"bytes"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// The fuzzed guest has 4 KiB of memory in two regions that lie next to each
// other, a ring of 16 entries in the first, and the rest for tables and data.
const (
	fuzzSize  = 16
	fuzzDesc  = 0
	fuzzAvail = 256
	fuzzUsed  = 320
	fuzzFree  = 512
	fuzzSplit = 2048
	fuzzEnd   = 4096
)

// fuzzDevice makes a device of an input: a byte of features and of what is recorded, a byte of the base,
// and the bytes of guest memory.
func fuzzDevice(t *testing.T, in []byte) (b []byte, d *ring.Device) {
	b = make([]byte, fuzzEnd)
	var flags, base byte
	if len(in) > 2 {
		flags, base = in[0], in[1]
		copy(b, in[2:])
	}
	mem := memory(t, shm.Region{GPA: 0, Mem: b[:fuzzSplit:fuzzSplit]},
		shm.Region{GPA: fuzzSplit, UVA: 1 << 40, Mem: b[fuzzSplit:]})
	cfg := ring.Config{
		Size: fuzzSize, Desc: fuzzDesc, Avail: fuzzAvail, Used: fuzzUsed,
		Base: uint32(base) * 257, BaseFromUsed: flags&4 != 0,
	}
	if flags&1 != 0 {
		cfg.Features |= virtio.FeatureIndirectDesc
	}
	if flags&2 != 0 {
		cfg.Features |= virtio.FeatureEventIdx
	}
	if flags&8 != 0 {
		cfg.Features |= virtio.FeatureRingPacked
		at := uint32(base%fuzzSize) | uint32(base>>7)<<15
		cfg.Base = at | at<<16
	}
	if flags&16 != 0 {
		cfg.Features |= virtio.FeatureInOrder
	}
	if flags&32 != 0 {
		cfg.Inflight = make([]byte, ring.InflightBytes(fuzzSize, cfg.Features))
	}
	if flags&64 != 0 {
		cfg.Log = ring.Log{Bitmap: make([]byte, 4), Ring: true, RingAddr: fuzzUsed}
	}
	d, err := ring.NewDevice(mem, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b, d
}

// checkFuzzChain checks that a chain which was accepted is one.
func checkFuzzChain(t *testing.T, c *ring.Chain) {
	var out, in uint32
	for _, b := range c.Out {
		out += uint32(len(b))
	}
	for _, b := range c.In {
		in += uint32(len(b))
	}
	switch {
	case out != c.OutLen, in != c.InLen:
		t.Fatalf("%d and %d bytes in %d and %d", out, in, c.OutLen, c.InLen)
	case c.Descs == 0, c.Descs > fuzzSize+fuzzEnd/16, len(c.Out)+len(c.In) < c.Descs:
		t.Fatalf("%d descriptors, %d buffers", c.Descs, len(c.Out)+len(c.In))
	case c.Head >= fuzzSize:
		t.Fatalf("head %d", c.Head)
	}
}

// FuzzDevice takes its input for guest memory, and for what the device and a
// guest that scribbles do: whatever the bytes, nothing panics, no chain reaches
// beyond memory, no more chains than the queue size are out, and the device
// writes the used ring and nothing else; of a packed ring, the descriptors and its
// event structure.
func FuzzDevice(f *testing.F) {
	f.Add([]byte{3, 0}, []byte{0, 1, 2, 3, 4, 5, 6, 7})
	for _, flags := range []byte{8, 9, 11, 27, 59, 123} {
		f.Add(append([]byte{flags, 0x80}, packedSeed()...), []byte{0, 0, 0, 2, 4, 5, 0, 1, 2, 3, 4, 6, 0, 2, 4, 7, 0, 0, 0, 2, 2, 2, 2, 4})
	}
	f.Fuzz(func(t *testing.T, memory, ops []byte) {
		b, d := fuzzDevice(t, memory)
		var c ring.Chain
		var heads []uint16
		for i, op := range ops {
			if i > 4096 {
				break
			}
			before := bytes.Clone(b)
			heads = fuzzStep(t, d, &c, heads, op)
			if int(d.InFlight()) != len(heads) || len(heads) > fuzzSize {
				t.Fatalf("%d chains in flight, %d taken", d.InFlight(), len(heads))
			}
			if !bytes.Equal(without(d, b), without(d, before)) {
				t.Fatalf("operation %d wrote outside the used ring", op)
			}
			if op >= 128 && i+2 < len(ops) { // the guest writes, anywhere
				b[(int(ops[i+1])<<8|int(ops[i+2]))%fuzzEnd] = op
			}
		}
	})
}

// without is the guest memory without what a device may write.
func without(d *ring.Device, b []byte) []byte {
	b = bytes.Clone(b)
	if d.Packed() {
		clear(b[fuzzDesc : fuzzDesc+16*fuzzSize])
		clear(b[fuzzUsed : fuzzUsed+4])
		return b
	}
	clear(b[fuzzUsed : fuzzUsed+6+8*fuzzSize])
	return b
}

// packedSeed is guest memory with a packed ring: a plain chain, one of three
// descriptors, one with a table, a bad one, and one that a device breaks over.
func packedSeed() []byte {
	b := make([]byte, fuzzEnd)
	for i, d := range []pdesc{
		{fuzzFree, 64, 1, fAvail}, {fuzzFree, 8, 2, fAvail | fNext}, {fuzzSplit - 4, 8, 2, fAvail | fNext},
		{fuzzFree, 16, 2, fAvail | fWrite}, {fuzzFree + 256, 32, 3, fAvail | fIndirect}, {fuzzEnd, 1, 4, fAvail},
		{fuzzFree, 9, 5, fAvail | fWrite}, {fuzzFree, 9, 5, fAvail | fNext}, {fuzzFree, 9, 5, 0},
	} {
		putDesc(b[fuzzDesc+16*i:], d)
	}
	putDesc(b[fuzzFree+256:], pdesc{fuzzFree, 12, 0, 0})
	putDesc(b[fuzzFree+272:], pdesc{fuzzFree + 512, 100, 0, fWrite})
	return b
}

func putDesc(b []byte, d pdesc) {
	le.PutUint64(b, d.addr)
	le.PutUint32(b[8:], d.len)
	le.PutUint16(b[12:], d.id)
	le.PutUint16(b[14:], d.flags)
}

// fuzzStep does what op says and returns the heads of the chains that are out.
func fuzzStep(t *testing.T, d *ring.Device, c *ring.Chain, heads []uint16, op byte) []uint16 {
	switch op % 8 {
	case 0, 1:
		ok, err := d.Next(c)
		if ok && err == nil {
			checkFuzzChain(t, c)
		}
		if fault, is := err.(ring.Fault); err != nil && (!is || fault == 0 || fault >= ring.NumFaults) {
			t.Fatalf("error %v", err)
		}
		if c.HasHead != (ok || err != nil && err != error(ring.ErrAvailJump) && err != error(ring.ErrWrap)) {
			t.Fatalf("%v, %v, HasHead %v", ok, err, c.HasHead)
		}
		if c.HasHead {
			heads = append(heads, c.Head)
		}
	case 2, 3:
		if len(heads) > 0 {
			d.Push(heads[0], uint32(op))
			heads = heads[1:]
		}
	case 4:
		d.Publish()
		d.NeedCall()
	case 5:
		if len(heads) > 0 {
			d.Unget(1)
			heads = heads[:len(heads)-1]
		}
	case 6:
		if d.EnableKicks() && d.Pending() == 0 {
			t.Fatal("more, but nothing pending")
		}
	default:
		d.DisableKicks()
	}
	return heads
}

// FuzzDriver lets a device scribble over the ring of a driver: nothing panics,
// and slots are not invented.
func FuzzDriver(f *testing.F) {
	f.Add(byte(3), []byte{0, 1, 2, 3, 0, 130, 1, 66, 129, 7})
	for flags := range byte(16) { // used elements of either layout
		f.Add(flags, []byte{0, 0, 1, 129, 7, 131, 161, 3, 3, 4, 0, 1, 129, 15, 3, 5, 128, 16, 3, 7})
	}
	f.Fuzz(func(t *testing.T, flags byte, ops []byte) {
		b := make([]byte, 1<<16)
		mem := memory(t, shm.Region{GPA: 0, Mem: b})
		cfg := ring.Config{Size: fuzzSize, Desc: fuzzDesc, Avail: fuzzAvail, Used: fuzzUsed, IndirectBase: fuzzEnd}
		if flags&1 != 0 {
			cfg.Features |= virtio.FeatureIndirectDesc
		}
		if flags&2 != 0 {
			cfg.Features |= virtio.FeatureEventIdx
		}
		if flags&4 != 0 {
			cfg.Features |= virtio.FeatureRingPacked
		}
		if flags&8 != 0 {
			cfg.Features |= virtio.FeatureInOrder
		}
		cfg.Base = ring.StartBase(cfg.Features)
		q, err := ring.NewDriver(mem, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i, op := range ops {
			if op >= 128 && i+1 < len(ops) { // the device writes, anywhere in the rings
				b[int(ops[i+1])*2+int(op&1)] = op & 127
				continue
			}
			fuzzDriverStep(t, q, op)
		}
	})
}

func fuzzDriverStep(t *testing.T, q *ring.Driver, op byte) {
	switch op % 8 {
	case 0:
		n := int(op/8)%3 + 1
		before := q.Free()
		if err := q.Add(make([]ring.Buf, n), nil, 7); err == nil && q.Free() >= before {
			t.Fatal("a chain without a slot")
		}
	case 1:
		q.Publish()
	case 2:
		q.NeedKick()
	case 3:
		if token, _, ok := q.Reap(); ok && token != 7 {
			t.Fatalf("token %d", token)
		}
	case 4:
		q.EnableCalls()
	case 5:
		q.EnableCallsDelayed()
	case 6:
		q.DisableCalls()
	case 7:
		q.DetachUnused()
	}
	if q.Free() < 0 || q.Free() > fuzzSize || q.Outstanding() > fuzzSize {
		t.Fatalf("%d slots free, %d outstanding", q.Free(), q.Outstanding())
	}
}
