package netdev_test

import (
	"fmt"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// hostileHeaders makes net headers that do not fit the frame behind them. What
// makes which reason: an unknown type or one of another protocol, fields that
// name places outside the frame, offloads that were not negotiated.
func hostileHeaders(t *testing.T) (all []hostileCase) {
	add := func(name string, off virtio.Features, h virtio.NetHdr, f []byte, want netdev.DropReason) {
		all = append(all, hostileCase{name: name, dir: netdev.DirTX, off: off, want: want, do: func(w *world) { w.send(0, h, f) }})
	}
	for _, b := range cutCases(t) {
		h, f := b.hdr, b.frame
		with := func(edit func(*virtio.NetHdr)) virtio.NetHdr { h := h; edit(&h); return h }
		for _, past := range []int{1, 2, len(f)} {
			add(fmt.Sprintf("%s: checksum %d past the end", b.name, past), 0,
				with(func(h *virtio.NetHdr) { h.CSumStart = uint16(len(f) - int(h.CSumOffset) - 2 + past) }), f, netdev.DropBadCSum)
		}
		add(b.name+": checksum offset 65535", 0, with(func(h *virtio.NetHdr) { h.CSumOffset = 0xffff }), f, netdev.DropBadCSum)
		add(b.name+": checksum not negotiated", virtio.FeatureCSum, h, f, netdev.DropOffload)
		if h.GSOType == virtio.GSONone {
			continue
		}
		for typ := range 256 {
			if typ&0x7f <= 5 && typ&0x7f != 2 {
				continue // a type that exists; TestTXHeader crosses them
			}
			if typ%8 == 0 || typ < 16 || typ == 0x83|0x40 || typ == 255 {
				add(fmt.Sprintf("%s: type %#x", b.name, typ), 0, with(func(h *virtio.NetHdr) { h.GSOType = uint8(typ) }), f, netdev.DropBadGSO)
			}
		}
		for typ := range gsoTypes {
			if !fitsType(typ, f) {
				add(fmt.Sprintf("%s: as type %#x", b.name, typ), 0, with(func(h *virtio.NetHdr) { h.GSOType = typ }), f, netdev.DropBadGSO)
			}
		}
		for size := range uint16(8) {
			add(fmt.Sprintf("%s: size %d", b.name, size), 0, with(func(h *virtio.NetHdr) { h.GSOSize = size }), f, netdev.DropBadGSO)
		}
		add(b.name+": no checksum", 0, with(func(h *virtio.NetHdr) { h.Flags = 0 }), f, netdev.DropBadGSO)
		add(b.name+": checksum of layer 3", 0, with(func(h *virtio.NetHdr) { h.CSumStart = 14 }), f, netdev.DropBadGSO)
		add(b.name+": checksum two on", 0, with(func(h *virtio.NetHdr) { h.CSumOffset += 2 }), f, netdev.DropBadGSO)
		add(b.name+": over the mtu", 0, with(func(h *virtio.NetHdr) { h.GSOSize = 1600 }), f, netdev.DropMTU)
		add(b.name+": not negotiated", b.need&^virtio.FeatureCSum, h, f, netdev.DropOffload)
	}
	for n := 1; n < 26; n++ {
		all = append(all, hostileCase{name: fmt.Sprintf("frame of %d bytes, header included", n), dir: netdev.DirTX, want: netdev.DropShort,
			do: func(w *world) { w.queueTX(0, make([]byte, n)) }})
	}
	add("frame over the mtu", 0, virtio.NetHdr{}, build(fromGuest(0, 1449)), netdev.DropMTU)
	add("frame over 64 KiB", virtio.FeatureMTU, virtio.NetHdr{}, build(fromGuest(0, 65536-51)), netdev.DropOversize)
	return all
}

// gsoTypes are the types that exist, and whether they go with ECN.
var gsoTypes = map[uint8]bool{
	virtio.GSOTCPv4: true, virtio.GSOTCPv6: true, virtio.GSOUDP: false, virtio.GSOUDPL4: false,
	virtio.GSOUDP | virtio.GSOECN: false, virtio.GSOUDPL4 | virtio.GSOECN: false,
}

// fitsType reports whether a type can be that of a frame.
func fitsType(typ uint8, f []byte) bool {
	var in frame.Info
	frame.Parse(f, &in)
	switch typ {
	case virtio.GSOTCPv4:
		return in.Proto == frame.ProtoTCP && in.Version == 4
	case virtio.GSOTCPv6:
		return in.Proto == frame.ProtoTCP && in.Version == 6
	case virtio.GSOUDP, virtio.GSOUDPL4:
		return in.Proto == frame.ProtoUDP
	}
	return false
}

// hostileCommands takes every command that is good, cuts it at every length, adds
// a byte, takes its feature away; and every class and command that there is not.
func hostileCommands() (all []hostileCase) {
	add := func(name string, off virtio.Features, cmd []byte, room int) {
		all = append(all, hostileCase{name: name, dir: netdev.DirCtrl, off: off, do: func(w *world) {
			in := w.store(make([]byte, 1+room))
			if err := w.ctrl.Add(w.store(cmd), in, 1); err != nil {
				w.t.Fatal(err)
			}
			w.ctrl.Publish()
		}})
	}
	for _, c := range goodCommands() {
		for n := 1; n < len(c.cmd); n++ {
			if n != c.alsoLen {
				add(fmt.Sprintf("%s: %d bytes of %d", c.name, n, len(c.cmd)), 0, c.cmd[:n], c.room)
			}
		}
		add(c.name+": a byte too many", 0, append(append([]byte{}, c.cmd...), 0), c.room)
		add(c.name+": not negotiated", c.feature, c.cmd, c.room)
		if c.room > 0 {
			add(c.name+": no room for the answer", 0, c.cmd, c.room-1)
		}
	}
	for class := range 256 {
		if class < 7 || class == 8 {
			continue
		}
		add(fmt.Sprintf("class %d", class), 0, []byte{byte(class), 0, 0}, 8)
	}
	for class, commands := range map[byte]int{0: 6, 1: 2, 2: 2, 3: 1, 4: 3, 5: 1, 6: 4, 8: 2} {
		for cmd := commands; cmd < 256; cmd += 50 {
			add(fmt.Sprintf("class %d, command %d", class, cmd), 0, []byte{class, byte(cmd), 0, 0}, 8)
		}
	}
	for _, v := range []uint16{0, 3, 0x7fff, 0x8000, 0xffff} {
		add(fmt.Sprintf("%d pairs of 2", v), 0, cat([]byte{4, 0}, le16(v)), 0)
	}
	for _, v := range []uint16{4096, 0x8000, 0xffff} {
		add(fmt.Sprintf("vlan %d", v), 0, cat([]byte{2, 0}, le16(v)), 0)
	}
	for _, v := range []uint16{4, 5, 256, 0x7fff, 0xfffe} {
		add(fmt.Sprintf("coalesce queue %d of 4", v), 0, cat([]byte{6, 2}, le16(v), le16(0), le64(0)), 0)
		add(fmt.Sprintf("counters of queue %d of 5", v+1), 0, cat([]byte{8, 1}, statsOf(v+1, 1)), 100)
	}
	for mode := range byte(6) {
		add(fmt.Sprintf("mode %d is 2", mode), 0, []byte{0, mode, 2}, 0)
	}
	return all
}

type goodCommand struct {
	name    string
	cmd     []byte
	feature virtio.Features
	room    int // bytes of its result
	alsoLen int // a shorter form that is good as well
}

func goodCommands() []goodCommand {
	mac := []byte{0x52, 0x54, 0, 1, 2, 3}
	return []goodCommand{
		{"promisc", []byte{0, 0, 1}, virtio.FeatureCtrlRX, 0, 0},
		{"nobcast", []byte{0, 5, 1}, virtio.FeatureCtrlRXExtra, 0, 0},
		{"table", cat([]byte{1, 0}, le32(2), mac, mac, le32(1), mac), virtio.FeatureCtrlRX, 0, 0},
		{"mac", cat([]byte{1, 1}, mac), virtio.FeatureCtrlMACAddr, 0, 0},
		{"vlan", cat([]byte{2, 0}, le16(5)), virtio.FeatureCtrlVLAN, 0, 0},
		{"pairs", cat([]byte{4, 0}, le16(2)), virtio.FeatureMQ, 0, 0},
		{"offloads", cat([]byte{5, 0}, le64(0)), virtio.FeatureCtrlGuestOffloads, 0, 0},
		{"coalesce tx", cat([]byte{6, 0}, le32(1), le32(1)), virtio.FeatureNotfCoal, 0, 0},
		{"coalesce rx", cat([]byte{6, 1}, le32(1), le32(1)), virtio.FeatureNotfCoal, 0, 0},
		{"coalesce a queue", cat([]byte{6, 2}, le16(1), le16(0), le64(1)), virtio.FeatureVQNotfCoal, 0, 0},
		{"ask for coalescing", cat([]byte{6, 3}, le16(1), le16(0), le64(1)), virtio.FeatureVQNotfCoal, 8, 6},
		{"ask for groups", []byte{8, 0}, virtio.FeatureDeviceStats, 8, 0},
		{"ask for counters", cat([]byte{8, 1}, statsOf(0, 1)), virtio.FeatureDeviceStats, 56, 0},
	}
}

// hostileBuffers offers receive buffers that cannot hold a net header.
func hostileBuffers() (all []hostileCase) {
	for _, packed := range []virtio.Features{0, virtio.FeatureRingPacked} {
		for n := 1; n < virtio.NetHdrLen; n++ {
			all = append(all, hostileCase{name: fmt.Sprintf("buffer of %d bytes, packed %v", n, packed != 0), dir: netdev.DirRX, ring: packed,
				want: netdev.DropSmallBuffer, do: func(w *world) { w.offer(0, 1, n) }})
		}
	}
	return all
}
