package shm_test

import (
	"errors"
	"math"
	"testing"

	"github.com/vnetbench/vnetbench/virtio/shm"
	"pgregory.net/rapid"
)

func region(gpa, uva uint64, n int) shm.Region {
	return shm.Region{GPA: gpa, UVA: uva, Mem: make([]byte, n)}
}

func TestNewMemory(t *testing.T) {
	tests := map[string]struct {
		regions []shm.Region
		want    error
	}{
		"none":              {nil, shm.ErrNoRegion},
		"empty":             {[]shm.Region{region(0, 0, 10), region(64, 64, 0)}, shm.ErrEmpty},
		"guest overflow":    {[]shm.Region{region(math.MaxUint64-9, 0, 10)}, shm.ErrOverflow},
		"user overflow":     {[]shm.Region{region(0, math.MaxUint64-9, 10)}, shm.ErrOverflow},
		"overlap":           {[]shm.Region{region(9, 0, 10), region(0, 100, 10)}, shm.ErrOverlap},
		"same":              {[]shm.Region{region(0, 0, 10), region(0, 0, 10)}, shm.ErrOverlap},
		"within":            {[]shm.Region{region(0, 0, 100), region(50, 500, 10)}, shm.ErrOverlap},
		"adjacent":          {[]shm.Region{region(10, 0, 10), region(0, 100, 10)}, nil},
		"up to the last":    {[]shm.Region{region(math.MaxUint64-10, 0, 10)}, nil},
		"same user address": {[]shm.Region{region(0, 0, 10), region(20, 0, 10)}, nil},
	}
	for name, tc := range tests {
		if _, err := shm.NewMemory(tc.regions); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestNilMemory(t *testing.T) {
	var m *shm.Memory
	c := shm.NewCursor(m)
	_, slice := m.Slice(0, 1)
	_, cursor := c.Slice(0, 1)
	_, gpa := m.GPAOfUVA(0, 1)
	_, err := m.Append(nil, 0, 1)
	if slice || cursor || gpa || !errors.Is(err, shm.ErrUnmapped) || m.Regions() != nil {
		t.Error("a nil Memory has bytes")
	}
}

func TestGPAOfUVA(t *testing.T) {
	m, err := shm.NewMemory([]shm.Region{region(0x1000, 0x7000, 0x100), region(0x9000, 0x7100, 0x100)})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		uva, n, gpa uint64
		ok          bool
	}{
		{0x7000, 0x100, 0x1000, true}, {0x70ff, 1, 0x10ff, true}, {0x7100, 1, 0x9000, true},
		{0x71ff, 1, 0x90ff, true}, {0x71ff, 2, 0, false}, {0x6fff, 2, 0, false}, {0x7200, 0, 0, false},
		{0x70ff, 2, 0, false}, // next to each other for the front-end, but not for the guest
		{0x7000, math.MaxUint64, 0, false},
	} {
		if gpa, ok := m.GPAOfUVA(tc.uva, tc.n); gpa != tc.gpa || ok != tc.ok {
			t.Errorf("%#x, %d bytes: %#x, %v", tc.uva, tc.n, gpa, ok)
		}
	}
}

// TestLookupModel compares lookups with a map of every byte.
func TestLookupModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var regions []shm.Region
		bytes := map[uint64]*byte{}
		in := map[uint64]int{}
		at := rapid.Uint64Range(0, 8).Draw(t, "start")
		for i := range rapid.IntRange(1, 5).Draw(t, "regions") {
			r := region(at, 0, rapid.IntRange(1, 9).Draw(t, "size"))
			for k := range r.Mem {
				bytes[at+uint64(k)], in[at+uint64(k)] = &r.Mem[k], i+1
			}
			at += uint64(len(r.Mem)) + rapid.Uint64Range(0, 3).Draw(t, "gap")
			regions = append(regions, r)
		}
		m, err := shm.NewMemory(rapid.Permutation(regions).Draw(t, "order"))
		if err != nil {
			t.Fatal(err)
		}
		c := shm.NewCursor(m)
		for range 20 {
			gpa := rapid.Uint64Range(0, at+2).Draw(t, "gpa")
			n := rapid.Uint64Range(1, 20).Draw(t, "n")
			mapped, one := true, true
			for k := range n {
				mapped = mapped && bytes[gpa+k] != nil
				one = one && in[gpa+k] == in[gpa]
			}
			b, ok := m.Slice(gpa, n)
			cb, cok := c.Slice(gpa, n)
			if ok != (mapped && one) || ok != cok {
				t.Fatalf("%d bytes at %d: %v, cursor %v", n, gpa, ok, cok)
			}
			if ok && (&b[0] != bytes[gpa] || &cb[0] != &b[0] || cap(b) != int(n) || cap(cb) != int(n)) {
				t.Fatalf("%d bytes at %d are others", n, gpa)
			}
			pieces, err := m.Append(nil, gpa, n)
			if (err == nil) != mapped {
				t.Fatalf("%d bytes at %d in pieces: %v", n, gpa, err)
			}
			k := gpa
			for _, p := range pieces {
				for i := range p {
					if &p[i] != bytes[k] {
						t.Fatalf("byte %d in pieces is another", k)
					}
					k++
				}
			}
			if err == nil && k != gpa+n {
				t.Fatalf("pieces hold %d of %d bytes", k-gpa, n)
			}
		}
	})
}

func TestAppendKeepsOthers(t *testing.T) {
	m, _ := shm.NewMemory([]shm.Region{region(0, 0, 8), region(8, 100, 8)})
	dst := [][]byte{{1}}
	dst, err := m.Append(dst, 4, 20)
	if !errors.Is(err, shm.ErrUnmapped) || len(dst) != 1 {
		t.Errorf("%d pieces, %v", len(dst), err)
	}
	if dst, err = m.Append(dst, 4, 12); err != nil || len(dst) != 3 {
		t.Errorf("%d pieces, %v", len(dst), err)
	}
}

// TestAccess: what may be read and what may be written are memories of their own.
func TestAccess(t *testing.T) {
	b := make([]byte, 64)
	m, err := shm.NewMemory([]shm.Region{
		{GPA: 0, Mem: b[:16]}, {GPA: 16, Mem: b[16:32], Access: shm.AccessRead}, {GPA: 32, Mem: b[32:48], Access: shm.AccessWrite}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		gpa         uint64
		read, write bool
	}{{0, true, true}, {16, true, false}, {32, false, true}, {48, false, false}} {
		_, read := m.Readable().Slice(c.gpa, 8)
		_, write := m.Writable().Slice(c.gpa, 8)
		if read != c.read || write != c.write {
			t.Errorf("at %d: read %v, write %v", c.gpa, read, write)
		}
	}
	none, err := shm.NewMemory([]shm.Region{{GPA: 0, Mem: b, Access: shm.AccessWrite}})
	if err != nil {
		t.Fatal(err)
	}
	cur := shm.NewCursor(none.Readable())
	if _, ok := cur.Slice(0, 1); ok {
		t.Error("a memory that may not be read was read")
	}
	var nothing *shm.Memory
	if nothing.Readable() != nil || nothing.Writable() != nil {
		t.Error("of no memory some may be accessed")
	}
}
