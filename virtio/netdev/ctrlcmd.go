package netdev

import (
	"encoding/binary"

	"github.com/vnetbench/vnetbench/virtio"
)

// Classes and commands of the control queue (virtio 1.3 §5.1.6.5).
const (
	ctrlRX       = 0
	ctrlMAC      = 1
	ctrlVLAN     = 2
	ctrlAnnounce = 3
	ctrlMQ       = 4
	ctrlOffloads = 5
	ctrlCoal     = 6
	ctrlStats    = 8

	macTableSet = 0
	macAddrSet  = 1
	vlanAdd     = 0
	vlanDel     = 1
	announceAck = 0
	mqPairsSet  = 0
	mqRSS       = 1
	mqHash      = 2
	offloadsSet = 0

	ackOK  = 0
	ackErr = 1
)

// command carries a command out and returns the answer. total is the length
// that the guest gave; b has less of it if it is too long.
func (c *Ctrl) command(b []byte, total int64) byte {
	c.result = c.result[:0]
	if len(b) < 2 || total > int64(len(b)) {
		return ackErr
	}
	f := *c.dev.filter.Load()
	a, ok := c.apply(&f, b[0], b[1], b[2:])
	if !ok {
		return ackErr
	}
	if a.Kind != actNone {
		c.dev.filter.Store(&f)
		c.actions = append(c.actions, a)
	}
	return ackOK
}

// apply carries a command out on a copy of the filter. An unknown class or
// command, one whose feature was not negotiated, and one with a bad length or
// value is refused and changes nothing.
func (c *Ctrl) apply(f *filter, class, cmd byte, data []byte) (Action, bool) {
	has := c.dev.acked.Has
	switch class {
	case ctrlRX:
		return Action{Kind: ActRXMode}, has(rxModeNeeds(cmd)) && f.setMode(cmd, data)
	case ctrlMAC:
		return c.applyMAC(f, cmd, data)
	case ctrlVLAN:
		return Action{Kind: ActVLAN}, has(virtio.FeatureCtrlVLAN) && f.setVLAN(cmd, data)
	case ctrlAnnounce:
		return Action{Kind: ActAnnounced}, has(virtio.FeatureGuestAnnounce) && c.announced(cmd)
	case ctrlMQ:
		return c.applyMQ(f, cmd, data)
	case ctrlCoal:
		return c.applyCoal(cmd, data)
	case ctrlStats:
		return Action{}, has(virtio.FeatureDeviceStats) && c.applyStats(cmd, data)
	case ctrlOffloads:
		ok := has(virtio.FeatureCtrlGuestOffloads) && f.setOffloads(cmd, data, c.dev.acked)
		return Action{Kind: ActOffloads, Offloads: f.offloads}, ok
	}
	return Action{}, false
}

func (c *Ctrl) applyMAC(f *filter, cmd byte, data []byte) (Action, bool) {
	switch cmd {
	case macTableSet:
		return Action{Kind: ActRXMode}, c.dev.acked.Has(virtio.FeatureCtrlRX) && f.setTable(data)
	case macAddrSet:
		ok := c.dev.acked.Has(virtio.FeatureCtrlMACAddr) && len(data) == 6 && data[0]&1 == 0
		if ok {
			f.mac = [6]byte(data)
		}
		return Action{Kind: ActMAC, MAC: f.mac}, ok
	}
	return Action{}, false
}

func (c *Ctrl) announced(cmd byte) bool {
	return cmd == announceAck && c.dev.announce.CompareAndSwap(true, false)
}

// rxModeNeeds returns the feature that a command of class RX comes with.
func rxModeNeeds(cmd byte) virtio.Features {
	if cmd > 1 {
		return virtio.FeatureCtrlRX | virtio.FeatureCtrlRXExtra
	}
	return virtio.FeatureCtrlRX
}

// setMode carries out a command of class RX: 0 promiscuous, 1 all-multicast,
// and, with CTRL_RX_EXTRA, 2 all-unicast, 3 no multicast, 4 no unicast, 5 no
// broadcast.
func (f *filter) setMode(cmd byte, data []byte) bool {
	if len(data) != 1 || data[0] > 1 {
		return false
	}
	on := data[0] == 1
	switch cmd {
	case 0:
		f.promisc = on
	case 1:
		f.allMulti = on
	case 2:
		f.allUni = on
	case 3:
		f.noMulti = on
	case 4:
		f.noUni = on
	case 5:
		f.noBcast = on
	default:
		return false
	}
	return true
}

// setTable replaces the two lists of addresses, each a count and as many
// addresses: unicast, then multicast (virtio 1.3 §5.1.6.5.2).
func (f *filter) setTable(data []byte) bool {
	uni, data, ok := cutMACs(data)
	if !ok {
		return false
	}
	multi, data, ok := cutMACs(data)
	if !ok || len(data) != 0 {
		return false
	}
	f.nUni, f.uniOver = fill(&f.uni, uni)
	f.nMulti, f.multiOver = fill(&f.multi, multi)
	return true
}

// cutMACs splits a counted list off data.
func cutMACs(data []byte) (list, rest []byte, ok bool) {
	if len(data) < 4 {
		return nil, nil, false
	}
	n := uint64(binary.LittleEndian.Uint32(data)) * 6
	if data = data[4:]; n > uint64(len(data)) {
		return nil, nil, false
	}
	return data[:n], data[n:], true
}

// fill copies a list into a table, or reports that it does not fit.
func fill(table *[maxMACs][6]byte, list []byte) (n int, over bool) {
	if len(list) > 6*maxMACs {
		return 0, true
	}
	for n = 0; len(list) > 0; n++ {
		table[n] = [6]byte(list)
		list = list[6:]
	}
	return n, false
}

func (f *filter) setVLAN(cmd byte, data []byte) bool {
	if len(data) != 2 {
		return false
	}
	id := binary.LittleEndian.Uint16(data)
	if id >= 4096 {
		return false
	}
	switch cmd {
	case vlanAdd:
		f.vlans[id/64] |= 1 << (id % 64)
	case vlanDel:
		f.vlans[id/64] &^= 1 << (id % 64)
	default:
		return false
	}
	return true
}

// applyMQ carries out a command of class MQ. The one that came last says whether
// the device steers by itself or by RSS (virtio 1.3 §5.1.6.5.5 and .7).
func (c *Ctrl) applyMQ(f *filter, cmd byte, data []byte) (Action, bool) {
	has, n := c.dev.acked.Has, len(c.dev.pairs)
	switch cmd {
	case mqPairsSet:
		ok := has(virtio.FeatureMQ) && f.setPairs(data, n)
		return Action{Kind: ActPairs, Pairs: f.pairs}, ok
	case mqRSS:
		ok := has(virtio.FeatureRSS) && f.setRSS(data, n)
		return Action{Kind: ActPairs, Pairs: f.pairs}, ok
	case mqHash:
		return Action{Kind: ActHash}, has(virtio.FeatureHashReport) && f.setHash(data)
	}
	return Action{}, false
}

func (f *filter) setPairs(data []byte, most int) bool {
	if len(data) != 2 {
		return false
	}
	n := int(binary.LittleEndian.Uint16(data))
	if n < 1 || n > most {
		return false
	}
	f.pairs = n
	f.rss = f.rss.withoutTable()
	return true
}

// setOffloads takes the guest offloads in force: a subset of those that were
// negotiated, without a segmentation offload that lacks checksums.
func (f *filter) setOffloads(cmd byte, data []byte, acked virtio.Features) bool {
	if cmd != offloadsSet || len(data) != 8 {
		return false
	}
	want := virtio.Features(binary.LittleEndian.Uint64(data))
	if want&^(acked&guestOffloads) != 0 {
		return false
	}
	if want != 0 && !want.Has(virtio.FeatureGuestCSum) {
		return false
	}
	f.offloads = want
	return true
}
