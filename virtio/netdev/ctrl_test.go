package netdev_test

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// command sends a command and returns the answer and the actions.
func (w *world) command(pieces ...[]byte) (ack byte, acts []netdev.Action) {
	w.t.Helper()
	ack0 := w.store([]byte{0xee})
	if err := w.ctrl.Add(w.store(pieces...), ack0, 1); err != nil {
		w.t.Fatal(err)
	}
	acts = w.pollCtrl()
	if _, n, ok := w.ctrl.Reap(); !ok || n != 1 {
		w.t.Fatalf("used length %d %v of a command, want 1", n, ok)
	}
	return w.bytes(ack0[0].Addr, 1)[0], acts
}

func (w *world) pollCtrl() []netdev.Action {
	w.t.Helper()
	w.ctrl.Publish()
	c := w.dev.Ctrl()
	if w.ctrl.NeedKick() {
		c.Kick(w.now, 1)
	}
	_, call, acts, err := c.Poll(w.now, netdev.Budget{})
	if err != nil {
		w.t.Fatal(err)
	}
	if call.Needed {
		c.CallResult(w.now, nil)
	}
	c.Rearm()
	return acts
}

func le16(v uint16) []byte { return binary.LittleEndian.AppendUint16(nil, v) }
func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
func le64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

func cat(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// ctrlCommand is a command and what becomes of it.
type ctrlCommand struct {
	name string
	off  virtio.Features // not negotiated
	cmd  []byte
	want byte
	act  netdev.Action
}

const (
	ackOK  = 0
	ackBad = 1
)

func ctrlCommands() []ctrlCommand {
	mac := []byte{0x52, 0x54, 0, 1, 2, 3}
	csum := uint64(virtio.FeatureGuestCSum)
	return []ctrlCommand{
		{"pairs", 0, cat([]byte{4, 0}, le16(3)), ackOK, netdev.Action{Kind: netdev.ActPairs, Pairs: 3}},
		{"pairs all", 0, cat([]byte{4, 0}, le16(4)), ackOK, netdev.Action{Kind: netdev.ActPairs, Pairs: 4}},
		{"pairs 0", 0, cat([]byte{4, 0}, le16(0)), ackBad, netdev.Action{}},
		{"pairs over", 0, cat([]byte{4, 0}, le16(5)), ackBad, netdev.Action{}},
		{"pairs short", 0, []byte{4, 0, 1}, ackBad, netdev.Action{}},
		{"pairs without MQ", virtio.FeatureMQ, cat([]byte{4, 0}, le16(1)), ackBad, netdev.Action{}},
		{"rss", 0, cat([]byte{4, 1}, make([]byte, 60)), ackBad, netdev.Action{}},
		{"mac", 0, cat([]byte{1, 1}, mac), ackOK, netdev.Action{Kind: netdev.ActMAC, MAC: [6]byte(mac)}},
		{"mac of a group", 0, cat([]byte{1, 1}, []byte{1, 0, 0, 0, 0, 0}), ackBad, netdev.Action{}},
		{"mac short", 0, cat([]byte{1, 1}, mac[:5]), ackBad, netdev.Action{}},
		{"mac not negotiated", virtio.FeatureCtrlMACAddr, cat([]byte{1, 1}, mac), ackBad, netdev.Action{}},
		{"promisc", 0, []byte{0, 0, 1}, ackOK, netdev.Action{Kind: netdev.ActRXMode}},
		{"all multicast", 0, []byte{0, 1, 0}, ackOK, netdev.Action{Kind: netdev.ActRXMode}},
		{"all unicast, an extra", 0, []byte{0, 2, 1}, ackOK, netdev.Action{Kind: netdev.ActRXMode}},
		{"no broadcast, an extra", 0, []byte{0, 5, 1}, ackOK, netdev.Action{Kind: netdev.ActRXMode}},
		{"mode 6", 0, []byte{0, 6, 1}, ackBad, netdev.Action{}},
		{"extra not negotiated", virtio.FeatureCtrlRXExtra, []byte{0, 2, 1}, ackBad, netdev.Action{}},
		{"promisc 2", 0, []byte{0, 0, 2}, ackBad, netdev.Action{}},
		{"promisc not negotiated", virtio.FeatureCtrlRX, []byte{0, 0, 1}, ackBad, netdev.Action{}},
		{"table", 0, cat([]byte{1, 0}, le32(1), mac, le32(0)), ackOK, netdev.Action{Kind: netdev.ActRXMode}},
		{"table of many", 0, cat([]byte{1, 0}, le32(500), make([]byte, 3000), le32(0)), ackOK, netdev.Action{Kind: netdev.ActRXMode}},
		{"table count lies", 0, cat([]byte{1, 0}, le32(0x2aaaaaab), mac, le32(0)), ackBad, netdev.Action{}},
		{"table without its second list", 0, cat([]byte{1, 0}, le32(1), mac), ackBad, netdev.Action{}},
		{"table with a rest", 0, cat([]byte{1, 0}, le32(0), le32(0), mac), ackBad, netdev.Action{}},
		{"vlan", 0, cat([]byte{2, 0}, le16(4095)), ackOK, netdev.Action{Kind: netdev.ActVLAN}},
		{"vlan out", 0, cat([]byte{2, 0}, le16(4096)), ackBad, netdev.Action{}},
		{"vlan command 2", 0, cat([]byte{2, 2}, le16(1)), ackBad, netdev.Action{}},
		{"vlan not negotiated", virtio.FeatureCtrlVLAN, cat([]byte{2, 0}, le16(1)), ackBad, netdev.Action{}},
		{"announce without being asked", 0, []byte{3, 0}, ackBad, netdev.Action{}},
		{"offloads", 0, cat([]byte{5, 0}, le64(csum)), ackOK, netdev.Action{Kind: netdev.ActOffloads, Offloads: virtio.FeatureGuestCSum}},
		{"offloads off", 0, cat([]byte{5, 0}, le64(0)), ackOK, netdev.Action{Kind: netdev.ActOffloads}},
		{"offloads not of the guest", 0, cat([]byte{5, 0}, le64(uint64(virtio.FeatureCSum))), ackBad, netdev.Action{}},
		{"tso without checksum", 0, cat([]byte{5, 0}, le64(uint64(virtio.FeatureGuestTSO4))), ackBad, netdev.Action{}},
		{"offloads not negotiated", virtio.FeatureCtrlGuestOffloads, cat([]byte{5, 0}, le64(csum)), ackBad, netdev.Action{}},
		{"coalesce transmit", 0, cat([]byte{6, 0}, le32(8), le32(50)), ackOK, netdev.Action{Kind: netdev.ActCoalesce}},
		{"coalesce receive", 0, cat([]byte{6, 1}, le32(8), le32(50)), ackOK, netdev.Action{Kind: netdev.ActCoalesce}},
		{"coalesce queue 7", 0, cat([]byte{6, 2}, le16(7), le16(0), le32(8), le32(50)), ackOK, netdev.Action{Kind: netdev.ActCoalesce}},
		{"coalesce the control queue", 0, cat([]byte{6, 2}, le16(8), le16(0), le32(8), le32(50)), ackBad, netdev.Action{}},
		{"coalesce short", 0, cat([]byte{6, 0}, le32(8)), ackBad, netdev.Action{}},
		{"coalesce not negotiated", virtio.FeatureNotfCoal, cat([]byte{6, 0}, le32(8), le32(50)), ackBad, netdev.Action{}},
		{"coalesce a queue not negotiated", virtio.FeatureVQNotfCoal, cat([]byte{6, 2}, le16(7), le16(0), le32(8), le32(50)), ackBad, netdev.Action{}},
		{"coalesce command 4", 0, []byte{6, 4}, ackBad, netdev.Action{}},
		{"ask for coalescing without room", 0, cat([]byte{6, 3}, le16(1), le16(0)), ackBad, netdev.Action{}},
		{"ask for counters without room", 0, []byte{8, 0}, ackBad, netdev.Action{}},
		{"counters not negotiated", virtio.FeatureDeviceStats, []byte{8, 0}, ackBad, netdev.Action{}},
		{"counters of nobody", 0, []byte{8, 1}, ackBad, netdev.Action{}},
		{"unknown class", 0, []byte{9, 0, 0, 0}, ackBad, netdev.Action{}},
		{"class 255", 0, []byte{255, 255}, ackBad, netdev.Action{}},
		{"one byte", 0, []byte{4}, ackBad, netdev.Action{}},
		{"over the limit", 0, cat([]byte{1, 0}, le32(1), mac, le32(10000), make([]byte, 60000)), ackBad, netdev.Action{}},
	}
}

func TestCommands(t *testing.T) {
	for _, c := range ctrlCommands() {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}, off: c.off, ctrl: true})
			before := w.dev.ConfigSpace()
			ack, acts := w.command(c.cmd)
			if ack != c.want {
				t.Fatalf("ack %d, want %d", ack, c.want)
			}
			if c.want == ackBad {
				if len(acts) != 0 || w.dev.ActivePairs() != 1 || !cmp.Equal(before, w.dev.ConfigSpace()) {
					t.Error("a refused command changed something")
				}
				return
			}
			if d := cmp.Diff([]netdev.Action{c.act}, acts); d != "" {
				t.Errorf("actions (-want +got):\n%s", d)
			}
			if c.act.Kind == netdev.ActPairs && w.dev.ActivePairs() != c.act.Pairs {
				t.Errorf("%d active pairs, want %d", w.dev.ActivePairs(), c.act.Pairs)
			}
			if c.act.Kind == netdev.ActMAC && [6]byte(w.dev.ConfigSpace()) != c.act.MAC {
				t.Error("the configuration space has another MAC")
			}
		})
	}
}

func TestAnnounce(t *testing.T) {
	w := newWorld(t, setup{ctrl: true})
	if !w.dev.Announce() || w.dev.ConfigSpace()[6] != 3 {
		t.Fatalf("status %d after Announce, want 3", w.dev.ConfigSpace()[6])
	}
	ack, acts := w.command([]byte{3, 0})
	if ack != 0 || len(acts) != 1 || acts[0].Kind != netdev.ActAnnounced || w.dev.ConfigSpace()[6] != 1 {
		t.Errorf("ack %d actions %v status %d", ack, acts, w.dev.ConfigSpace()[6])
	}
	w = newWorld(t, setup{off: virtio.FeatureGuestAnnounce})
	if w.dev.Announce() {
		t.Error("a guest that cannot announce itself is asked to")
	}
}

// TestCtrlRests: the control queue says when it wants to be polled, and rests
// when it is not attached.
func TestCtrlRests(t *testing.T) {
	w := newWorld(t, setup{ctrl: true})
	c := w.dev.Ctrl()
	if c.Next(w.now) != w.now {
		t.Error("a start does not ask for a poll")
	}
	w.pollCtrl()
	if c.Next(w.now) != vtime.Never {
		t.Error("an empty control queue wants to be polled")
	}
	c.Kick(w.now, 1)
	if c.Next(w.now) != w.now {
		t.Error("a kick does not wake the control queue")
	}
	if err := c.SetMemory(w.mem); err != nil {
		t.Error(err)
	}
	if q := c.Detach(w.now); q == nil || c.Attached() || c.Next(w.now) != vtime.Never || c.Rearm() {
		t.Error("a detached control queue still acts")
	}
	if _, call, acts, err := c.Poll(w.now, netdev.Budget{}); call.Needed || len(acts) != 0 || err != nil {
		t.Error("a detached control queue answers")
	}
	if err := c.SetMemory(w.mem); err != nil {
		t.Error(err)
	}
}

// TestCommandLayout: the pieces of a command may be cut anywhere.
func TestCommandLayout(t *testing.T) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}, ctrl: true})
	if ack, _ := w.command([]byte{4}, []byte{0}, []byte{2}, []byte{0}); ack != 0 || w.dev.ActivePairs() != 2 {
		t.Errorf("ack %d, %d pairs, want 0 and 2", ack, w.dev.ActivePairs())
	}
}

// TestRXFilter walks the receive filter through what a Linux driver does when
// it brings the interface up.
func TestRXFilter(t *testing.T) {
	w := newWorld(t, setup{ctrl: true})
	w.offer(0, 200, 256)
	other := [6]byte{0x52, 0x54, 0, 9, 9, 9}
	group := [6]byte{0x33, 0x33, 0, 0, 0, 1}
	bcast := [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	to := func(mac [6]byte, vlan uint16) netdev.DropReason {
		s := over(toGuest(0, 20), vlan)
		s.DstMAC = mac
		return w.deliver(0, virtio.NetHdr{}, build(s))
	}
	want := func(what string, got, want netdev.DropReason) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	want("promiscuous at first", to(other, 5), netdev.DropNone)
	w.command([]byte{0, 0, 0})
	want("own address", to(guestMAC, 0), netdev.DropNone)
	want("another address", to(other, 0), netdev.DropFiltered)
	want("broadcast", to(bcast, 0), netdev.DropNone)
	want("a group", to(group, 0), netdev.DropFiltered)
	w.command(cat([]byte{1, 0}, le32(1), other[:], le32(1), group[:]))
	want("an address of the table", to(other, 0), netdev.DropNone)
	want("a group of the table", to(group, 0), netdev.DropNone)
	w.command(cat([]byte{1, 0}, le32(65), make([]byte, 65*6), le32(0)))
	want("a list that does not fit passes all", to(other, 0), netdev.DropNone)
	want("the other list is empty", to(group, 0), netdev.DropFiltered)
	w.command(cat([]byte{1, 0}, le32(0), le32(0)))
	w.command([]byte{0, 1, 1})
	want("all groups", to(group, 0), netdev.DropNone)
	w.command([]byte{0, 3, 1})
	want("no group", to(group, 0), netdev.DropFiltered)
	w.command([]byte{0, 3, 0})
	w.command([]byte{0, 2, 1})
	want("all addresses", to(other, 0), netdev.DropNone)
	w.command([]byte{0, 4, 1})
	want("no address", to(guestMAC, 0), netdev.DropFiltered)
	w.command([]byte{0, 4, 0})
	w.command([]byte{0, 2, 0})
	w.command([]byte{0, 5, 1})
	want("no broadcast", to(bcast, 0), netdev.DropFiltered)
	w.command([]byte{0, 5, 0})
	want("a vlan", to(guestMAC, 5), netdev.DropVLAN)
	w.command(cat([]byte{2, 0}, le16(5)))
	want("a vlan of the list", to(guestMAC, 5), netdev.DropNone)
	want("its priority bits do not matter", to(guestMAC, 0xe005), netdev.DropNone)
	w.command(cat([]byte{2, 1}, le16(5)))
	want("a vlan taken off", to(guestMAC, 5), netdev.DropVLAN)
	w.command(cat([]byte{1, 1}, []byte{2, 2, 2, 2, 2, 2}))
	want("the former address", to(guestMAC, 0), netdev.DropFiltered)
	want("the new address", to([6]byte{2, 2, 2, 2, 2, 2}, 0), netdev.DropNone)
}

// TestOffloadsAtRunTime: CTRL_GUEST_OFFLOADS takes effect on the next frame.
func TestOffloadsAtRunTime(t *testing.T) {
	w := newWorld(t, setup{ctrl: true})
	w.offer(0, 20, 65600)
	h, f := gso(toGuest(0, 4000), 1448)
	w.deliver(0, h, f)
	w.command(cat([]byte{5, 0}, le64(0)))
	w.deliver(0, h, f)
	if got := w.receive(0); len(got) != 4 || got[0].hdr.GSOSize != 1448 || got[1].hdr != (virtio.NetHdr{NumBuffers: 1}) {
		t.Errorf("%d frames, want one large and three plain ones", len(got))
	}
}
