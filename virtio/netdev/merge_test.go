package netdev_test

import (
	"bytes"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

var merging = netdev.Config{Policy: netdev.Policy{Merge: true}}

// segment is a data segment at a place of flow 0's stream, its checksum left to
// the device.
func segment(at, n int) frame.TCPSpec {
	s := fromGuest(0, n)
	s.Seq, s.Partial = frame.Seq(1000+at), true
	return s
}

func plainHdr(s frame.TCPSpec) virtio.NetHdr {
	return virtio.NetHdr{Flags: virtio.HdrNeedsCSum, CSumStart: uint16(s.L4()), CSumOffset: frame.TCPCSumOffset}
}

// queueAll makes segments available without a poll in between, then polls.
func (w *world) queueAll(all ...frame.TCPSpec) {
	for _, s := range all {
		w.queueTX(0, append(w.encode(plainHdr(s)), build(s)...))
	}
	w.kick(0)
	w.pollTX(0, netdev.Budget{})
}

// Consecutive segments become one packet, which is what a guest with segmentation
// offload would have sent: lengths, checksums, PSH of the last, and its segments
// are no longer than the longest of them. All buffers come back.
func TestMerge(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		w := newWorld(t, setup{cfg: merging})
		var all []frame.TCPSpec
		var payload []byte
		for i, n := range []int{1400, 1400, 700, 1400, 20} {
			s := segment(len(payload), n)
			if i < 4 {
				s.Flags &^= frame.TCPPsh
			}
			if v6 {
				s.Src, s.Dst = frame.Addr{0xfd, 15: 2}, frame.Addr{0xfd, 15: 1}
			}
			payload = append(payload, s.Payload...)
			all = append(all, s)
		}
		w.queueAll(all...)
		if len(w.wire.frames) != 1 {
			t.Fatalf("the port got %d packets, want 1", len(w.wire.frames))
		}
		whole := all[0]
		whole.Payload, whole.Flags = payload, frame.TCPAck|frame.TCPPsh
		h, want := gso(whole, 1400)
		if !bytes.Equal(w.wire.frames[0], want) {
			t.Errorf("the packet is not what a guest would have sent in one")
		}
		if w.wire.hdrs[0] != h {
			t.Errorf("net header %+v, want %+v", w.wire.hdrs[0], h)
		}
		s := w.dev.Pair(0).TX.Snapshot()
		if s.Packets != 5 || s.Joined != 4 || s.Floor != 1 || s.PayloadBytes != uint64(len(payload)) {
			t.Errorf("%d packets, %d joined, floor %d, %d bytes", s.Packets, s.Joined, s.Floor, s.PayloadBytes)
		}
		if n := w.reap(w.tx[0]); n != 5 {
			t.Errorf("%d of 5 buffers came back", n)
		}
	}
}

// What the rules of receive offload keep apart stays apart.
func TestMergeRules(t *testing.T) {
	for name, change := range map[string]func(*frame.TCPSpec){
		"a gap":             func(s *frame.TCPSpec) { s.Seq += 10 },
		"sent again":        func(s *frame.TCPSpec) { s.Seq -= 1400 },
		"another flow":      func(s *frame.TCPSpec) { s.SrcPort++ },
		"another host":      func(s *frame.TCPSpec) { s.Dst[15]++ },
		"another station":   func(s *frame.TCPSpec) { s.DstMAC[5]++ },
		"another VLAN":      func(s *frame.TCPSpec) { s.VLAN = 5 },
		"acknowledges more": func(s *frame.TCPSpec) { s.Ack++ },
		"another window":    func(s *frame.TCPSpec) { s.Window++ },
		"a later timestamp": func(s *frame.TCPSpec) { s.TSVal++ },
		"an option more":    func(s *frame.TCPSpec) { s.SACK = []frame.SACKBlock{{Start: 1, End: 2}} },
		"FIN":               func(s *frame.TCPSpec) { s.Flags |= frame.TCPFin },
		"CWR":               func(s *frame.TCPSpec) { s.Flags |= frame.TCPCwr },
		"ECE":               func(s *frame.TCPSpec) { s.Flags |= frame.TCPEce },
		"URG":               func(s *frame.TCPSpec) { s.Flags |= frame.TCPUrg },
		"another class":     func(s *frame.TCPSpec) { s.TOS = 8 },
		"congestion marked": func(s *frame.TCPSpec) { s.TOS = 3 },
		"another TTL":       func(s *frame.TCPSpec) { s.TTL = 63 },
		"no data":           func(s *frame.TCPSpec) { s.Payload = nil },
	} {
		w := newWorld(t, setup{cfg: merging})
		second := segment(1400, 1400)
		change(&second)
		w.queueAll(segment(0, 1400), second)
		if n := len(w.wire.frames); n != 2 {
			t.Errorf("%s: the port got %d packets, want 2", name, n)
		} else if !bytes.Equal(w.wire.frames[0], build(segment(0, 1400))) || !bytes.Equal(w.wire.frames[1], build(second)) {
			t.Errorf("%s: the packets were changed", name)
		}
	}
}

// A finished checksum would have to be verified first; a packet that may be
// fragmented needs its identification.
func TestMergeLeavesOthersAlone(t *testing.T) {
	for name, change := range map[string]func(h *virtio.NetHdr, f []byte){
		"finished checksum": func(h *virtio.NetHdr, f []byte) { *h = virtio.NetHdr{} },
		"may be fragmented": func(_ *virtio.NetHdr, f []byte) {
			ip := frame.IPv4(f[frame.EthernetLen:][:frame.IPv4Len])
			ip[6] &^= 0x40
			ip.UpdateCSum()
		},
	} {
		w := newWorld(t, setup{cfg: merging})
		for i := range 3 {
			s := segment(i*1000, 1000)
			h, f := plainHdr(s), build(s)
			change(&h, f)
			w.queueTX(0, append(w.encode(h), f...))
		}
		w.kick(0)
		w.pollTX(0, netdev.Budget{})
		if n := len(w.wire.frames); n != 3 {
			t.Errorf("%s: the port got %d packets, want 3", name, n)
		}
	}
}

// GSO packets are joined up to the longest IP packet.
func TestMergeLimit(t *testing.T) {
	w := newWorld(t, setup{cfg: merging})
	total := 0
	for range 8 {
		s := fromGuest(0, 14480)
		s.Seq = frame.Seq(1000 + total)
		total += 14480
		h, f := gso(s, 1448)
		w.queueTX(0, append(w.encode(h), f...))
	}
	w.kick(0)
	w.pollTX(0, netdev.Budget{})
	var lens []int
	for _, f := range w.wire.frames {
		lens = append(lens, len(f))
		total -= len(f) - fromHeaders
	}
	if len(lens) != 2 || total != 0 {
		t.Errorf("packets of %v bytes, want two with all of the data", lens)
	}
}

// fromHeaders is the length of the headers of fromGuest's frames.
const fromHeaders = 14 + 20 + 32

// A port that is full gets the same packet again; one that keeps it gives all of
// its parts back at once.
func TestMergeFullAndLater(t *testing.T) {
	w := newWorld(t, setup{cfg: merging})
	w.wire.result = netdev.Full
	w.queueAll(segment(0, 1448), segment(1448, 1448), segment(2896, 100))
	if tx := w.dev.Pair(0).TX; !tx.Blocked() || tx.InFlight() != 0 || tx.Snapshot().Packets != 0 {
		t.Fatalf("blocked %v, in flight %d, packets %d", tx.Blocked(), tx.InFlight(), tx.Snapshot().Packets)
	}
	w.wire.result = netdev.Later
	tx := w.dev.Pair(0).TX
	tx.Writable(w.now)
	w.pollTX(0, netdev.Budget{})
	if len(w.wire.frames) != 1 || tx.InFlight() != 3 || w.reap(w.tx[0]) != 0 {
		t.Fatalf("%d packets, %d in flight", len(w.wire.frames), tx.InFlight())
	}
	tx.Complete(w.wire.tokens[0], w.now)
	w.pollTX(0, netdev.Budget{})
	if n := w.reap(w.tx[0]); n != 3 || tx.InFlight() != 0 {
		t.Errorf("%d of 3 buffers came back, %d in flight", n, tx.InFlight())
	}
	if tx.Complete(w.wire.tokens[0], w.now); tx.Snapshot().StaleTokens != 1 {
		t.Error("a token twice is not stale")
	}
}

// A guest without segmentation offload has no GSO packet sent in its name, and a
// chain that is offered twice is found out.
func TestMergeHostileAndPlainGuests(t *testing.T) {
	w := newWorld(t, setup{cfg: merging, off: virtio.FeatureHostTSO4})
	w.queueAll(segment(0, 1000), segment(1000, 1000))
	if n := len(w.wire.frames); n != 2 {
		t.Errorf("without HOST_TSO4 the port got %d packets, want 2", n)
	}
}
