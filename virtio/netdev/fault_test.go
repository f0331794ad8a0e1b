package netdev_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// The tests of this file each replay a fault that another back-end once had.
// The numbers are those of the project's list of known faults; the comment
// says what went wrong there.

// A completion of an asynchronous send after the ring was reset made the count
// of buffers in use negative.
func TestFault062LateCompletion(t *testing.T) {
	w := newWorld(t, setup{wire: &wire{result: netdev.Later}})
	w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	w.pollTX(0, netdev.Budget{})
	w.dev.Reset()
	if err := w.dev.SetFeatures(w.dev.Features()); err != nil {
		t.Fatal(err)
	}
	w.tx[0] = w.newQueue(256)
	w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	tx := w.dev.Pair(0).TX
	tx.Complete(w.wire.tokens[0], w.now)
	if tx.Next(w.now+1) != w.now+1 {
		t.Error("the new ring is not looked at")
	}
	work, _ := w.pollTX(0, netdev.Budget{})
	if used, _ := w.used(w.tx[0]); used != 0 || work.Completed != 0 || tx.Snapshot().StaleTokens != 1 {
		t.Errorf("a completion of the old ring reached the new one: used %d", used)
	}
}

// After a restart the back-end remembered which index it had signalled, and
// the guest waited for ever.
func TestFault064FirstCall(t *testing.T) {
	for _, event := range []uint16{0, 1, 0x7fff, 0xffff} {
		w := newWorld(t, setup{})
		binary.LittleEndian.PutUint16(w.bytes(w.tx[0].cfg.Avail+4+2*256, 2), event)
		w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
		if _, call := w.pollTX(0, netdev.Budget{}); !call.Needed || call.Reason != netdev.CallFirst {
			t.Errorf("used_event %#x: call %+v, want the first one", event, call)
		}
	}
}

// Work arrived between the last look and the re-arming of kicks, and stayed.
func TestFault067LookAgain(t *testing.T) {
	for _, off := range []virtio.Features{0, virtio.FeatureEventIdx} {
		w := newWorld(t, setup{off: off})
		w.pollTX(0, netdev.Budget{})
		tx := w.dev.Pair(0).TX
		if w.queueTX(0, append(w.encode(virtio.NetHdr{}), build(fromGuest(0, 9))...)) && off != 0 {
			t.Error("the guest kicks a device that is awake")
		}
		if !tx.Rearm() || tx.Next(w.now) != w.now {
			t.Error("re-arming does not look again")
		}
		if work, _ := w.pollTX(0, netdev.Budget{}); work.Packets != 1 || tx.Rearm() {
			t.Errorf("%d packets, want 1, and then rest", work.Packets)
		}
	}
}

// The ring was already filled when the queue was started, and the guest saw no
// reason to kick again. The same where it was filled while disabled.
func TestFault041StartLooks(t *testing.T) {
	w := newWorld(t, setup{noTX: true})
	w.queueTX(0, append(w.encode(virtio.NetHdr{}), build(fromGuest(0, 9))...))
	w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	tx := w.dev.Pair(0).TX
	if tx.Next(w.now) != w.now {
		t.Fatal("a start does not ask for a poll")
	}
	if work, _ := w.pollTX(0, netdev.Budget{}); work.Packets != 1 {
		t.Errorf("%d packets, want 1", work.Packets)
	}
	if s := tx.Snapshot(); s.KicksSuppressed != 0 || s.Kicks != 0 {
		t.Errorf("packets of a ring that was stopped count as suppressed kicks: %d", s.KicksSuppressed)
	}
}

// The control queue used the flags although EVENT_IDX was negotiated.
func TestFault077CtrlEventIdx(t *testing.T) {
	w := newWorld(t, setup{ctrl: true})
	w.command([]byte{0, 0, 1}) // the unconditional first call
	w.ctrl.DisableCalls()      // leaves used_event where it is, at the next element
	w.command([]byte{0, 0, 1})
	calls := w.dev.Ctrl().Snapshot().Calls
	w.command([]byte{0, 0, 1})
	w.command([]byte{0, 0, 1})
	s := w.dev.Ctrl().Snapshot()
	if s.Calls != calls || s.CallsSuppressed[netdev.CallEventIdx] != 2 {
		t.Errorf("%d calls, suppressed %s, want none and 2 by event_idx", s.Calls-calls, marshal(t, s.CallsSuppressed))
	}
}

// An available index that jumped by more than the ring's size hung the process
// or read stale entries.
func TestFault091AvailJump(t *testing.T) {
	w := newWorld(t, setup{ctrl: true})
	for _, q := range []*guestQueue{w.tx[0], w.rx[0], w.ctrl} {
		w.setAvail(q, q.cfg.Size+44)
	}
	p := w.dev.Pair(0)
	_, _, txErr := p.TX.Poll(w.now, netdev.Budget{})
	p.RX.Deliver(w.now, &virtio.NetHdr{}, build(toGuest(0, 1)))
	_, _, rxErr := p.RX.Poll(w.now, netdev.Budget{})
	_, _, _, ctrlErr := w.dev.Ctrl().Poll(w.now, netdev.Budget{})
	for i, err := range []error{txErr, rxErr, ctrlErr} {
		if !errors.Is(err, netdev.ErrBroken) || !errors.Is(err, ring.ErrAvailJump) {
			t.Errorf("queue %d: error %v, want ErrBroken for ErrAvailJump", i, err)
		}
	}
	if p.TX.Next(w.now) != vtime.Never || p.TX.Rearm() || p.RX.Rearm() || w.dev.Ctrl().Rearm() {
		t.Error("a broken queue asks for more")
	}
	why := netdev.FaultDrop(ring.ErrAvailJump)
	if s := p.TX.Snapshot(); s.Drops[why] != 1 || why.String() != "chain_avail_jump" {
		t.Errorf("drops %s", marshal(t, s.Drops))
	}
	if r := w.dev.Pair(0).RX.Deliver(w.now, &virtio.NetHdr{}, build(toGuest(0, 1))); r != netdev.DropStopped {
		t.Errorf("delivery to a broken queue: %v", r)
	}
}

// csum_start was read twice, and the guest changed it in between.
func TestFault094HeaderReadOnce(t *testing.T) {
	h, f := gso(fromGuest(0, 4000), 1448)
	w := newWorld(t, setup{})
	var gpa uint64
	w.wire.onSend = func(netdev.Token) { copy(w.bytes(gpa, 12), bytes.Repeat([]byte{0xff}, 12)) }
	buf := w.store(append(w.encode(h), f...))
	gpa = buf[0].Addr
	if err := w.tx[0].Add(buf, nil, 0); err != nil {
		t.Fatal(err)
	}
	w.tx[0].Publish()
	w.kick(0)
	w.pollTX(0, netdev.Budget{})
	s := w.dev.Pair(0).TX.Snapshot()
	if s.GSOSegs != 3 || s.PayloadBytes != 4000 || w.wire.hdrs[0] != h {
		t.Errorf("counted %d segments of %d bytes after the guest changed the header", s.GSOSegs, s.PayloadBytes)
	}
}

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

// A control command in a chain that loops or leaves its table hung the device.
func TestFault100CtrlChain(t *testing.T) {
	for _, c := range []struct {
		name string
		d    []desc
		want ring.Fault
	}{
		{"loop", []desc{{memBase, 2, fNext, 0}}, ring.ErrLoop},
		{"next beyond the table", []desc{{memBase, 2, fNext, 64}}, ring.ErrNext},
		{"no such memory", []desc{{1 << 60, 2, 0, 0}}, ring.ErrBadAddress},
	} {
		w := newWorld(t, setup{ctrl: true})
		w.hostile(w.ctrl, 0, c.d...)
		_, _, acts, err := w.dev.Ctrl().Poll(w.now, netdev.Budget{})
		s := w.dev.Ctrl().Snapshot()
		if err != nil || len(acts) != 0 || s.Drops[netdev.FaultDrop(c.want)] != 1 {
			t.Errorf("%s: %v, drops %s", c.name, err, marshal(t, s.Drops))
		}
		if idx, n := w.used(w.ctrl); idx != 1 || n != 0 {
			t.Errorf("%s: used %d length %d, want 1 and 0", c.name, idx, n)
		}
	}
}

// More commands than the control queue has entries went past its end.
func TestFault101CtrlWraps(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}, ctrl: true})
	for i := range 200 {
		if ack, _ := w.command(cat([]byte{4, 0}, le16(uint16(1+i%4)))); ack != 0 || w.dev.ActivePairs() != 1+i%4 {
			t.Fatalf("command %d: ack %d, %d pairs", i, ack, w.dev.ActivePairs())
		}
	}
	if s := w.dev.Ctrl().Snapshot(); s.Packets != 200 || s.Drops.Total() != 0 {
		t.Errorf("%d commands answered", s.Packets)
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

// A large frame in mergeable buffers: the count of buffers and their lengths
// must be exact, all but the last full, and seen by the guest at once.
func TestFault113MergeableExact(t *testing.T) {
	for _, how := range []string{"deliver", "commit"} {
		w := newWorld(t, setup{cfg: netdev.Config{MTU: 9000}})
		w.offer(0, 10, 1526)
		f := build(toGuest(0, 9000-66+14)) // 9000 bytes with the Ethernet header less 14
		f = f[:9000]
		w.give(how, virtio.NetHdr{}, f)
		got := w.receive(0)
		want := []uint32{1526, 1526, 1526, 1526, 1526, 12 + 9000 - 5*1526}
		if len(got) != 1 || !cmp.Equal(got[0].lens, want) || !bytes.Equal(got[0].frame, f) {
			t.Fatalf("%s: %d frames, lengths %v, want %v", how, len(got), got[0].lens, want)
		}
	}
}

// The header is 12 bytes with VERSION_1 or MRG_RXBUF, else 10.
func TestFault115HeaderLength(t *testing.T) {
	for _, c := range []struct {
		off  virtio.Features
		want int
	}{
		{0, 12}, {virtio.FeatureVersion1, 12}, {virtio.FeatureMrgRxBuf, 12},
		{virtio.FeatureVersion1 | virtio.FeatureMrgRxBuf, 10},
	} {
		w := newWorld(t, setup{off: c.off})
		f := build(fromGuest(0, 100))
		w.queueTX(0, append(make([]byte, c.want), f...))
		w.pollTX(0, netdev.Budget{})
		if len(w.wire.frames) != 1 || !bytes.Equal(w.wire.frames[0], f) {
			t.Errorf("without %v TX does not have a header of %d bytes", c.off, c.want)
		}
		w.offer(0, 1, 2000)
		w.deliver(0, virtio.NetHdr{}, f)
		if _, n, ok := w.rx[0].Reap(); !ok || int(n) != c.want+len(f) {
			t.Errorf("without %v RX wrote %d bytes, want %d", c.off, n, c.want+len(f))
		}
	}
}

// Receive buffers of a byte, or without room for the header, killed the worker.
func TestFault125TinyBuffers(t *testing.T) {
	for _, off := range []virtio.Features{0, virtio.FeatureMrgRxBuf} {
		w := newWorld(t, setup{off: off, size: 16})
		w.offer(0, 16, 1)
		w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 10)))
		if n := w.reap(w.rx[0]); n != 16 {
			t.Errorf("%d tiny buffers came back, want 16", n)
		}
		w.offer(0, 1, 2000)
		w.kickRX(0)
		if got := w.receive(0); len(got) != 1 {
			t.Errorf("%d frames after the guest mended its buffers, want 1", len(got))
		}
	}
	w := newWorld(t, setup{})
	w.hostile(w.rx[0], 0, desc{addr: memBase + 4096, len: 0, flags: fWrite})
	w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 10)))
	if s := w.dev.Pair(0).RX.Snapshot(); s.Drops[netdev.FaultDrop(ring.ErrZeroLen)] != 1 || w.dev.Pair(0).RX.Waiting() != 1 {
		t.Errorf("a buffer of no bytes: drops %s", marshal(t, s.Drops))
	}
}

// hdr_len was believed.
func TestFault128HdrLenLies(t *testing.T) {
	h, f := gso(fromGuest(0, 4000), 1448)
	for _, lie := range []uint16{0, 14, 0xffff} {
		sent := h
		sent.HdrLen = lie
		w := newWorld(t, setup{})
		w.send(0, sent, f)
		w.pollTX(0, netdev.Budget{})
		if len(w.wire.hdrs) != 1 || w.wire.hdrs[0] != h {
			t.Errorf("hdr_len %d: the wire got %+v, want the measured %d", lie, w.wire.hdrs, h.HdrLen)
		}
	}
}

// A 64 KB frame for a guest that cannot merge buffers and posted small ones was
// cut, or blocked the queue.
func TestFault133LargeFrameSmallBuffers(t *testing.T) {
	h, f := gso(toGuest(0, 40*1448), 1448)
	w := newWorld(t, setup{off: virtio.FeatureMrgRxBuf})
	w.offer(0, 60, 1526)
	if r := w.deliver(0, h, f); r != netdev.DropNone {
		t.Fatal(r)
	}
	got := w.receive(0)
	if len(got) != 40 || got[0].hdr.Flags != virtio.HdrDataValid {
		t.Fatalf("%d frames, want 40 segments", len(got))
	}
	var frames [][]byte
	for _, r := range got {
		checkSums(t, virtio.NetHdr{}, r.frame)
		frames = append(frames, r.frame)
	}
	if !bytes.Equal(payloadOf(frames...), payloadOf(f)) {
		t.Error("the payload is damaged")
	}

	// What cannot be segmented is dropped and counted, and blocks nothing.
	w = newWorld(t, setup{off: virtio.FeatureMrgRxBuf | virtio.FeatureMTU})
	w.offer(0, 2, 1526)
	if r := w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 3000))); r != netdev.DropNoRoom {
		t.Errorf("a frame that never fits: %v, want no_room", r)
	}
	w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 30)))
	if got := w.receive(0); len(got) != 1 || len(payloadOf(got[0].frame)) != 30 {
		t.Errorf("%d frames, want the one that fits", len(got))
	}
}

// Features of the session before were still in force.
func TestFault134FeaturesOfThisSession(t *testing.T) {
	w := newWorld(t, setup{off: virtio.FeatureGuestTSO4 | virtio.FeatureGuestECN})
	h, f := gso(toGuest(0, 4000), 1448)
	w.offer(0, 8, 65600)
	w.deliver(0, h, f)
	if n := len(w.receive(0)); n != 3 {
		t.Fatalf("%d frames in the first session, want 3", n)
	}
	w.dev.Reset()
	if err := w.dev.SetFeatures(w.dev.Features()); err != nil {
		t.Fatal(err)
	}
	w.rx[0] = w.newQueue(256)
	w.dev.Pair(0).AttachRX(w.now, w.device(w.rx[0]))
	w.offer(0, 8, 65600)
	w.deliver(0, h, f)
	if got := w.receive(0); len(got) != 1 || got[0].hdr.GSOType != virtio.GSOTCPv4 {
		t.Fatalf("%d frames in the second session, want a GSO one", len(got))
	}
}

// VQ_PAIRS_SET was ignored: firmware that uses one pair lost its frames.
func TestFault136PairsAfterReset(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}, ctrl: true})
	steered := func() int {
		pairs := map[int]bool{}
		for flow := range 64 {
			pairs[w.dev.Steer(build(toGuest(flow, 10)))] = true
		}
		return len(pairs)
	}
	if n := steered(); n != 1 {
		t.Errorf("before the command frames go to %d pairs, want 1", n)
	}
	w.command(cat([]byte{4, 0}, le16(4)))
	if n := steered(); n != 4 {
		t.Errorf("after the command frames go to %d pairs, want 4", n)
	}
	w.command(cat([]byte{4, 0}, le16(1)))
	if n := steered(); n != 1 {
		t.Errorf("after going back frames go to %d pairs, want 1", n)
	}
	w.command(cat([]byte{4, 0}, le16(4)))
	w.dev.Reset()
	if n := w.dev.ActivePairs(); n != 1 {
		t.Errorf("%d active pairs after a reset, want 1", n)
	}
}

// Fewer rings were set up than announced, and the device waited for the rest.
func TestFault137FewerPairs(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 8}, noTX: true, noRX: true})
	w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	w.dev.Pair(0).AttachRX(w.now, w.device(w.rx[0]))
	w.offer(0, 4, 2000)
	w.send(0, virtio.NetHdr{}, build(fromGuest(0, 10)))
	work, _ := w.pollTX(0, netdev.Budget{})
	f := build(toGuest(5, 10))
	if i := w.dev.Steer(f); i != 0 || work.Packets != 1 || w.deliver(i, virtio.NetHdr{}, f) != netdev.DropNone {
		t.Errorf("one pair of eight: sent %d, steered to %d", work.Packets, i)
	}
}

// used.len of a control command was not what was written, and a driver took the
// device for dead. A command without room for the answer is not carried out.
func TestFault146CtrlUsedLen(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}, ctrl: true})
	w.command([]byte{9, 9}) // checks the length itself
	if err := w.ctrl.Add(w.store(cat([]byte{4, 0}, le16(4))), nil, 1); err != nil {
		t.Fatal(err)
	}
	if acts := w.pollCtrl(); len(acts) != 0 || w.dev.ActivePairs() != 1 {
		t.Error("a command without room for an answer was carried out")
	}
	if _, n, ok := w.ctrl.Reap(); !ok || n != 0 || w.dev.Ctrl().Snapshot().Drops[netdev.DropNoAck] != 1 {
		t.Errorf("used length %d %v, want 0", n, ok)
	}
}

// Replies woke another vCPU than the one that sent.
func TestFault155SteeringFollows(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}})
	for _, i := range []int{2, 0, 3, 3, 1} {
		w.sendFlow(i, 17)
		if got := w.dev.Steer(build(toGuest(17, 10))); got != i {
			t.Errorf("sent on %d, the reply goes to %d", i, got)
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

// The receive ring ran dry and the wake-up was lost.
func TestFault185RXRunsDry(t *testing.T) {
	for _, off := range []virtio.Features{0, virtio.FeatureEventIdx} {
		w := newWorld(t, setup{off: off})
		rx := w.dev.Pair(0).RX
		f := build(toGuest(0, 100))
		for range 50 {
			w.offer(0, 1, 2000)
			w.kickRX(0)
			for range 3 {
				w.deliver(0, virtio.NetHdr{}, f)
			}
			for rx.Rearm() {
				w.pollRX(0)
			}
			if !w.offer(0, 2, 2000) {
				t.Fatal("the guest need not kick a queue that ran dry")
			}
			w.kickRX(0)
			if n := len(w.receive(0)); n != 3 {
				t.Fatalf("%d frames, want 3", n)
			}
		}
		if s := rx.Snapshot(); s.Drops.Total() != 0 || s.Packets != 150 {
			t.Errorf("%d packets, drops %s", s.Packets, marshal(t, s.Drops))
		}
	}
}
