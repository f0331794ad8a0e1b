package netdev_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct {
		cfg  netdev.Config
		want string
	}{
		{netdev.Config{QueuePairs: 129}, "QueuePairs 129 is not in 1..128"},
		{netdev.Config{QueuePairs: -1}, "QueuePairs -1"},
		{netdev.Config{QueuePairs: 2, Features: virtio.FeatureVersion1}, "QueuePairs 2 needs feature MQ"},
		{netdev.Config{Features: 1 << 62}, "bit 62 is not implemented"},
		{netdev.Config{Features: virtio.FeatureMQ}, "MQ needs CTRL_VQ"},
		{netdev.Config{MAC: [6]byte{1}}, "group address"},
		{netdev.Config{MTU: 67}, "MTU 67 is below 68"},
		{netdev.Config{TSOMaxSize: 1 << 20}, "TSOMaxSize"},
		{netdev.Config{SpillBytes: 1}, "SpillBytes"},
		{netdev.Config{FlowSlots: 300}, "FlowSlots 300 is not a power of two"},
		{netdev.Config{Policy: netdev.Policy{HoldPackets: 3}}, "HoldPackets 3 needs a HoldTime"},
	} {
		_, err := netdev.New(c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.cfg, err, c.want)
		}
	}
}

func TestConfigSpace(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4, MTU: 9000}})
	b := w.dev.ConfigSpace()
	if len(b) != virtio.NetConfigLen || [6]byte(b) != guestMAC {
		t.Errorf("config space %x lacks the MAC", b)
	}
	le := binary.LittleEndian
	if le.Uint16(b[6:]) != virtio.NetStatusLinkUp || le.Uint16(b[8:]) != 4 || le.Uint16(b[10:]) != 9000 {
		t.Errorf("config space %x, want link up, 4 pairs, MTU 9000", b)
	}
	if !w.dev.SetLink(false) || w.dev.SetLink(false) {
		t.Error("SetLink does not report the change, once")
	}
	if b := w.dev.ConfigSpace(); le.Uint16(b[6:]) != 0 {
		t.Errorf("status %#x with the link down", le.Uint16(b[6:]))
	}
}

func TestSetFeatures(t *testing.T) {
	w := newWorld(t, setup{})
	acked := w.dev.Acked()
	if err := w.dev.SetFeatures(acked | virtio.FeatureMQ); !errors.Is(err, netdev.ErrFeatures) || !strings.Contains(err.Error(), "MQ") {
		t.Errorf("not offered: %v", err)
	}
	if err := w.dev.SetFeatures(acked); err != nil {
		t.Errorf("the same set while a ring runs: %v", err)
	}
	if err := w.dev.SetFeatures(virtio.FeatureVersion1); !errors.Is(err, netdev.ErrRunning) {
		t.Errorf("another set while a ring runs: %v", err)
	}
	w.dev.Reset()
	if err := w.dev.SetFeatures(virtio.FeatureVersion1); err != nil || w.dev.Acked() != virtio.FeatureVersion1 {
		t.Errorf("after a reset: %v", err)
	}
}

// TestDetachTX: what the device holds when the ring stops is given back, and
// what ports say later is ignored.
func TestDetachTX(t *testing.T) {
	w := newWorld(t, setup{wire: &wire{result: netdev.Later}})
	tx := w.dev.Pair(0).TX
	for range 3 {
		w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	}
	w.pollTX(0, netdev.Budget{Packets: 2})
	if tx.InFlight() != 2 {
		t.Fatalf("%d in flight, want 2", tx.InFlight())
	}
	q, call := w.dev.Pair(0).DetachTX(w.now)
	if q.NextAvail() != 2 || q.UsedIdx() != 2 || !call.Needed {
		t.Errorf("base %d used %d call %v, want 2, 2, true", q.NextAvail(), q.UsedIdx(), call.Needed)
	}
	if n := w.reap(w.tx[0]); n != 2 {
		t.Errorf("the guest got %d back, want 2", n)
	}
	before := string(w.raw)
	tx.Complete(w.wire.tokens[0], w.now)
	if _, call, err := tx.Poll(w.now, netdev.Budget{}); call.Needed || err != nil || tx.Next(w.now) != vtime.Never || tx.Rearm() {
		t.Error("a detached queue still acts")
	}
	if string(w.raw) != before {
		t.Error("a detached queue wrote to guest memory")
	}

	// The ring goes on where it stopped; the old token is still stale.
	cfg := w.tx[0].cfg
	cfg.Base = q.Base()
	w.tx[0].cfg = cfg
	w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	w.wire.result = netdev.Sent
	if work, _ := w.pollTX(0, netdev.Budget{}); work.Packets != 1 {
		t.Errorf("%d packets after the restart, want 1", work.Packets)
	}
	tx.Complete(w.wire.tokens[1], w.now)
	if s := tx.Snapshot(); s.StaleTokens != 2 || s.Packets != 3 {
		t.Errorf("stale %d packets %d, want 2 and 3", s.StaleTokens, s.Packets)
	}
}

// TestResetKeepsCounters: counters survive, attachments and tokens do not, and
// guest memory is not written.
func TestResetKeepsCounters(t *testing.T) {
	w := newWorld(t, setup{wire: &wire{delay: 50}})
	w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	w.offer(0, 4, 2048)
	w.pollTX(0, netdev.Budget{})
	w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 10)))
	before := string(w.raw)
	w.dev.Reset()
	p := w.dev.Pair(0)
	if p.TX.Attached() || p.RX.Attached() || p.TX.InFlight() != 0 || w.dev.Acked() != 0 {
		t.Error("a reset leaves something attached or acknowledged")
	}
	if string(w.raw) != before {
		t.Error("a reset wrote to guest memory")
	}
	if s := p.TX.Snapshot(); s.Packets != 1 {
		t.Errorf("%d packets after a reset, want 1", s.Packets)
	}
	if r := p.RX.Deliver(w.now, &virtio.NetHdr{}, build(toGuest(0, 10))); r != netdev.DropStopped {
		t.Errorf("delivery after a reset: %v, want stopped", r)
	}
}

// TestCompletionOrder: completions are published in the order of their time,
// whatever order the wire takes them in.
func TestCompletionOrder(t *testing.T) {
	w := newWorld(t, setup{})
	base := w.now
	w.wire.dones = []vtime.Time{base + 30, base + 10, base + 20, base + 10, 0}
	for range 5 {
		w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	}
	w.pollTX(0, netdev.Budget{})
	var tokens []uint32
	for w.dev.Pair(0).TX.InFlight() > 0 {
		w.now = w.dev.Pair(0).TX.Next(w.now)
		w.pollTX(0, netdev.Budget{})
	}
	for {
		token, n, ok := w.tx[0].Reap()
		if !ok {
			break
		}
		if n != 0 {
			t.Errorf("used length %d of a TX chain, want 0", n)
		}
		tokens = append(tokens, token)
	}
	want := []uint32{4, 1, 3, 2, 0}
	for i := range want {
		if len(tokens) != len(want) || tokens[i] != want[i] {
			t.Fatalf("completed in order %v, want %v", tokens, want)
		}
	}
	if w.now != base+30 {
		t.Errorf("the last completion at %d, want %d", w.now-base, 30)
	}
}

// TestCompleteWithinSend: a port may give a frame back before Send returns.
func TestCompleteWithinSend(t *testing.T) {
	w := newWorld(t, setup{wire: &wire{result: netdev.Later}})
	w.wire.onSend = func(tok netdev.Token) { w.dev.Pair(0).TX.Complete(tok, w.now) }
	for range 3 {
		w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	}
	if work, _ := w.pollTX(0, netdev.Budget{}); work.Completed != 3 {
		t.Errorf("%d completed, want 3", work.Completed)
	}
	if n := w.reap(w.tx[0]); n != 3 {
		t.Errorf("the guest got %d back, want 3", n)
	}
}

// TestDisabledTX: a ring that is started but disabled is consumed, discarded
// and counted.
func TestDisabledTX(t *testing.T) {
	w := newWorld(t, setup{})
	w.dev.Pair(0).SetEnabled(false, false)
	w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	w.offer(0, 4, 2048)
	w.pollTX(0, netdev.Budget{})
	s := w.dev.Pair(0).TX.Snapshot()
	if s.Drops[netdev.DropDisabled] != 1 || s.Packets != 0 || w.reap(w.tx[0]) != 1 || w.wire.sent != 0 {
		t.Errorf("disabled TX: %s", marshal(t, s.Drops))
	}
	if r := w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 10))); r != netdev.DropStopped {
		t.Errorf("disabled RX: %v, want stopped", r)
	}
	w.dev.Pair(0).SetEnabled(true, true)
	if w.dev.Pair(0).TX.Next(w.now) != w.now {
		t.Error("enabling does not look at the ring")
	}
	w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	if work, _ := w.pollTX(0, netdev.Budget{}); work.Packets != 1 {
		t.Error("enabled TX sends nothing")
	}
	if r := w.deliver(0, virtio.NetHdr{}, build(toGuest(0, 10))); r != netdev.DropNone {
		t.Errorf("enabled RX: %v", r)
	}
}

// TestBudget: a Poll stops at the first bound, and Next asks for the rest.
func TestBudget(t *testing.T) {
	w := newWorld(t, setup{})
	f := build(fromGuest(0, 1000))
	for range 10 {
		w.send(0, virtio.NetHdr{}, f)
	}
	tx := w.dev.Pair(0).TX
	for i, c := range []struct {
		b    netdev.Budget
		want int
	}{
		{netdev.Budget{Packets: 3}, 3},
		{netdev.Budget{Bytes: 2 * len(f)}, 2},
		{netdev.Budget{Bytes: 1}, 1},
		{netdev.Budget{Packets: 1, Bytes: 1 << 20}, 1},
		{netdev.Budget{}, 3},
	} {
		if work, _ := w.pollTX(0, c.b); work.Packets != c.want {
			t.Errorf("poll %d: %d packets, want %d", i, work.Packets, c.want)
		}
		if next := tx.Next(w.now); (next == w.now) != (i < 4) {
			t.Errorf("poll %d: next %v at %v", i, next, w.now)
		}
	}
	if w.wire.flush != 5 {
		t.Errorf("%d flushes, want one per poll, 5", w.wire.flush)
	}
}

// TestCompleteOnly: a Poll with a negative budget completes, and leaves packets
// and kicks as they are.
func TestCompleteOnly(t *testing.T) {
	w := newWorld(t, setup{off: virtio.FeatureEventIdx, wire: &wire{delay: 10}})
	tx := w.dev.Pair(0).TX
	w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	w.pollTX(0, netdev.Budget{})
	if tx.Rearm() {
		t.Fatal("more packets")
	}
	w.now += 10
	kick := w.queueTX(0, append(w.encode(virtio.NetHdr{}), build(fromGuest(0, 100))...))
	only := netdev.Budget{Packets: -1}
	if work, _ := w.pollTX(0, only); !kick || work.Completed != 1 || work.Packets != 0 {
		t.Errorf("did %+v, want one completion", work)
	}
	if !w.queueTX(0, append(w.encode(virtio.NetHdr{}), build(fromGuest(0, 100))...)) {
		t.Error("the guest need not kick any more, though nobody looked")
	}
	w.kick(0)
	if work, _ := newGroup(w).Poll(w.now, only); work.Packets != 0 || tx.Next(w.now) != w.now {
		t.Errorf("a group took %d packets", work.Packets)
	}
	if work, _ := w.pollTX(0, netdev.Budget{}); work.Packets != 2 {
		t.Errorf("%d packets, want 2", work.Packets)
	}
}

// TestNoPort: without a wire the guest's frames are dropped and counted.
func TestNoPort(t *testing.T) {
	w := newWorld(t, setup{})
	w.dev.Pair(0).SetPort(nil)
	w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	w.pollTX(0, netdev.Budget{})
	if s := w.dev.Pair(0).TX.Snapshot(); s.Drops[netdev.DropNoPort] != 1 {
		t.Errorf("drops %s, want one no_port", marshal(t, s.Drops))
	}
}
