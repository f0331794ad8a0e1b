package ring_test

import (
	"bytes"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// taken is a chain as a device handed it out.
type taken struct {
	head     uint16
	out, in  int
	err      error
	first    byte // of its first buffer
	unusable bool
}

func ofChain(c *ring.Chain, err error) taken {
	t := taken{head: c.Head, out: int(c.OutLen), in: int(c.InLen), err: err}
	if err != nil {
		return taken{head: c.Head, err: err, unusable: true}
	}
	for _, b := range append(c.Out, c.In...) {
		t.first = b[0]
		break
	}
	return t
}

// drainOne takes everything by Next.
func drainOne(d *ring.Device) (all []taken) {
	var c ring.Chain
	for {
		ok, err := d.Next(&c)
		if !ok && !c.HasHead {
			return append(all, taken{err: err})
		}
		all = append(all, ofChain(&c, err))
	}
}

// drainBatch takes everything by NextBatch, and what that leaves by Next.
func drainBatch(d *ring.Device, limit int, write bool) (all []taken) {
	var c ring.Chain
	b := new(ring.Batch)
	for {
		for d.NextBatch(b, limit, write) > 0 {
			for i, buf := range b.Bufs[:b.N] {
				t := taken{head: b.Heads[i], out: len(buf), first: buf[0]}
				if write {
					t.out, t.in = 0, len(buf)
				}
				all = append(all, t)
			}
		}
		ok, err := d.Next(&c)
		if !ok && !c.HasHead {
			return append(all, taken{err: err})
		}
		all = append(all, ofChain(&c, err))
	}
}

// batchDevice makes a device over the bytes of guest memory in in; the first byte
// chooses features.
func batchDevice(t *testing.T, in []byte) (b []byte, d *ring.Device) {
	b = make([]byte, fuzzEnd)
	flags := byte(0)
	if len(in) > 1 {
		flags = in[0]
		copy(b, in[1:])
	}
	mem := memory(t, shm.Region{GPA: 0, Mem: b[:fuzzSplit:fuzzSplit]},
		shm.Region{GPA: fuzzSplit, UVA: 1 << 40, Mem: b[fuzzSplit:]})
	cfg := ring.Config{Size: fuzzSize, Desc: fuzzDesc, Avail: fuzzAvail, Used: fuzzUsed}
	for i, f := range []virtio.Features{
		virtio.FeatureIndirectDesc, virtio.FeatureEventIdx, virtio.FeatureInOrder, virtio.FeatureRingPacked,
	} {
		if flags>>i&1 != 0 {
			cfg.Features |= f
		}
	}
	if cfg.Packed() {
		cfg.Base = 0x8000_8000 + uint32(flags>>4)*0x1_0001
	}
	d, err := ring.NewDevice(mem, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b, d
}

// FuzzBatch takes its input for guest memory, as FuzzDevice does, and holds a
// device that takes chains in batches against one that takes each alone: same
// chains, same faults, same counts, and the same bytes when all are given back.
func FuzzBatch(f *testing.F) {
	f.Add([]byte{0, 0}, uint8(5), true)
	split, packed := make([]byte, fuzzEnd), make([]byte, fuzzEnd)
	for i := range 8 { // eight chains, of which one is writable and one has a successor
		desc := []byte{0, byte(i + 2), 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0}
		copy(split[16*i:], desc)
		split[fuzzAvail+4+2*i] = byte(i)
		desc[12], desc[14] = byte(i), 0x80
		copy(packed[16*i:], desc)
	}
	split[16*3+12], split[16*6+12] = 2, 1
	packed[16*3+14], packed[16*6+14] = 0x82, 0x81
	split[fuzzAvail+2] = 8
	for i, limit := range []uint8{0, 1, 3, 63} {
		f.Add(append([]byte{byte(i)}, split...), limit, false)
		f.Add(append([]byte{byte(i) | 4}, split...), limit, true)
		f.Add(append([]byte{byte(i) | 8}, packed...), limit, false)
	}
	f.Fuzz(func(t *testing.T, memory []byte, limit uint8, write bool) {
		m1, one := batchDevice(t, memory)
		m2, two := batchDevice(t, memory)
		want, got := drainOne(one), drainBatch(two, 1+int(limit)%ring.BatchMax, write)
		if len(want) != len(got) {
			t.Fatalf("%d chains in batches, %d alone", len(got), len(want))
		}
		var heads []uint16
		for i := range want {
			if want[i] != got[i] {
				t.Fatalf("chain %d: in a batch %+v, alone %+v", i, got[i], want[i])
			}
			if i < len(want)-1 { // the last is the end
				heads = append(heads, want[i].head)
			}
		}
		if one.InFlight() != two.InFlight() || one.NextAvail() != two.NextAvail() || one.Pending() != two.Pending() {
			t.Fatal("the devices differ")
		}
		for _, h := range heads {
			one.Push(h, 0)
		}
		two.PushAll(heads)
		if one.Publish() != two.Publish() || !bytes.Equal(m1, m2) {
			t.Fatal("the devices wrote different things")
		}
	})
}

// TestBatch takes 100 chains in batches, puts some back, and gives all back.
func TestBatch(t *testing.T) {
	w := newWorld(t, 128, 0)
	w.add(100)
	b := new(ring.Batch)
	if n := w.dev.NextBatch(b, 1000, false); n != ring.BatchMax || n != b.N {
		t.Fatalf("%d of 100 chains taken", n)
	}
	w.dev.Unget(4)
	for _, h := range b.Heads[:60] {
		w.dev.Push(h, 0)
	}
	if n := w.dev.NextBatch(b, 10, true); n != 0 {
		t.Fatalf("%d readable chains taken as writable", n)
	}
	for left := 40; left > 0; left -= b.N {
		if w.dev.NextBatch(b, 10, false) != 10 {
			t.Fatalf("%d chains taken of %d", b.N, left)
		}
		for _, h := range b.Heads[:b.N] {
			w.dev.Push(h, 0)
		}
	}
	w.dev.Publish()
	w.reap(100)
	if n := w.dev.NextBatch(b, 10, false); n != 0 {
		t.Fatalf("%d chains of an empty ring", n)
	}
}

func TestBatchAllocs(t *testing.T) {
	w := newWorld(t, 128, 0)
	b := new(ring.Batch)
	round := func() {
		w.add(64)
		w.dev.NextBatch(b, 64, false)
		for _, h := range b.Heads[:b.N] {
			w.dev.Push(h, 0)
		}
		w.dev.Publish()
		w.reap(64)
	}
	base := testing.AllocsPerRun(20, func() { w.add(64); w.serve(64); w.reap(64) })
	if n := testing.AllocsPerRun(20, round); n > base {
		t.Errorf("%v allocations for 64 chains in a batch, %v alone", n, base)
	}
}
