package shm

import (
	"errors"
	"fmt"
	"slices"
)

// Causes for which NewMemory refuses a set of regions.
var (
	ErrNoRegion = errors.New("memory has no region")
	ErrEmpty    = errors.New("region has no bytes")
	ErrOverflow = errors.New("region ends beyond the address space")
	ErrOverlap  = errors.New("regions overlap")
)

// ErrUnmapped says that guest memory has no bytes at some address of a range.
var ErrUnmapped = errors.New("guest address is not mapped")

// Access is what a device may do with a region.
type Access uint8

// The bits of Access, and both. A region behind an IOMMU may have less than both
// (virtio 1.3 §6.1, ACCESS_PLATFORM).
const (
	AccessRead Access = 1 << iota
	AccessWrite
	AccessBoth = AccessRead | AccessWrite
)

// Region is a run of guest memory that is contiguous in the guest's physical
// address space, in the front-end's address space and in ours.
type Region struct {
	GPA uint64 // guest physical address of the first byte
	UVA uint64 // address in the front-end's process, the key of vhost-user's ring addresses
	Mem []byte // the bytes; len(Mem) is the region's size

	Access Access // of the device; 0 is AccessBoth
}

func (r *Region) allows(a Access) bool { return r.Access == 0 || r.Access&a == a }

func (r *Region) size() uint64 { return uint64(len(r.Mem)) }

// Memory is the guest memory of one device: a set of regions that do not
// overlap. It never changes; a new memory table is a new Memory. A nil *Memory
// is one without a region. Reading it from several goroutines is safe.
type Memory struct {
	regions []Region // by GPA, ascending

	reads, writes *Memory // the regions that allow it; nil: all do
}

// NewMemory makes a Memory of the regions, in any order. The slice is copied,
// the bytes are not: whoever mapped them keeps them mapped while the Memory is
// in use. It returns an error that wraps ErrNoRegion, ErrEmpty, ErrOverflow or
// ErrOverlap and names the region by its guest address.
func NewMemory(regions []Region) (*Memory, error) {
	if len(regions) == 0 {
		return nil, ErrNoRegion
	}
	m := &Memory{regions: slices.Clone(regions)}
	slices.SortFunc(m.regions, func(a, b Region) int {
		if a.GPA < b.GPA {
			return -1
		}
		return 1
	})
	for i := range m.regions {
		if err := m.check(i); err != nil {
			return nil, err
		}
	}
	m.reads, m.writes = m.allowing(AccessRead), m.allowing(AccessWrite)
	return m, nil
}

// allowing returns the regions that allow an access, or nil if all do.
func (m *Memory) allowing(a Access) *Memory {
	some := &Memory{}
	for i := range m.regions {
		if m.regions[i].allows(a) {
			some.regions = append(some.regions, m.regions[i])
		}
	}
	if len(some.regions) == len(m.regions) {
		return nil
	}
	return some
}

// Readable returns the memory of the regions that the device may read.
func (m *Memory) Readable() *Memory {
	if m == nil || m.reads == nil {
		return m
	}
	return m.reads
}

// Writable returns the memory of the regions that the device may write.
func (m *Memory) Writable() *Memory {
	if m == nil || m.writes == nil {
		return m
	}
	return m.writes
}

// check validates region i and its border with region i-1.
func (m *Memory) check(i int) error {
	r := &m.regions[i]
	switch n := r.size(); {
	case n == 0:
		return fmt.Errorf("region at %#x: %w", r.GPA, ErrEmpty)
	case r.GPA+n < r.GPA || r.UVA+n < r.UVA:
		return fmt.Errorf("region at %#x, %#x bytes: %w", r.GPA, n, ErrOverflow)
	}
	if i > 0 && m.regions[i-1].GPA+m.regions[i-1].size() > r.GPA {
		return fmt.Errorf("regions at %#x and %#x: %w", m.regions[i-1].GPA, r.GPA, ErrOverlap)
	}
	return nil
}

// Regions returns the regions by ascending guest address. The slice is the
// Memory's own: it is read only.
func (m *Memory) Regions() []Region {
	if m == nil {
		return nil
	}
	return m.regions
}

// find returns the region that holds the byte at gpa, or nil.
func (m *Memory) find(gpa uint64) *Region {
	if m == nil {
		return nil
	}
	lo, hi := 0, len(m.regions)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if m.regions[mid].GPA <= gpa {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 || gpa-m.regions[lo-1].GPA >= m.regions[lo-1].size() {
		return nil
	}
	return &m.regions[lo-1]
}

// Slice returns the n bytes at guest address gpa if one region holds them all,
// with capacity n. The bytes are shared with the guest: they may change between
// two reads. It searches all regions; on a hot path use a Cursor.
func (m *Memory) Slice(gpa, n uint64) ([]byte, bool) {
	r := m.find(gpa)
	if r == nil {
		return nil, false
	}
	off := gpa - r.GPA
	if n > r.size()-off {
		return nil, false
	}
	return r.Mem[off : off+n : off+n], true
}

// Append appends the n bytes at guest address gpa to dst, in as many pieces as
// regions that lie next to each other hold them. It returns dst unchanged and
// ErrUnmapped, unwrapped, if a byte is not mapped.
func (m *Memory) Append(dst [][]byte, gpa, n uint64) ([][]byte, error) {
	keep := len(dst)
	for n > 0 {
		r := m.find(gpa)
		if r == nil {
			return dst[:keep], ErrUnmapped
		}
		off := gpa - r.GPA
		k := min(n, r.size()-off)
		dst = append(dst, r.Mem[off:off+k:off+k])
		gpa, n = gpa+k, n-k
	}
	return dst, nil
}

// FirstUnmapped returns the lowest of the n addresses from gpa on at which there
// are no bytes; ok is false if there are bytes at all of them.
func (m *Memory) FirstUnmapped(gpa, n uint64) (at uint64, ok bool) {
	for n > 0 {
		r := m.find(gpa)
		if r == nil {
			return gpa, true
		}
		k := min(n, r.size()-(gpa-r.GPA))
		gpa, n = gpa+k, n-k
	}
	return 0, false
}

// GPAOfUVA translates an address of the front-end's process to a guest
// physical address. The n bytes there must lie in one region.
func (m *Memory) GPAOfUVA(uva, n uint64) (gpa uint64, ok bool) {
	if m == nil {
		return 0, false
	}
	for i := range m.regions {
		r := &m.regions[i]
		off := uva - r.UVA
		if off < r.size() && n <= r.size()-off {
			return r.GPA + off, true
		}
	}
	return 0, false
}

// Cursor looks guest addresses up in one Memory and remembers the region of the
// last hit, which is nearly always that of the next. The zero value is a cursor
// into a memory without regions. It is not safe for concurrent use.
type Cursor struct {
	base uint64
	mem  []byte
	all  *Memory
}

// NewCursor returns a cursor into m, which may be nil.
func NewCursor(m *Memory) Cursor {
	c := Cursor{all: m}
	if m != nil && len(m.regions) > 0 {
		c.base, c.mem = m.regions[0].GPA, m.regions[0].Mem
	}
	return c
}

// Memory returns the memory that the cursor looks into.
func (c *Cursor) Memory() *Memory { return c.all }

// Slice is Memory.Slice by way of the remembered region.
func (c *Cursor) Slice(gpa, n uint64) ([]byte, bool) {
	if b, ok := c.Near(gpa, n); ok {
		return b, true
	}
	return c.miss(gpa, n)
}

// Near is Slice for bytes in the remembered region only; it returns false for all
// others. It is short enough to be compiled into its callers.
func (c *Cursor) Near(gpa, n uint64) ([]byte, bool) {
	if off := gpa - c.base; off < uint64(len(c.mem)) {
		if b := c.mem[off:]; n <= uint64(len(b)) {
			return b[:n:n], true
		}
	}
	return nil, false
}

func (c *Cursor) miss(gpa, n uint64) ([]byte, bool) {
	r := c.all.find(gpa)
	if r == nil {
		return nil, false
	}
	c.base, c.mem = r.GPA, r.Mem
	return c.all.Slice(gpa, n)
}
