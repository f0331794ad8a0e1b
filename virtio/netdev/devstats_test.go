package netdev_test

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// statGroup is one group of an answer.
type statGroup struct {
	Type   byte
	VQ     uint16
	Values []uint64
}

func readGroups(t *testing.T, b []byte) (all []statGroup) {
	t.Helper()
	le := binary.LittleEndian
	for len(b) > 0 {
		size := int(le.Uint16(b[6:]))
		g := statGroup{Type: b[0], VQ: le.Uint16(b[2:])}
		if size < 8 || size > len(b) || size%8 != 0 {
			t.Fatalf("a group of %d bytes, %d are there", size, len(b))
		}
		for v := b[8:size]; len(v) > 0; v = v[8:] {
			g.Values = append(g.Values, le.Uint64(v))
		}
		all, b = append(all, g), b[size:]
	}
	return all
}

func statsOf(vq uint16, groups uint64) []byte {
	return cat(le16(vq), make([]byte, 6), le64(groups))
}

// TestDeviceStats asks for the counters that the guest can know from the other
// side.
func TestDeviceStats(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 2}, ctrl: true})
	if ack, b := w.ask(8, []byte{8, 0}); ack != ackOK || binary.LittleEndian.Uint64(b) != 1<<32|7<<16|7 {
		t.Fatalf("capabilities %x, ack %d", b, ack)
	}
	h, f := gso(fromGuest(0, 4000), 1448)
	w.tx[1].EnableCalls()
	w.send(1, h, f)
	w.send(1, virtio.NetHdr{}, build(fromGuest(0, 100)))
	w.hostileHeader(1)
	w.pollTX(1, netdev.Budget{})
	w.offer(1, 1, 65600)
	rh, rf := gso(toGuest(0, 4000), 1448)
	w.deliver(1, rh, rf)
	w.deliver(1, virtio.NetHdr{Flags: virtio.HdrDataValid}, build(toGuest(0, 2)))
	tx, rx := w.dev.Pair(1).TX.Snapshot(), w.dev.Pair(1).RX.Snapshot()
	whole := uint64(len(f))
	cmd := cat([]byte{8, 1}, statsOf(2, 7), statsOf(3, 7<<16), statsOf(4, 1<<32), statsOf(0, 1))
	ack, b := w.ask(1000, cmd)
	if ack != ackOK {
		t.Fatal("refused")
	}
	want := []statGroup{
		{0, 2, []uint64{rx.Kicks, 1, uint64(len(rf)), rx.Calls, 0, 0}},
		{1, 2, []uint64{0, 1, 0, 0}},
		{2, 2, []uint64{1, whole, 3, rx.GSOSegBytes}},
		{16, 3, []uint64{tx.Kicks, 2, tx.Bytes, tx.Calls, 1, 1}},
		{17, 3, []uint64{1, 1}},
		{18, 3, []uint64{1, whole, 3, tx.GSOSegBytes, 1, whole}},
		{32, 4, []uint64{1, 1}},
		{0, 0, make([]uint64, 6)},
	}
	if d := cmp.Diff(want, readGroups(t, b)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if tx.Kicks == 0 || tx.Calls != 1 || tx.GSOSegBytes != whole+2*uint64(len(f)-4000) {
		t.Errorf("kicks %d, calls %d, bytes of segments %d", tx.Kicks, tx.Calls, tx.GSOSegBytes)
	}
	for _, bad := range [][]byte{statsOf(5, 1), statsOf(2, 8), statsOf(3, 1), statsOf(2, 0), statsOf(4, 1), {1, 2, 3}} {
		if ack, _ := w.ask(1000, cat([]byte{8, 1}, bad)); ack != ackBad {
			t.Errorf("%x was answered", bad)
		}
	}
	if ack, _ := w.ask(55, cat([]byte{8, 1}, statsOf(2, 1))); ack != ackBad {
		t.Error("an answer that does not fit was given")
	}
}

// hostileHeader sends a frame whose header asks for what cannot be.
func (w *world) hostileHeader(i int) {
	h, f := gso(fromGuest(0, 4000), 1448)
	h.GSOSize = 0
	w.send(i, h, f)
}

// TestDeviceStatsMost: an answer about every queue of the largest device.
func TestDeviceStatsMost(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 128}, ctrl: true, size: 64})
	cmd := []byte{8, 1}
	for i := range uint16(128) {
		cmd = cat(cmd, statsOf(2*i, 7), statsOf(2*i+1, 7<<16))
	}
	ack, b := w.ask(60000, cat(cmd, statsOf(256, 1<<32)))
	if got := readGroups(t, b); ack != ackOK || len(got) != 2*128*3+1 {
		t.Errorf("ack %d, %d groups", ack, len(got))
	}
}
