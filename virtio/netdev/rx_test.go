package netdev_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

func TestDeliver(t *testing.T) {
	w := newWorld(t, setup{})
	w.offer(0, 4, 2048)
	w.pollRX(0)
	f := build(ackOf(toGuest(0, 0)))
	if r := w.dev.Pair(0).RX.Deliver(w.now, &virtio.NetHdr{}, f); r != netdev.DropNone {
		t.Fatal(r)
	}
	rx := w.dev.Pair(0).RX
	if rx.Next(w.now) != w.now || w.rx[0].HasUsed() {
		t.Error("a delivered frame does not wait for the next poll")
	}
	work, call := w.pollRX(0)
	if !call.Needed || work.Packets != 1 || work.Copied != len(f) || work.Completed != 1 || rx.Next(w.now) != vtime.Never {
		t.Errorf("poll did %+v, call %+v", work, call)
	}
	got := w.receive(0)
	if len(got) != 1 || !bytes.Equal(got[0].frame, f) || got[0].hdr != (virtio.NetHdr{NumBuffers: 1}) {
		t.Fatalf("the guest got %+v", got)
	}
	if s := rx.Snapshot(); s.Packets != 1 || s.ACKs != 1 || s.PureACKs != 1 || s.Bytes != uint64(len(f)) || s.Descs != 1 {
		t.Errorf("counters %+v", s)
	}
}

// TestReserve writes a frame straight into guest memory.
func TestReserve(t *testing.T) {
	for _, mrg := range []bool{true, false} {
		s := setup{}
		if !mrg {
			s.off = virtio.FeatureMrgRxBuf
		}
		w := newWorld(t, s)
		rx := w.dev.Pair(0).RX
		w.offer(0, 60, 1526)
		h, f := gso(toGuest(0, 1448), 1448)
		h.GSOType, h.GSOSize = virtio.GSONone, 0
		iov, ok := rx.Reserve(65550)
		if !ok {
			t.Fatal("no reservation")
		}
		if _, ok := rx.Reserve(1); ok {
			t.Error("two reservations at a time")
		}
		fill(t, iov, f, 65550)
		if r := rx.Commit(len(f), &h); r != netdev.DropNone {
			t.Fatal(r)
		}
		if r := rx.Commit(len(f), &h); r != netdev.DropStopped {
			t.Errorf("a second commit: %v", r)
		}
		work, _ := w.pollRX(0)
		got := w.receive(0)
		if len(got) != 1 || !bytes.Equal(got[0].frame, f) || got[0].hdr.NumBuffers != 1 || work.Copied != 0 {
			t.Errorf("mrg=%v: got %d frames, copied %d bytes", mrg, len(got), work.Copied)
		}
	}
}

// fill writes f to the reservation, which must hold want bytes.
func fill(t testing.TB, iov [][]byte, f []byte, want int) {
	t.Helper()
	room := 0
	for _, p := range iov {
		f = f[copy(p, f):]
		room += len(p)
	}
	if len(f) > 0 || room < want {
		t.Fatalf("reservation of %d bytes, want %d", room, want)
	}
}

// TestReserveTail: what does not fit the offered buffers is kept by the queue
// until there are more, and order is kept.
func TestReserveTail(t *testing.T) {
	w := newWorld(t, setup{})
	rx := w.dev.Pair(0).RX
	w.offer(0, 2, 1526)
	h, f := gso(toGuest(0, 20000), 1448)
	iov, ok := rx.Reserve(65550)
	if !ok {
		t.Fatal("no reservation")
	}
	fill(t, iov, f, 65550)
	if r := rx.Commit(len(f), &h); r != netdev.DropNone {
		t.Fatal(r)
	}
	if w.pollRX(0); len(w.receive(0)) != 0 || rx.Waiting() != 1 || !rx.Starved() {
		t.Fatalf("waiting %d starved %v, want 1, true", rx.Waiting(), rx.Starved())
	}
	small := build(toGuest(1, 50))
	if r := w.deliver(0, virtio.NetHdr{}, small); r != netdev.DropNone || rx.Waiting() != 2 {
		t.Fatalf("%v, waiting %d, want the second frame behind the first", r, rx.Waiting())
	}
	if _, ok := rx.Reserve(100); ok {
		t.Error("a reservation overtakes frames that wait")
	}
	if rx.Rearm() {
		t.Error("more buffers, but none were offered")
	}
	if !w.offer(0, 20, 1526) {
		t.Error("a starved queue does not ask for a kick")
	}
	rx.Kick(w.now, 1)
	if rx.Next(w.now) != w.now {
		t.Error("a kick does not wake a starved queue")
	}
	w.pollRX(0)
	got := w.receive(0)
	if len(got) != 2 || !bytes.Equal(got[0].frame, f) || !bytes.Equal(got[1].frame, small) {
		t.Fatalf("got %d frames, want the large one and then the small one", len(got))
	}
	if s := rx.Snapshot(); s.Spilled != 2 || s.Drops.Total() != 0 || rx.Waiting() != 0 || rx.Starved() {
		t.Errorf("spilled %d, want 2", s.Spilled)
	}
}

// TestReserveStarved: without a buffer the port keeps its frame.
func TestReserveStarved(t *testing.T) {
	w := newWorld(t, setup{off: virtio.FeatureEventIdx})
	rx := w.dev.Pair(0).RX
	w.pollRX(0)
	if _, ok := rx.Reserve(1500); ok || !rx.Starved() {
		t.Fatal("a reservation without buffers")
	}
	if rx.Rearm() {
		t.Error("buffers out of nowhere")
	}
	if !w.offer(0, 1, 2000) {
		t.Error("the guest need not kick a starved queue")
	}
	rx.Kick(w.now, 1)
	w.pollRX(0)
	if _, ok := rx.Reserve(1500); !ok {
		t.Fatal("no reservation with a buffer")
	}
	rx.Abort()
	if w.offer(0, 1, 2000) {
		t.Error("the guest has to kick a queue that has buffers")
	}
}

// TestAbort: an aborted reservation costs the guest nothing, and detaching
// gives back what was taken in advance.
func TestAbort(t *testing.T) {
	w := newWorld(t, setup{})
	rx := w.dev.Pair(0).RX
	w.offer(0, 8, 2048)
	if _, ok := rx.Reserve(9000); !ok {
		t.Fatal("no reservation")
	}
	rx.Abort()
	f := build(toGuest(0, 100))
	w.deliver(0, virtio.NetHdr{}, f)
	if got := w.receive(0); len(got) != 1 || !bytes.Equal(got[0].frame, f) {
		t.Fatal("the frame after an abort is not there")
	}
	if _, ok := rx.Reserve(9000); !ok {
		t.Fatal("no reservation")
	}
	q, _ := w.dev.Pair(0).DetachRX(w.now)
	if q.NextAvail() != 1 || q.UsedIdx() != 1 {
		t.Errorf("base %d used %d, want 1 and 1", q.NextAvail(), q.UsedIdx())
	}
}

// TestSpillBound: the spill is bounded, and what it cannot hold is counted.
func TestSpillBound(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{SpillBytes: 4096}})
	f := build(toGuest(0, 934)) // 1000 bytes, and 16 for the record
	for range 10 {
		w.deliver(0, virtio.NetHdr{}, f)
	}
	rx := w.dev.Pair(0).RX
	if s := rx.Snapshot(); s.Spilled != 4 || s.Drops[netdev.DropNoBuffers] != 6 {
		t.Errorf("spilled %d dropped %d, want 4 and 6", s.Spilled, s.Drops[netdev.DropNoBuffers])
	}
	w.offer(0, 2, 2048)
	w.kickRX(0)
	w.deliver(0, virtio.NetHdr{}, f) // goes around the end of the spill's ring
	w.deliver(0, virtio.NetHdr{}, f)
	w.offer(0, 10, 2048)
	w.kickRX(0)
	got := w.receive(0)
	if len(got) != 6 {
		t.Fatalf("%d frames, want 6", len(got))
	}
	for i := range got {
		if !bytes.Equal(got[i].frame, f) {
			t.Errorf("frame %d is damaged", i)
		}
	}
	w.dev.Pair(0).DetachRX(w.now)
}

func (w *world) kickRX(i int) {
	w.t.Helper()
	w.dev.Pair(i).Kick(w.now, netdev.DirRX, 1)
	w.pollRX(i)
}

// TestGuestOffloads: what the guest did not negotiate, or switched off, does
// not reach it.
func TestGuestOffloads(t *testing.T) {
	gsoHdr, gsoFrame := gso(toGuest(0, 4000), 1448)
	gso6Hdr, gso6Frame := gso(over6r(toGuest(0, 4000)), 1428)
	part := toGuest(0, 333)
	part.Partial = true
	partFrame := build(part)
	full := build(toGuest(0, 333))
	needs := virtio.NetHdr{Flags: virtio.HdrNeedsCSum, CSumStart: 34, CSumOffset: 16}
	valid := virtio.NetHdr{Flags: virtio.HdrDataValid}
	tso := virtio.FeatureGuestTSO4 | virtio.FeatureGuestTSO6 | virtio.FeatureGuestECN
	ecn := gsoHdr
	ecn.GSOType |= virtio.GSOECN
	out := func(h virtio.NetHdr) virtio.NetHdr { h.NumBuffers = 1; return h }
	for _, c := range []struct {
		name  string
		off   virtio.Features
		hdr   virtio.NetHdr
		frame []byte
		want  []virtio.NetHdr // headers that the guest sees
		same  []byte          // the frame that it sees, if one
	}{
		{"partial checksum", 0, needs, partFrame, []virtio.NetHdr{out(needs)}, partFrame},
		{"valid", 0, valid, full, []virtio.NetHdr{out(valid)}, full},
		{"unknown flags", 0, virtio.NetHdr{Flags: 0xfc, GSOSize: 3, CSumStart: 5}, full, []virtio.NetHdr{out(virtio.NetHdr{})}, full},
		{"gso", 0, gsoHdr, gsoFrame, []virtio.NetHdr{out(gsoHdr)}, gsoFrame},
		{"gso6", 0, gso6Hdr, gso6Frame, []virtio.NetHdr{out(gso6Hdr)}, gso6Frame},
		{"partial checksum, no GUEST_CSUM", virtio.FeatureGuestCSum | tso, needs, partFrame, []virtio.NetHdr{out(virtio.NetHdr{})}, full},
		{"valid, no GUEST_CSUM", virtio.FeatureGuestCSum | tso, valid, full, []virtio.NetHdr{out(virtio.NetHdr{})}, full},
		{"gso, no GUEST_TSO4", virtio.FeatureGuestTSO4, gsoHdr, gsoFrame, []virtio.NetHdr{out(valid), out(valid), out(valid)}, nil},
		{"gso6, no GUEST_TSO6", virtio.FeatureGuestTSO6, gso6Hdr, gso6Frame, []virtio.NetHdr{out(valid), out(valid), out(valid)}, nil},
		{"gso with ecn, no GUEST_ECN", virtio.FeatureGuestECN, ecn, gsoFrame, []virtio.NetHdr{out(valid), out(valid), out(valid)}, nil},
		{"gso, nothing negotiated", virtio.FeatureGuestCSum | tso, gsoHdr, gsoFrame, []virtio.NetHdr{out(virtio.NetHdr{}), out(virtio.NetHdr{}), out(virtio.NetHdr{})}, nil},
	} {
		for _, how := range []string{"deliver", "commit"} {
			t.Run(c.name+"/"+how, func(t *testing.T) {
				w := newWorld(t, setup{off: c.off})
				w.offer(0, 8, 65600)
				w.give(how, c.hdr, c.frame)
				got := w.receive(0)
				var hdrs []virtio.NetHdr
				var frames [][]byte
				for _, r := range got {
					hdrs = append(hdrs, r.hdr)
					frames = append(frames, r.frame)
					checkSums(t, r.hdr, r.frame)
				}
				if d := cmp.Diff(c.want, hdrs); d != "" {
					t.Fatalf("headers (-want +got):\n%s", d)
				}
				if c.same != nil && !bytes.Equal(c.same, frames[0]) {
					t.Error("the guest got another frame")
				}
				if !bytes.Equal(payloadOf(c.frame), payloadOf(frames...)) {
					t.Error("the guest got another payload")
				}
			})
		}
	}
}

func over6r(s frame.TCPSpec) frame.TCPSpec {
	s.Src, s.Dst = peerIP6, guestIP6
	return s
}

// give hands a frame to RX queue 0 by one of the two ways, and polls.
func (w *world) give(how string, h virtio.NetHdr, f []byte) netdev.DropReason {
	w.t.Helper()
	rx := w.dev.Pair(0).RX
	if how == "deliver" {
		return w.deliver(0, h, f)
	}
	iov, ok := rx.Reserve(len(f))
	if !ok {
		w.t.Fatal("no reservation")
	}
	fill(w.t, iov, f, len(f))
	r := rx.Commit(len(f), &h)
	w.pollRX(0)
	return r
}

// checkSums verifies the checksum of a TCP frame that is not partial.
func checkSums(t *testing.T, h virtio.NetHdr, f []byte) {
	t.Helper()
	if h.Flags&virtio.HdrNeedsCSum != 0 {
		return
	}
	var in frame.Info
	if !frame.Parse(f, &in) {
		t.Fatal("the guest got no TCP frame")
	}
	k, _ := in.Key(f)
	l4 := f[in.L4:in.End]
	if sum := frame.Sum(l4, frame.PseudoSum(k.Src, k.Dst, frame.ProtoTCP, uint32(len(l4)))); sum != 0xffff {
		t.Errorf("checksum of a frame of %d bytes is wrong by %#x", len(f), sum)
	}
}

// payloadOf joins the TCP payloads of frames.
func payloadOf(frames ...[]byte) (all []byte) {
	for _, f := range frames {
		var in frame.Info
		frame.Parse(f, &in)
		all = append(all, f[in.Payload:]...)
	}
	return all
}

// TestRXRefuses: headers that a port must not give are dropped and counted.
func TestRXRefuses(t *testing.T) {
	h, f := gso(toGuest(0, 4000), 1448)
	edit := func(g func(*virtio.NetHdr)) virtio.NetHdr { h := h; g(&h); return h }
	for _, c := range []struct {
		name  string
		hdr   virtio.NetHdr
		frame []byte
		want  netdev.DropReason
	}{
		{"gso size 0", edit(func(h *virtio.NetHdr) { h.GSOSize = 0 }), f, netdev.DropBadGSO},
		{"gso of udp", h, udp(f), netdev.DropBadGSO},
		{"gso type udp", edit(func(h *virtio.NetHdr) { h.GSOType = virtio.GSOUDP }), udp(f), netdev.DropBadGSO},
		{"checksum outside", edit(func(h *virtio.NetHdr) { h.CSumStart = 4060 }), f, netdev.DropBadCSum},
		{"checksum elsewhere", edit(func(h *virtio.NetHdr) { h.CSumStart = 14 }), f, netdev.DropBadGSO},
		{"segments over the mtu", edit(func(h *virtio.NetHdr) { h.GSOSize = 1449 }), f, netdev.DropMTU},
		{"frame over the mtu", virtio.NetHdr{}, build(toGuest(0, 1449)), netdev.DropMTU},
		{"no ethernet header", virtio.NetHdr{}, f[:13], netdev.DropShort},
	} {
		for _, how := range []string{"deliver", "commit"} {
			w := newWorld(t, setup{})
			w.offer(0, 8, 65600)
			r := w.give(how, c.hdr, c.frame)
			s := w.dev.Pair(0).RX.Snapshot()
			if r != c.want || s.Drops[c.want] != 1 || s.Drops.Total() != 1 || s.Packets != 0 || w.rx[0].HasUsed() {
				t.Errorf("%s by %s: %v, drops %s, want one %v", c.name, how, r, marshal(t, s.Drops), c.want)
			}
		}
	}
}

// TestUnusableBuffers: chains that cannot take a frame go back with length 0,
// in whatever order they stand among good ones, and frames stay whole.
func TestUnusableBuffers(t *testing.T) {
	for bad := range 5 {
		w := newWorld(t, setup{})
		q := w.rx[0]
		for i := range 5 {
			if i == bad {
				tiny := w.store(make([]byte, 11))
				if err := q.Add(nil, tiny, 99); err != nil {
					t.Fatal(err)
				}
				q.Publish()
				continue
			}
			w.offer(0, 1, 1526)
		}
		h, f := gso(toGuest(0, 4600), 1448) // fills three buffers and a bit
		w.offer(0, 4, 1526)
		w.deliver(0, h, f)
		w.deliver(0, virtio.NetHdr{}, build(toGuest(1, 100)))
		var lens []uint32
		for {
			token, n, ok := q.Reap()
			if !ok {
				break
			}
			if (token == 99) != (n == 0) {
				t.Errorf("bad=%d: buffer %d came back with length %d", bad, token, n)
			}
			if n > 0 {
				lens = append(lens, n)
			}
		}
		if want := []uint32{1526, 1526, 1526, 66 + 4600 + 12 - 3*1526, 66 + 100 + 12}; !cmp.Equal(lens, want) {
			t.Errorf("bad=%d: lengths %v, want %v", bad, lens, want)
		}
		s := w.dev.Pair(0).RX.Snapshot()
		if s.Drops[netdev.DropSmallBuffer] != 1 {
			t.Errorf("bad=%d: drops %s, want one small_buffer", bad, marshal(t, s.Drops))
		}
	}
}
