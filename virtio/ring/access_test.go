package ring_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// TestAccess: a device behind an IOMMU does not take a chain that it may not read, or
// not write, and says which; with a memory that allows it the chain comes.
func TestAccess(t *testing.T) {
	const rings, only, size = 0x1000, 0x100000, 8
	for _, packed := range []virtio.Features{0, virtio.FeatureRingPacked} {
		for _, write := range []bool{false, true} {
			f := virtio.FeatureVersion1 | virtio.FeatureAccessPlatform | packed
			both, buffer := make([]byte, 0x4000), make([]byte, 4096)
			memory := func(a shm.Access) *shm.Memory {
				m, err := shm.NewMemory([]shm.Region{{GPA: rings, Mem: both}, {GPA: only, Mem: buffer, Access: a}})
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			right, wrong := shm.AccessRead, shm.AccessWrite
			if write {
				right, wrong = wrong, right
			}
			cfg := ring.Config{Size: size, Features: f, Base: ring.StartBase(f), Desc: rings, Avail: rings + 0x1000, Used: rings + 0x2000}
			drv, err := ring.NewDriver(memory(0), cfg)
			if err != nil {
				t.Fatal(err)
			}
			dev, err := ring.NewDevice(memory(wrong), cfg)
			if err != nil {
				t.Fatal(err)
			}
			var out, in []ring.Buf
			if write {
				in = []ring.Buf{{Addr: only, Len: 100}}
			} else {
				out = []ring.Buf{{Addr: only, Len: 100}}
			}
			if err := drv.Add(out, in, 1); err != nil {
				t.Fatal(err)
			}
			drv.Publish()
			var b ring.Batch
			var c ring.Chain
			if n := dev.NextBatch(&b, 8, write); n != 0 {
				t.Errorf("packed %v, write %v: %d chains in a batch", packed != 0, write, n)
			}
			if ok, err := dev.Next(&c); ok || err != nil {
				t.Errorf("packed %v, write %v: taken %v, %v", packed != 0, write, ok, err)
			}
			if m, ok := dev.Missing(); !ok || m != (ring.Missing{Addr: only, Write: write}) {
				t.Errorf("packed %v, write %v: missing %+v, %v", packed != 0, write, m, ok)
			}
			if err := dev.SetMemory(memory(right)); err != nil {
				t.Fatal(err)
			}
			if ok, err := dev.Next(&c); !ok || err != nil || c.InLen+c.OutLen != 100 {
				t.Errorf("packed %v, write %v: taken %v, %v, %d bytes", packed != 0, write, ok, err, c.InLen+c.OutLen)
			}
		}
	}
}
