package netdev_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// The tests named TestFault each replay a fault that another back-end once had.
// The numbers are those of the project's list of known faults; the comment
// says what went wrong there.

// A completion of an asynchronous send after the ring was reset made the count
// of buffers in use negative.
func TestFault062LateCompletion(t *testing.T) {
	w := newWorld(t, setup{wire: &wire{result: netdev.Later}})
	w.send(0, virtio.NetHdr{}, build(fromGuest(0, 100)))
	w.pollTX(0, netdev.Budget{})
	acked := w.dev.Acked()
	w.dev.Reset()
	if err := w.dev.SetFeatures(acked); err != nil {
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
