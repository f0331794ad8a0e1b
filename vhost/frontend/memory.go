package frontend

import (
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// Memory is a guest's memory: regions of memory files, mapped here, whose
// descriptors a back-end is sent.
type Memory struct {
	regions []wire.Region
	fds     []int
	maps    []*osio.Mapping
	mem     *shm.Memory
	top     uint64 // what Alloc has given out, as a guest physical address
}

// NewMemory returns a memory of one region of size bytes at gpa.
func NewMemory(gpa, size uint64) (*Memory, error) {
	fd, err := osio.Memfd("guest", int64(size))
	if err != nil {
		return nil, err
	}
	return NewMemoryOf(fd, wire.Region{GPA: gpa, Size: size})
}

// NewMemoryOf returns a memory of one region of fd's file, which it takes over.
func NewMemoryOf(fd int, r wire.Region) (*Memory, error) {
	m := &Memory{top: r.GPA}
	if err := m.Add(fd, r); err != nil {
		return nil, err
	}
	return m, nil
}

// Add maps another region from fd, which it takes over. The region's UVA is
// where it is mapped; r's is ignored.
func (m *Memory) Add(fd int, r wire.Region) error {
	mp, err := osio.Map(fd, r.Offset, r.Size)
	if err != nil {
		osio.Close(fd)
		return err
	}
	r.UVA = mp.Addr()
	m.regions, m.fds, m.maps = append(m.regions, r), append(m.fds, fd), append(m.maps, mp)
	views := make([]shm.Region, len(m.regions))
	for i, r := range m.regions {
		views[i] = shm.Region{GPA: r.GPA, UVA: r.UVA, Mem: m.maps[i].Bytes()}
	}
	m.mem, err = shm.NewMemory(views)
	return err
}

// Shared is the memory as the rings see it.
func (m *Memory) Shared() *shm.Memory { return m.mem }

// Table returns the regions for SET_MEM_TABLE and their descriptors, which stay
// the memory's.
func (m *Memory) Table() (wire.MemTable, []int) { return wire.MemTable{Regions: m.regions}, m.fds }

// FD returns the descriptor of region i, which stays the memory's.
func (m *Memory) FD(i int) int { return m.fds[i] }

// Region returns region i.
func (m *Memory) Region(i int) wire.Region { return m.regions[i] }

// Alloc takes n bytes with the alignment, a power of two, off the first region,
// and returns their guest physical address. It panics if there are none left:
// the script is wrong then.
func (m *Memory) Alloc(n, align uint64) uint64 {
	at := (m.top + align - 1) &^ (align - 1)
	if r := m.regions[0]; at+n > r.GPA+r.Size {
		panic(fmt.Sprintf("frontend: guest memory of %#x bytes is full", r.Size))
	}
	m.top = at + n
	return at
}

// At returns the n bytes at the guest physical address. It panics if they are
// not in one region.
func (m *Memory) At(gpa, n uint64) []byte {
	b, ok := m.mem.Slice(gpa, n)
	if !ok {
		panic(fmt.Sprintf("frontend: no %d bytes of guest memory at %#x", n, gpa))
	}
	return b
}

// UVA returns the address in this process of a guest physical address in the
// first region.
func (m *Memory) UVA(gpa uint64) uint64 { return m.regions[0].UVA + gpa - m.regions[0].GPA }

// Close unmaps everything and closes the descriptors.
func (m *Memory) Close() {
	for _, mp := range m.maps {
		_ = mp.Unmap()
	}
	osio.CloseAll(m.fds)
	*m = Memory{}
}
