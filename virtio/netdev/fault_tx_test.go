package netdev_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// A net header in more than two descriptors, down to a byte each, was refused
// or read out of bounds.
func TestFault095SplitHeader(t *testing.T) {
	h, f := gso(fromGuest(0, 4000), 1448)
	raw := w12(h)
	for _, indirect := range []virtio.Features{0, virtio.FeatureIndirectDesc} {
		w := newWorld(t, setup{off: indirect})
		var pieces [][]byte
		for i := range raw {
			pieces = append(pieces, raw[i:i+1])
		}
		w.queueTX(0, append(pieces, f[:20], f[20:21], f[21:60], f[60:])...)
		w.queueTX(0, append([][]byte{raw[:5], append(raw[5:12:12], f[:1]...)}, f[1:])...)
		w.pollTX(0, netdev.Budget{})
		if len(w.wire.frames) != 2 {
			t.Fatalf("%d frames, want 2: %s", len(w.wire.frames), marshal(t, w.dev.Pair(0).TX.Snapshot().Drops))
		}
		for i := range w.wire.frames {
			if !bytes.Equal(w.wire.frames[i], f) || w.wire.hdrs[i] != h {
				t.Errorf("frame %d is damaged", i)
			}
		}
	}
}

func w12(h virtio.NetHdr) []byte {
	b := make([]byte, virtio.NetHdrLen)
	h.Encode(b)
	return b
}

// A chain not longer than the net header made a length negative.
func TestFault097ShortChain(t *testing.T) {
	for n := 1; n <= 26; n++ {
		w := newWorld(t, setup{})
		w.queueTX(0, make([]byte, n))
		work, _ := w.pollTX(0, netdev.Budget{})
		s := w.dev.Pair(0).TX.Snapshot()
		want := uint64(1)
		if n == 26 {
			want = 0 // an Ethernet header and nothing more is a frame
		}
		if s.Drops[netdev.DropShort] != want || s.Packets != 1-want || work.Completed != 1 {
			t.Errorf("%d bytes: %d packets, drops %s", n, s.Packets, marshal(t, s.Drops))
		}
		if _, used, ok := w.tx[0].Reap(); !ok || used != 0 {
			t.Errorf("%d bytes: used length %d %v, want 0", n, used, ok)
		}
	}
	w := newWorld(t, setup{})
	w.hostile(w.tx[0], 0, desc{addr: memBase, len: 0})
	w.pollTX(0, netdev.Budget{})
	if s := w.dev.Pair(0).TX.Snapshot(); s.Drops[netdev.FaultDrop(ring.ErrZeroLen)] != 1 {
		t.Errorf("no bytes: drops %s", marshal(t, s.Drops))
	}
}

// The length of a chain was summed in too few bits.
func TestFault098LongChain(t *testing.T) {
	w := newWorld(t, setup{})
	pieces := [][]byte{w.encode(virtio.NetHdr{})}
	for range 20 {
		pieces = append(pieces, make([]byte, 4096))
	}
	w.queueTX(0, pieces...)
	w.pollTX(0, netdev.Budget{})
	s := w.dev.Pair(0).TX.Snapshot()
	if s.Drops[netdev.DropOversize] != 1 || s.Packets != 0 {
		t.Errorf("80 KiB: drops %s", marshal(t, s.Drops))
	}

	w = newWorld(t, setup{})
	half := desc{addr: memBase, len: memSize, flags: fNext}
	table := make([]desc, 200) // 200 times 32 MiB is more than 2^32 bytes
	for i := range table {
		table[i] = half
		table[i].next = uint16(i + 1)
	}
	table[199].flags = 0
	w.hostile(w.tx[0], 0, table...)
	w.pollTX(0, netdev.Budget{})
	if s := w.dev.Pair(0).TX.Snapshot(); s.Drops.Total() != 1 || s.Packets != 0 {
		t.Errorf("6.25 GiB: drops %s", marshal(t, s.Drops))
	}
}

// A frame in several descriptors stopped the process, or was sent in part.
func TestFault103FragmentedTX(t *testing.T) {
	f := build(fromGuest(0, 1000))
	w := newWorld(t, setup{})
	w.queueTX(0, w.encode(virtio.NetHdr{}), f[:14], f[14:34], f[34:66], f[66:600], f[600:])
	w.pollTX(0, netdev.Budget{})
	if len(w.wire.frames) != 1 || !bytes.Equal(w.wire.frames[0], f) || w.wire.pieces[0] != 5 {
		t.Fatalf("the wire got %d frames", len(w.wire.frames))
	}
	s := w.dev.Pair(0).TX.Snapshot()
	if s.PayloadBytes != 1000 || s.Descs != 6 {
		t.Errorf("payload %d in %d descriptors, want 1000 in 6", s.PayloadBytes, s.Descs)
	}
}

// Descriptors of the wrong direction were read, or written.
func TestFault104Direction(t *testing.T) {
	w := newWorld(t, setup{})
	f := append(w.encode(virtio.NetHdr{}), build(fromGuest(0, 10))...)
	if err := w.tx[0].Add(w.store(f), w.store(make([]byte, 100)), 1); err != nil {
		t.Fatal(err)
	}
	w.tx[0].Publish()
	w.pollTX(0, netdev.Budget{})
	if s := w.dev.Pair(0).TX.Snapshot(); s.Drops[netdev.DropDirection] != 1 || w.wire.sent != 0 {
		t.Errorf("TX with a writable buffer: drops %s", marshal(t, s.Drops))
	}

	if err := w.rx[0].Add(w.store(make([]byte, 2000)), nil, 1); err != nil {
		t.Fatal(err)
	}
	if err := w.rx[0].Add(w.store(make([]byte, 16)), w.store(make([]byte, 2000)), 2); err != nil {
		t.Fatal(err)
	}
	w.offer(0, 1, 2000)
	w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 10)))
	var lens []uint32
	for {
		_, n, ok := w.rx[0].Reap()
		if !ok {
			break
		}
		lens = append(lens, n)
	}
	s := w.dev.Pair(0).RX.Snapshot()
	if want := []uint32{0, 0, 12 + 76}; !cmp.Equal(lens, want) || s.Drops[netdev.DropDirection] != 2 || s.Packets != 1 {
		t.Errorf("RX: lengths %v, want %v; drops %s", lens, want, marshal(t, s.Drops))
	}
}

// GSO with a gso_size of 0 divided by zero.
func TestFault109GSOSizeZero(t *testing.T) {
	h, f := gso(fromGuest(0, 4000), 1448)
	h.GSOSize = 0
	w := newWorld(t, setup{})
	w.send(0, h, f)
	w.pollTX(0, netdev.Budget{})
	if s := w.dev.Pair(0).TX.Snapshot(); s.Drops[netdev.DropBadGSO] != 1 || s.Segs != 0 {
		t.Errorf("drops %s", marshal(t, s.Drops))
	}
}

// num_buffers stayed 0 without MRG_RXBUF, and the guest dropped everything.
func TestFault112NumBuffersWithoutMerging(t *testing.T) {
	w := newWorld(t, setup{off: virtio.FeatureMrgRxBuf})
	for _, how := range []string{"deliver", "commit"} {
		w.offer(0, 1, 65600)
		w.give(how, virtio.NetHdr{NumBuffers: 0}, build(toGuest(0, 100)))
	}
	for i, r := range w.receive(0) {
		if r.hdr.NumBuffers != 1 {
			t.Errorf("frame %d: num_buffers %d, want 1", i, r.hdr.NumBuffers)
		}
	}
}

// Used entries that were held back for a batch were not published when the
// guest sent nothing more.
func TestFault172HoldHasDeadline(t *testing.T) {
	p, err := netdev.ParsePolicy("hold:packets=64,time=50us")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, setup{cfg: netdev.Config{Policy: p}})
	start := w.now
	for range 8 {
		w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	}
	w.pollTX(0, netdev.Budget{})
	tx := w.dev.Pair(0).TX
	tx.Rearm()
	if n := w.reap(w.tx[0]); n != 0 {
		t.Fatalf("%d came back at once, want 0", n)
	}
	w.now = tx.Next(w.now)
	if d := w.now.Sub(start); d != p.HoldTime {
		t.Errorf("the deadline is after %v, want %v", d, p.HoldTime)
	}
	w.pollTX(0, netdev.Budget{})
	if n := w.reap(w.tx[0]); n != 8 {
		t.Errorf("%d came back at the deadline, want 8", n)
	}
}

// A ring that is smaller than the batch would wait for ever.
func TestFault172HoldOfSmallRing(t *testing.T) {
	p := netdev.Policy{HoldPackets: 100, HoldTime: netdev.MaxHoldTime}
	w := newWorld(t, setup{cfg: netdev.Config{Policy: p}, size: 8})
	for range 8 {
		w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	}
	if work, _ := w.pollTX(0, netdev.Budget{}); work.Completed != 8 {
		t.Errorf("%d of a full ring came back, want 8", work.Completed)
	}
}

// Frames were dropped when the sink was full, where they should have stayed in
// the ring.
func TestFault173BackPressure(t *testing.T) {
	w := newWorld(t, setup{wire: &wire{room: 5}})
	for flow := range 20 {
		w.send(0, virtio.NetHdr{}, build(fromGuest(flow, 100)))
	}
	tx := w.dev.Pair(0).TX
	for range 4 {
		w.pollTX(0, netdev.Budget{})
		if !tx.Blocked() && w.wire.sent < 20 {
			t.Fatal("a full wire does not block the queue")
		}
		w.wire.room += 5
		tx.Writable(w.now)
	}
	s := tx.Snapshot()
	if s.Packets != 20 || s.Drops.Total() != 0 || s.FullStops != 3 {
		t.Errorf("%d packets, drops %s, %d stops", s.Packets, marshal(t, s.Drops), s.FullStops)
	}
	for flow, f := range w.wire.frames {
		if !bytes.Equal(f, build(fromGuest(flow, 100))) {
			t.Errorf("frame %d is not in order", flow)
		}
	}
}
