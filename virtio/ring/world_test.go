package ring_test

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// Guest addresses of the test world's memory.
const (
	memBase  = 0x10000
	memSize  = 1 << 22
	descAt   = memBase
	availAt  = descAt + 16*4096
	usedAt   = availAt + 16384
	tablesAt = usedAt + 65536
	dataAt   = tablesAt + 1<<21
)

const (
	indirect = virtio.FeatureIndirectDesc
	eventIdx = virtio.FeatureEventIdx
	inOrder  = virtio.FeatureInOrder
	packed   = virtio.FeatureRingPacked
)

// combinations returns every set of the features.
func combinations(f ...virtio.Features) (all []virtio.Features) {
	for i := range 1 << len(f) {
		var set virtio.Features
		for k := range f {
			if i>>k&1 != 0 {
				set |= f[k]
			}
		}
		all = append(all, set)
	}
	return all
}

// tb is what the world needs of testing.TB; a *rapid.T has it too.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// world is one ring with both of its sides.
type world struct {
	t   tb
	b   []byte // the guest memory, from memBase
	mem *shm.Memory
	cfg ring.Config
	drv *ring.Driver
	dev *ring.Device
	c   ring.Chain
}

func newWorld(t tb, size uint16, f virtio.Features) *world {
	t.Helper()
	return newWorldAt(t, size, f, ring.StartBase(f))
}

// newWorldAt starts the ring at index base.
func newWorldAt(t tb, size uint16, f virtio.Features, base uint32) *world {
	t.Helper()
	w := &world{t: t, b: make([]byte, memSize)}
	w.mem = memory(t, shm.Region{GPA: memBase, UVA: 0x7f0000000000, Mem: w.b})
	w.cfg = ring.Config{
		Size: size, Desc: descAt, Avail: availAt, Used: usedAt,
		Features: f | virtio.FeatureVersion1, Base: base, IndirectBase: tablesAt,
	}
	var err error
	if w.drv, err = ring.NewDriver(w.mem, w.cfg); err != nil {
		t.Fatal(err)
	}
	w.restart()
	return w
}

// restart puts a new device on the ring, at the configured base.
func (w *world) restart() {
	w.t.Helper()
	var err error
	if w.dev, err = ring.NewDevice(w.mem, w.cfg); err != nil {
		w.t.Fatal(err)
	}
}

func memory(t tb, r ...shm.Region) *shm.Memory {
	t.Helper()
	m, err := shm.NewMemory(r)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// data returns n bytes of the data area at offset off, as the guest sees them.
func (w *world) data(off, n int) []byte {
	at := dataAt - memBase + off
	return w.b[at : at+n]
}

// bufs makes buffers of the given lengths, one after the other in the data area.
func bufs(lens ...uint32) []ring.Buf {
	var b []ring.Buf
	at := uint64(dataAt)
	for _, n := range lens {
		b = append(b, ring.Buf{Addr: at, Len: n})
		at += uint64(n)
	}
	return b
}

// add makes n chains of one readable buffer available.
func (w *world) add(n int) {
	w.t.Helper()
	for i := range n {
		if err := w.drv.Add(bufs(64), nil, uint32(i)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.drv.Publish()
}

// take takes a chain, which must be there and sound.
func (w *world) take() uint16 {
	w.t.Helper()
	ok, err := w.dev.Next(&w.c)
	if !ok || err != nil {
		w.t.Fatalf("Next: %v, %v", ok, err)
	}
	return w.c.Head
}

// serve takes n chains and gives them back.
func (w *world) serve(n int) {
	w.t.Helper()
	for range n {
		w.dev.Push(w.take(), 0)
	}
	w.dev.Publish()
}

// reap reaps n chains, which must be there.
func (w *world) reap(n int) {
	w.t.Helper()
	for range n {
		if _, _, ok := w.drv.Reap(); !ok {
			w.t.Fatalf("nothing to reap: %v", w.drv.Err())
		}
	}
}
