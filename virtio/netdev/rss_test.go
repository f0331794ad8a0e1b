package netdev_test

import (
	"encoding/binary"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

var rssKey = []byte("0123456789abcdefghijklmnopqrstuvwxyzABCD")

// rssConfig is the command RSS_CONFIG.
func rssConfig(types frame.HashTypes, table []uint16, unclassified, maxTX uint16, key []byte) []byte {
	b := cat([]byte{4, 1}, le32(uint32(types)), le16(uint16(len(table)-1)), le16(unclassified))
	for _, q := range table {
		b = append(b, le16(q)...)
	}
	return cat(b, le16(maxTX), []byte{byte(len(key))}, key)
}

func rssWorld(t *testing.T) *world {
	return newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4, Features: netdev.AllFeatures}, ctrl: true})
}

// TestRSSConfig walks the limits of RSS_CONFIG and HASH_CONFIG.
func TestRSSConfig(t *testing.T) {
	four := []uint16{0, 1, 2, 3}
	long := make([]uint16, 256)
	hash := cat([]byte{4, 2}, le32(uint32(frame.HashAll)), make([]byte, 8), []byte{40}, rssKey)
	for _, c := range []struct {
		name string
		cmd  []byte
		want byte
	}{
		{"four", rssConfig(frame.HashAll, four, 0, 4, rssKey), ackOK},
		{"one entry", rssConfig(0, four[:1], 3, 1, rssKey), ackOK},
		{"the largest table", rssConfig(frame.HashAll, long[:128], 0, 4, rssKey), ackOK},
		{"a short key", rssConfig(frame.HashAll, four, 0, 4, rssKey[:16]), ackOK},
		{"hashes only", hash, ackOK},
		{"table too large", rssConfig(frame.HashAll, long, 0, 4, rssKey), ackBad},
		{"three entries", rssConfig(frame.HashAll, four[:3], 0, 4, rssKey), ackBad},
		{"a queue that is none", rssConfig(frame.HashAll, []uint16{0, 4}, 0, 4, rssKey), ackBad},
		{"a reserved bit", rssConfig(frame.HashAll, []uint16{0, 0x8001}, 0, 4, rssKey), ackBad},
		{"unclassified out", rssConfig(frame.HashAll, four, 4, 4, rssKey), ackBad},
		{"no transmit queue", rssConfig(frame.HashAll, four, 0, 0, rssKey), ackBad},
		{"transmit queues over", rssConfig(frame.HashAll, four, 0, 5, rssKey), ackBad},
		{"unknown hash", rssConfig(1<<9, four, 0, 4, rssKey), ackBad},
		{"key too long", rssConfig(frame.HashAll, four, 0, 4, append(rssKey, 1)), ackBad},
		{"key cut", rssConfig(frame.HashAll, four, 0, 4, rssKey)[:30], ackBad},
		{"table cut", rssConfig(frame.HashAll, four, 0, 4, rssKey)[:14], ackBad},
		{"nothing", []byte{4, 1}, ackBad},
		{"hash cut", hash[:20], ackBad},
	} {
		w := rssWorld(t)
		if ack, acts := w.command(c.cmd); ack != c.want || (len(acts) == 1) != (c.want == ackOK) {
			t.Errorf("%s: ack %d, %d actions, want %d", c.name, ack, len(acts), c.want)
		}
	}
}

// TestRSSSteers: the table decides which pair a frame goes to, until
// VQ_PAIRS_SET says otherwise.
func TestRSSSteers(t *testing.T) {
	w := rssWorld(t)
	table := []uint16{3, 1, 2, 1}
	w.command(rssConfig(frame.HashAll, table, 2, 4, rssKey))
	if n := w.dev.ActivePairs(); n != 4 {
		t.Errorf("%d active pairs, want 4", n)
	}
	var h frame.Toeplitz
	h.SetKey(rssKey)
	seen := map[int]bool{}
	for flow := range 64 {
		f := build(toGuest(flow, 100))
		var in frame.Info
		frame.Parse(f, &in)
		sum, _ := h.Hash(f, &in, frame.HashTCPv4)
		got := w.dev.Steer(f)
		if want := int(table[sum&3]); got != want {
			t.Fatalf("flow %d goes to pair %d, want %d", flow, got, want)
		}
		seen[got] = true
	}
	if len(seen) != 3 {
		t.Errorf("the flows use %d pairs, want 3", len(seen))
	}
	arp := make([]byte, 60)
	arp[12], arp[13] = 8, 6
	if p := w.dev.Steer(arp); p != 2 {
		t.Errorf("a frame without a hash goes to pair %d, want 2", p)
	}
	w.command(cat([]byte{4, 0}, le16(1)))
	if p := w.dev.Steer(build(toGuest(1, 100))); p != 0 {
		t.Errorf("pair %d after VQ_PAIRS_SET 1", p)
	}
}

// TestHashReport: the header is 20 bytes in both directions, and has the hash
// when the guest has asked for it.
func TestHashReport(t *testing.T) {
	w := rssWorld(t)
	f := build(toGuest(0, 100))
	look := func() (hash uint32, report uint16) {
		t.Helper()
		w.offer(0, 1, 512)
		if r := w.deliver(0, virtio.NetHdr{}, f); r != netdev.DropNone {
			t.Fatal(r)
		}
		b, n, ok := w.reapRX(w.rx[0])
		if !ok || int(n) != virtio.HashNetHdrLen+len(f) || string(b[virtio.HashNetHdrLen:]) != string(f) {
			t.Fatalf("%d bytes %v", n, ok)
		}
		return binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint16(b[16:])
	}
	if hash, report := look(); hash != 0 || report != frame.ReportNone {
		t.Errorf("hash %#x, report %d without a configuration", hash, report)
	}
	w.command(cat([]byte{4, 2}, le32(uint32(frame.HashAll)), make([]byte, 8), []byte{40}, rssKey))
	var h frame.Toeplitz
	h.SetKey(rssKey)
	var in frame.Info
	frame.Parse(f, &in)
	want, _ := h.Hash(f, &in, frame.HashAll)
	if hash, report := look(); hash != want || report != frame.ReportTCPv4 {
		t.Errorf("hash %#x, report %d, want %#x and TCPv4", hash, report, want)
	}
	out := build(fromGuest(0, 64))
	w.queueTX(0, make([]byte, virtio.HashNetHdrLen), out)
	w.pollTX(0, netdev.Budget{})
	if len(w.wire.frames) != 1 || string(w.wire.frames[0]) != string(out) {
		t.Error("a frame behind a header of 20 bytes is not sent as it is")
	}
}
