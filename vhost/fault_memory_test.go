package vhost_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// TestFault025MemoryTableWhileRunning moves guest memory under a running ring:
// the same bytes from another descriptor, at another address.
func TestFault025MemoryTableWhileRunning(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	for i := range 20 {
		w.send(tx, 10)
		mt, _ := g.Memory.Table()
		fd := dup(t, g.Memory.FD(0))
		mt.Regions = append([]wire.Region(nil), mt.Regions...)
		mt.Regions[0].UVA += uint64(i) << 40
		w.ok(g.Tell(wire.SetMemTable, mt, fd))
		osio.Close(fd)
	}
	w.send(tx, 10)
	if got := w.ports[0].frames.Load(); got != 210 {
		t.Errorf("%d frames, want 210", got)
	}
}

func TestFault026BadSecondRegion(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	mt, fds := g.Memory.Table()
	bad := wire.MemTable{Regions: append(append([]wire.Region(nil), mt.Regions...), wire.Region{GPA: 1 << 40, Size: 4096})}
	no := eventfds(t, 1)[0]
	w.leaks(func() { w.refused(g, wire.SetMemTable, bad, fds[0], no) })
	tx.ForceKick()
	w.send(tx, 10)
}

func TestFault028TooManyRegions(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	for _, n := range []uint32{9, 0xffffffff} {
		payload := binary.LittleEndian.AppendUint32(nil, n)
		w.refused(g, wire.SetMemTable, wire.Raw(append(payload, make([]byte, 4+9*32)...)))
	}
	w.send(w.start(g, 1), 5)
}

func TestFault029TooManySlots(t *testing.T) {
	w := newWorld(t, 1)
	g := w.dial()
	w.ok(g.Negotiate(everything, vhost.ProtocolOffer))
	slots, err := g.AskNumber(wire.GetMaxMemSlots)
	w.ok(err)
	fd := g.Memory.FD(0)
	region := func(i uint64) wire.MemRegion {
		return wire.MemRegion{Region: wire.Region{GPA: 1<<40 + i*8192, Size: 4096, UVA: 1<<41 + i*8192}}
	}
	for i := range slots {
		if err := g.Demand(wire.AddMemReg, region(i), fd); err != nil {
			t.Fatalf("region %d of %d: %v", i, slots, err)
		}
	}
	w.leaks(func() { w.refused(g, wire.AddMemReg, region(slots), fd) })
	w.ok(g.Demand(wire.RemMemReg, region(7)))
	w.ok(g.Demand(wire.AddMemReg, region(slots), fd))
}

// TestFault031RegionsMoveUp removes the first of three regions, and uses the
// last.
func TestFault031RegionsMoveUp(t *testing.T) {
	w := newWorld(t, 1)
	g := w.dial()
	w.ok(g.Negotiate(everything&^virtio.FeatureIndirectDesc, vhost.ProtocolOffer))
	first := wire.MemRegion{Region: wire.Region{GPA: 0, Size: 4096, UVA: 1 << 40}}
	fd := memfd(t, 8192)
	defer osio.Close(fd)
	w.ok(g.Demand(wire.AddMemReg, first, fd))
	w.ok(g.Demand(wire.AddMemReg, wire.MemRegion{Region: wire.Region{GPA: 8192, Size: 4096, UVA: 1 << 41, Offset: 4096}}, fd))
	w.ok(g.Demand(wire.AddMemReg, wire.MemRegion{Region: g.Memory.Region(0)}, g.Memory.FD(0)))
	tx := w.start(g, 1)
	w.send(tx, 10)
	w.ok(g.Demand(wire.RemMemReg, first))
	w.send(tx, 10)
}

// TestFault032OffsetsInOneFile has two regions in one file, as QEMU has below
// and above the hole under 4 GiB: each byte has to be found at its own address.
func TestFault032OffsetsInOneFile(t *testing.T) {
	const high, offset = 0x100000000, 0x40000000
	w := newWorld(t, 1)
	g := w.dial()
	w.ok(g.Negotiate(everything&^virtio.FeatureIndirectDesc, vhost.ProtocolOffer))
	fd, err := osio.Memfd("guest", offset+1<<20)
	w.ok(err)
	w.ok(g.Memory.Add(dup(t, fd), wire.Region{GPA: 0x200000000, Size: 1 << 20}))
	w.ok(g.Memory.Add(fd, wire.Region{GPA: high, Size: 1 << 20, Offset: offset}))
	w.ok(g.ShareMemory())
	tx := w.start(g, 1)
	for i, gpa := range []uint64{0x200000000, high} {
		f := frameOf(64, byte(i+1))
		put(g.Memory, gpa+4096, f)
		w.ok(tx.Add([]ring.Buf{{Addr: gpa + 4096, Len: uint32(virtio.NetHdrLen + len(f))}}, nil, uint32(200+i)))
		tx.Publish()
		tx.ForceKick()
		w.eventually("the buffer comes back", func() bool { _, _, ok := tx.Reap(); return ok })
		if got := w.ports[0].lastFrame(); !bytes.Equal(got, f) {
			t.Errorf("frame at %#x arrived as % x", gpa, got)
		}
	}
}

// put writes a frame behind an empty net header into guest memory.
func put(m *frontend.Memory, gpa uint64, f []byte) {
	b := m.At(gpa, uint64(virtio.NetHdrLen+len(f)))
	clear(b[:virtio.NetHdrLen])
	copy(b[virtio.NetHdrLen:], f)
}

// TestFault035BufferAcrossRegions sends a buffer that lies in two regions that
// touch, and one that runs into a gap.
func TestFault035BufferAcrossRegions(t *testing.T) {
	const gpa, size = 0x200000000, 1 << 20
	w := newWorld(t, 1)
	g := w.dial()
	w.ok(g.Negotiate(everything&^virtio.FeatureIndirectDesc, vhost.ProtocolOffer))
	for i := range uint64(2) {
		w.ok(g.Memory.Add(memfd(t, size), wire.Region{GPA: gpa + i*size, Size: size}))
	}
	w.ok(g.ShareMemory())
	tx := w.start(g, 1)
	f := frameOf(100, 7)
	whole := append(make([]byte, virtio.NetHdrLen), f...)
	for _, over := range []int{1, 50, len(whole) - 1} {
		start := uint64(gpa + size - (len(whole) - over))
		copy(g.Memory.At(start, uint64(len(whole)-over)), whole)
		copy(g.Memory.At(gpa+size, uint64(over)), whole[len(whole)-over:])
		w.ok(tx.Add([]ring.Buf{{Addr: start, Len: uint32(len(whole))}}, nil, 201))
		tx.Publish()
		tx.ForceKick()
		w.eventually("the buffer comes back", func() bool { _, _, ok := tx.Reap(); return ok })
		if got := w.ports[0].lastFrame(); !bytes.Equal(got, f) {
			t.Errorf("%d bytes over the border: frame arrived as % x", over, got)
		}
	}
	w.ok(tx.Add([]ring.Buf{{Addr: gpa + 2*size - 50, Len: 100}}, nil, 202))
	tx.Publish()
	tx.ForceKick()
	w.eventually("the bad buffer comes back", func() bool { _, n, ok := tx.Reap(); return ok && n == 0 })
	if s := w.srv.Stats().Pairs[0].TX; s.Packets != 3 || s.Drops.Total() != 1 {
		t.Errorf("%d packets, drops %v", s.Packets, s.Drops)
	}
}

// TestFault037RingLeavesItsRegion places rings at the very end of memory and
// beyond.
func TestFault037RingLeavesItsRegion(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.ring(g, 1)
	end := g.Memory.Region(0).UVA + g.Memory.Region(0).Size
	w.ok(g.Demand(wire.SetVringNum, wire.VringState{Index: 1, Num: 1024}))
	w.ok(g.Demand(wire.SetVringKick, wire.VringFD{Index: 1}, tx.Kick))
	a := tx.Addr()
	a.Used = end - 4096
	w.refused(g, wire.SetVringAddr, a)
	a.Used = end - (6+8*1024+3)&^3
	if err := g.Demand(wire.SetVringAddr, a); err != nil {
		t.Errorf("ring of 1024 entries that ends with memory: %v", err)
	}
	g.Close()
	w.eventually("the session ends", func() bool { return !w.srv.Stats().Connected })
	if s := w.lastStats(); s.RingsUnmapped != 1 || s.RingStarts != 1 {
		t.Errorf("%+v", s)
	}
}

func TestFault038UnmappedRing(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	g.Acks = false // nobody asks, and still the session goes on
	tx := w.ring(g, 1)
	a := tx.Addr()
	a.Desc = 0x1000
	w.ok(g.Tell(wire.SetVringNum, wire.VringState{Index: 1, Num: 256}))
	w.ok(g.Tell(wire.SetVringAddr, a))
	w.ok(g.Tell(wire.SetVringKick, wire.VringFD{Index: 1}, tx.Kick))
	tx.ForceKick()
	w.ok(g.Barrier())
	if s := w.lastStats(); s.RingsUnmapped != 1 || s.RingStarts != 0 || s.LastRefusal == "" {
		t.Errorf("%+v", s)
	}
	w.ok(g.Start(tx, 0))
	w.send(tx, 5)
}

// TestMemoryChangesWhileSending keeps a guest sending from one goroutine while
// another one changes the memory table.
func TestMemoryChangesWhileSending(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	stop := make(chan struct{})
	sent := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				sent <- n
				return
			default:
			}
			for range 16 {
				if tx.Transmit(&virtio.NetHdr{}, frameOf(100, 1)) {
					n++
				}
			}
			tx.Notify()
			for _, _, ok := tx.Done(); ok; _, _, ok = tx.Done() {
			}
		}
	}()
	extra, err := frontend.NewMemory(1<<40, 1<<20)
	w.ok(err)
	defer extra.Close()
	var failed error
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end) && failed == nil; {
		failed = errors.Join(g.ShareMemory(),
			g.Tell(wire.AddMemReg, wire.MemRegion{Region: extra.Region(0)}, extra.FD(0)))
	}
	close(stop)
	n := <-sent
	w.ok(failed)
	tx.Notify()
	tx.Drain(tx.Outstanding(), 5*time.Second)
	if got := w.ports[0].frames.Load(); got != int64(n) || tx.Outstanding() != 0 || n < 1000 {
		t.Errorf("%d frames sent, %d arrived, %d outstanding", n, got, tx.Outstanding())
	}
	if got := w.srv.Stats().Pairs[0].TX; got.Kicks != tx.Kicks {
		t.Errorf("%d kicks sent, %d counted", tx.Kicks, got.Kicks)
	}
}

// memfd returns a memory file, which is the caller's to close.
func memfd(t testing.TB, size int64) int {
	t.Helper()
	fd, err := osio.Memfd("guest", size)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestFault034HugePages shares memory of huge pages, from an offset that is
// aligned to small ones only: it is mapped from the page before, and the same
// length is unmapped.
func TestFault034HugePages(t *testing.T) {
	const huge = 2 << 20
	fd := hugeFile(t, 3*huge)
	w := newWorld(t, 1)
	maps := func() int {
		text, err := os.ReadFile("/proc/self/maps")
		w.ok(err)
		return strings.Count(string(text), "memfd:huge")
	}
	before := maps()
	for range 3 {
		c, err := frontend.Dial(w.path)
		w.ok(err)
		m, err := frontend.NewMemoryOf(dup(t, fd), wire.Region{GPA: 0x1000000, Size: 3*huge - 3*4096, Offset: 3 * 4096})
		w.ok(err)
		g := &frontend.Guest{Conn: c, Memory: m, Rings: make(map[int]*frontend.Ring)}
		w.ok(g.Negotiate(everything, vhost.ProtocolOffer))
		w.ok(g.ShareMemory())
		tx, err := g.AddRing(1, 256, 4096)
		w.ok(err)
		w.ok(g.Start(tx, 0))
		w.send(tx, 300)
		g.Close()
		w.eventually("the session ends", func() bool { return !w.srv.Stats().Connected })
	}
	if n := maps(); n != before {
		t.Errorf("%d mappings are left, %d before", n, before)
	}
}

// hugeFile is a memory file of huge pages of 2 MiB, for which the system is asked
// to set some aside if it has none.
func hugeFile(t *testing.T, size int64) int {
	t.Helper()
	const setting = "/proc/sys/vm/nr_hugepages"
	if freeHugePages() < 3 {
		text, _ := os.ReadFile(setting)
		n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		more := []byte(strconv.Itoa(n + 4))
		_ = os.WriteFile(setting, more, 0o644)
		t.Cleanup(func() {
			if now, _ := os.ReadFile(setting); strings.TrimSpace(string(now)) == string(more) {
				_ = os.WriteFile(setting, text, 0o644)
			}
		})
	}
	fd, err := unix.MemfdCreate("huge", unix.MFD_CLOEXEC|unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
	if err == nil {
		t.Cleanup(func() { osio.Close(fd) })
		err = unix.Ftruncate(fd, size)
	}
	if err == nil && freeHugePages() >= 3 { // touching one that is not there would kill the test
		return fd
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("no huge pages: %v", err)
	}
	t.Skip("SKIPPED, NOT TESTED: no huge pages:", err)
	return -1
}

// freeHugePages is how many huge pages nobody uses.
func freeHugePages() int {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "HugePages_Free:" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}
