package netdev_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// world is a guest and its device in one piece of memory: the guest's side is
// ring.Driver, its buffers come from a bump allocator.
type world struct {
	t   testing.TB
	raw []byte
	mem *shm.Memory
	top uint64
	now vtime.Time

	ring virtio.Features

	dev  *netdev.Device
	wire *wire
	tx   []*guestQueue
	rx   []*guestQueue
	ctrl *guestQueue
}

// guestQueue is a ring from both sides.
type guestQueue struct {
	*ring.Driver
	cfg  ring.Config
	bufs map[uint32]ring.Buf // receive buffers by token
	next uint32
}

const (
	memBase = 0x100000
	memSize = 32 << 20
)

// setup describes a world; the zero value has one pair with rings of 256 and
// everything negotiated.
type setup struct {
	cfg  netdev.Config
	off  virtio.Features // offered and not acknowledged
	size uint16
	ctrl bool
	noTX bool
	noRX bool
	wire *wire
	mem  int             // bytes of guest memory; 0 is memSize
	ring virtio.Features // RING_PACKED and IN_ORDER, which rings have only if a test asks
}

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	dev, err := netdev.New(s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.SetFeatures(dev.Features()&^(s.off|virtio.FeatureRingPacked|virtio.FeatureInOrder) | s.ring); err != nil {
		t.Fatal(err)
	}
	if s.mem == 0 {
		s.mem = memSize
	}
	w := &world{t: t, raw: make([]byte, s.mem), dev: dev, top: memBase, now: 1000, ring: s.ring}
	if w.wire = s.wire; w.wire == nil {
		w.wire = &wire{}
	}
	if w.mem, err = shm.NewMemory([]shm.Region{{GPA: memBase, Mem: w.raw}}); err != nil {
		t.Fatal(err)
	}
	if s.size == 0 {
		s.size = 256
	}
	for i := range dev.Pairs() {
		w.tx = append(w.tx, w.newQueue(s.size))
		w.rx = append(w.rx, w.newQueue(s.size))
		dev.Pair(i).SetPort(w.wire)
		if !s.noTX {
			dev.Pair(i).AttachTX(w.now, w.device(w.tx[i]))
		}
		if !s.noRX {
			dev.Pair(i).AttachRX(w.now, w.device(w.rx[i]))
		}
	}
	if s.ctrl {
		w.ctrl = w.newQueue(64)
		dev.Ctrl().Attach(w.now, w.device(w.ctrl))
	}
	return w
}

// alloc returns the guest address of n fresh bytes.
func (w *world) alloc(n int) uint64 {
	at := (w.top + 63) &^ 63
	w.top = at + uint64(n)
	if w.top > memBase+uint64(len(w.raw)) {
		w.t.Fatal("guest memory used up")
	}
	return at
}

func (w *world) bytes(gpa uint64, n int) []byte { return w.raw[gpa-memBase:][:n:n] }

func (w *world) newQueue(size uint16) *guestQueue {
	cfg := ring.Config{Size: size, Features: w.dev.Acked() | w.ring}
	need := cfg.BytesNeeded()
	cfg.Desc, cfg.Avail, cfg.Used = w.alloc(int(need.Desc)), w.alloc(int(need.Avail)), w.alloc(int(need.Used))
	cfg.IndirectBase, cfg.Base = w.alloc(int(ring.IndirectBytes(size, 0))), ring.StartBase(cfg.Features)
	q := &guestQueue{cfg: cfg, bufs: map[uint32]ring.Buf{}}
	var err error
	if q.Driver, err = ring.NewDriver(w.mem, q.cfg); err != nil {
		w.t.Fatal(err)
	}
	return q
}

func (w *world) device(q *guestQueue) *ring.Device {
	d, err := ring.NewDevice(w.mem, q.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// store puts pieces into guest memory, one buffer each.
func (w *world) store(pieces ...[]byte) []ring.Buf {
	var out []ring.Buf
	for _, p := range pieces {
		gpa := w.alloc(len(p))
		copy(w.bytes(gpa, len(p)), p)
		out = append(out, ring.Buf{Addr: gpa, Len: uint32(len(p))})
	}
	return out
}

// queueTX makes a frame available on TX queue i, its header and it in the
// pieces as given, and reports whether the driver has to kick.
func (w *world) queueTX(i int, pieces ...[]byte) (kick bool) {
	w.t.Helper()
	q := w.tx[i]
	if err := q.Add(w.store(pieces...), nil, q.next); err != nil {
		w.t.Fatal(err)
	}
	q.next++
	q.Publish()
	return q.NeedKick()
}

// send queues a frame with its header in one piece, and kicks if needed.
func (w *world) send(i int, h virtio.NetHdr, f []byte) {
	w.t.Helper()
	if w.queueTX(i, append(w.encode(h), f...)) {
		w.kick(i)
	}
}

func (w *world) encode(h virtio.NetHdr) []byte {
	b := make([]byte, virtio.NetHdrLen)
	h.Encode(b)
	return b
}

func (w *world) kick(i int) { w.dev.Pair(i).Kick(w.now, netdev.DirTX, 1) }

// pollTX polls TX queue i, makes the call it asks for, and returns both.
func (w *world) pollTX(i int, b netdev.Budget) (netdev.Work, netdev.Call) {
	w.t.Helper()
	work, call, err := w.dev.Pair(i).TX.Poll(w.now, b)
	if err != nil {
		w.t.Fatal(err)
	}
	if call.Needed {
		w.dev.Pair(i).CallResult(w.now, netdev.DirTX, nil)
	}
	return work, call
}

// reap returns the number of used elements that the guest finds on q.
func (w *world) reap(q *guestQueue) (n int) {
	for {
		if _, _, ok := q.Reap(); !ok {
			if q.Err() != nil {
				w.t.Fatal(q.Err())
			}
			return n
		}
		n++
	}
}

// offer makes n receive buffers of size bytes each available on RX queue i,
// and reports whether the driver has to kick.
func (w *world) offer(i, n, size int) (kick bool) {
	w.t.Helper()
	q := w.rx[i]
	for range n {
		b := ring.Buf{Addr: w.alloc(size), Len: uint32(size)}
		if err := q.Add(nil, []ring.Buf{b}, q.next); err != nil {
			w.t.Fatal(err)
		}
		q.bufs[q.next] = b
		q.next++
	}
	q.Publish()
	return q.NeedKick()
}

// pollRX polls RX queue i and makes the call it asks for.
func (w *world) pollRX(i int) (netdev.Work, netdev.Call) {
	w.t.Helper()
	work, call, err := w.dev.Pair(i).RX.Poll(w.now, netdev.Budget{})
	if err != nil {
		w.t.Fatal(err)
	}
	if call.Needed {
		w.dev.Pair(i).CallResult(w.now, netdev.DirRX, nil)
	}
	return work, call
}

// received is a frame as the guest's driver sees it.
type received struct {
	hdr   virtio.NetHdr
	frame []byte
	lens  []uint32 // used lengths of its buffers
}

// receive reaps whole frames from RX queue i.
func (w *world) receive(i int) (all []received) {
	w.t.Helper()
	q := w.rx[i]
	for {
		b, n, ok := w.reapRX(q)
		if !ok {
			return all
		}
		var r received
		if n < virtio.NetHdrLen {
			w.t.Fatalf("used length %d is shorter than a net header", n)
		}
		r.hdr.Decode(b)
		r.lens = []uint32{n}
		r.frame = bytes.Clone(b[virtio.NetHdrLen:])
		for range int(r.hdr.NumBuffers) - 1 {
			b, n, ok := w.reapRX(q)
			if !ok {
				w.t.Fatal("num_buffers promises more than is there")
			}
			r.lens = append(r.lens, n)
			r.frame = append(r.frame, b...)
		}
		all = append(all, r)
	}
}

func (w *world) reapRX(q *guestQueue) ([]byte, uint32, bool) {
	w.t.Helper()
	token, n, ok := q.Reap()
	if !ok {
		return nil, 0, false
	}
	b := q.bufs[token]
	if n > b.Len {
		w.t.Fatalf("used length %d exceeds the buffer's %d", n, b.Len)
	}
	return w.bytes(b.Addr, int(n)), n, true
}

// deliver gives a frame to RX queue i and polls it.
func (w *world) deliver(i int, h virtio.NetHdr, f []byte) netdev.DropReason {
	w.t.Helper()
	r := w.dev.Pair(i).RX.Deliver(w.now, &h, f)
	if w.dev.Pair(i).RX.Attached() {
		w.pollRX(i)
	}
	return r
}

// setAvail writes the available index of a ring past its driver.
func (w *world) setAvail(q *guestQueue, idx uint16) {
	binary.LittleEndian.PutUint16(w.bytes(q.cfg.Avail+2, 2), idx)
}

// desc is one descriptor of a chain that a driver would not write.
type desc struct {
	addr  uint64
	len   uint32
	flags uint16
	next  uint16
}

// Flags of a descriptor (virtio 1.3 §2.7.5).
const (
	fNext  = 1
	fWrite = 2
)

// hostile writes descriptors from slot 0 on, and makes slot 0 available as
// entry number idx of the ring, past its driver.
func (w *world) hostile(q *guestQueue, idx uint16, table ...desc) {
	le := binary.LittleEndian
	for i, d := range table {
		b := w.bytes(q.cfg.Desc+uint64(i)*16, 16)
		le.PutUint64(b, d.addr)
		le.PutUint32(b[8:], d.len)
		le.PutUint16(b[12:], d.flags)
		le.PutUint16(b[14:], d.next)
	}
	le.PutUint16(w.bytes(q.cfg.Avail+4+2*uint64(idx%q.cfg.Size), 2), 0)
	w.setAvail(q, idx+1)
}

// used returns the used index of a ring, and the length of its last element.
func (w *world) used(q *guestQueue) (idx uint16, n uint32) {
	le := binary.LittleEndian
	idx = le.Uint16(w.bytes(q.cfg.Used+2, 2))
	return idx, le.Uint32(w.bytes(q.cfg.Used+4+8*uint64((idx-1)%q.cfg.Size)+4, 4))
}
