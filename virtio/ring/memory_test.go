package ring_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// A started ring moves to another mapping of the same guest addresses and goes
// on there, chains that are out included.
func TestFault025MemoryTableWhileRunning(t *testing.T) {
	w := newWorld(t, 8, eventIdx)
	w.add(3)
	w.take()
	old := w.b
	w.b = bytes.Clone(old)
	w.mem = memory(t, shm.Region{GPA: memBase, UVA: 5 << 30, Mem: w.b})
	if err := w.dev.SetMemory(w.mem); err != nil {
		t.Fatal(err)
	}
	clear(old) // the old mapping is gone
	w.dev.Push(w.c.Head, 0)
	w.dev.Publish()
	copy(w.data(0, 3), "new")
	if w.take(); string(w.c.Out[0][:3]) != "new" {
		t.Errorf("buffer of the old mapping: %q", w.c.Out[0][:3])
	}
	if id, _ := w.usedElem(0); id != 0 || w.dev.NextAvail() != 2 || w.dev.UsedIdx() != 1 {
		t.Errorf("used %d, indices %d, %d", id, w.dev.NextAvail(), w.dev.UsedIdx())
	}
}

func TestFault026BadMemoryTable(t *testing.T) {
	w := newWorld(t, 8, 0)
	w.add(2)
	w.take()
	half := memory(t, shm.Region{GPA: memBase, Mem: w.b[:availAt-memBase]})
	if err := w.dev.SetMemory(half); !errors.Is(err, shm.ErrUnmapped) {
		t.Fatalf("SetMemory: %v", err)
	}
	if err := w.dev.SetMemory(nil); !errors.Is(err, shm.ErrUnmapped) {
		t.Fatalf("SetMemory of nothing: %v", err)
	}
	w.take() // the old table is still in use
}

// A buffer crosses the border of two regions that only the guest sees as one.
func TestFault035BufferAcrossRegions(t *testing.T) {
	for name, tc := range map[string]struct {
		gap  uint64
		want error
	}{
		"adjacent": {0, nil},
		"gap":      {1, ring.ErrBadAddress},
	} {
		for _, flags := range []uint16{0, fWrite} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, 8, 0)
				second := make([]byte, 4096)
				mem := memory(t, shm.Region{GPA: memBase, Mem: w.b},
					shm.Region{GPA: end + tc.gap, UVA: 1 << 40, Mem: second})
				if err := w.dev.SetMemory(mem); err != nil {
					t.Fatal(err)
				}
				w.b[memSize-1] = 'x'
				copy(second, "yz")
				w.setDesc(descAt, 0, desc{end - 1, 3, flags, 0})
				w.offer(0)
				ok, err := w.dev.Next(&w.c)
				if err != tc.want {
					t.Fatalf("Next: %v", err)
				}
				got := string(bytes.Join(append(w.c.Out, w.c.In...), nil))
				if ok && (got != "xyz" || w.c.OutLen+w.c.InLen != 3 || w.c.Descs != 1) {
					t.Errorf("%q in %+v", got, w.c)
				}
			})
		}
	}
}

// A ring part that begins in a region and ends beyond it is refused, even if the
// next region goes on there.
func TestFault037RingBeyondRegion(t *testing.T) {
	w := newWorld(t, 256, 0)
	mem := memory(t, shm.Region{GPA: memBase, Mem: w.b},
		shm.Region{GPA: end, UVA: 1 << 40, Mem: make([]byte, 1<<16)})
	need := ring.BytesNeeded(256)
	for name, set := range map[string]func(*ring.Config, uint64){
		"desc":  func(c *ring.Config, off uint64) { c.Desc = end - need.Desc + off },
		"avail": func(c *ring.Config, off uint64) { c.Avail = end - need.Avail + off },
		"used":  func(c *ring.Config, off uint64) { c.Used = (end - need.Used + off) &^ 3 },
	} {
		cfg := w.cfg
		set(&cfg, 16)
		if _, err := ring.NewDevice(mem, cfg); !errors.Is(err, shm.ErrUnmapped) {
			t.Errorf("%s beyond its region: %v", name, err)
		}
		set(&cfg, 0)
		if _, err := ring.NewDevice(mem, cfg); err != nil {
			t.Errorf("%s at the end of its region: %v", name, err)
		}
	}
	cfg := w.cfg
	cfg.Size, cfg.Desc, cfg.Avail, cfg.Used = 1024, memBase+16, memBase+3*4096-2, memBase+8*4096-4
	if _, err := ring.NewDevice(w.mem, cfg); err != nil {
		t.Errorf("ring across pages: %v", err)
	}
}

func TestFault038RingUnmapped(t *testing.T) {
	w := newWorld(t, 8, 0)
	cfg := w.cfg
	cfg.Used = 1 << 40
	if _, err := ring.NewDevice(w.mem, cfg); !errors.Is(err, shm.ErrUnmapped) {
		t.Errorf("NewDevice: %v", err)
	}
	if _, err := ring.NewDevice(nil, cfg); !errors.Is(err, shm.ErrUnmapped) {
		t.Errorf("NewDevice without memory: %v", err)
	}
}

// The mapping itself can be at an odd address, which no guest address shows.
func TestMisalignedMapping(t *testing.T) {
	w := newWorld(t, 8, 0)
	for off := range 8 {
		mem := memory(t, shm.Region{GPA: memBase, Mem: make([]byte, memSize+8)[off:]})
		_, err := ring.NewDevice(mem, w.cfg)
		if (off == 0) != (err == nil) || (err != nil && !errors.Is(err, ring.ErrMisplaced)) {
			t.Errorf("mapping at offset %d: %v", off, err)
		}
	}
}
