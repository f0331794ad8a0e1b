package netdev

import (
	"slices"

	"github.com/vnetbench/vnetbench/virtio"
)

// maxMACs is the number of addresses of each kind that the receive filter
// holds. A longer list makes it pass every address of that kind, which virtio
// 1.3 §5.1.6.5.1 leaves to the device.
const maxMACs = 64

// guestOffloads are the features that CTRL_GUEST_OFFLOADS switches.
const guestOffloads = virtio.FeatureGuestCSum | virtio.FeatureGuestTSO4 |
	virtio.FeatureGuestTSO6 | virtio.FeatureGuestECN | virtio.FeatureGuestUFO |
	virtio.FeatureGuestUSO4 | virtio.FeatureGuestUSO6

// filter is what the control queue has set and the receive queues obey. A
// filter never changes once it is stored in the device: a command stores a
// changed copy, so that receive queues read it with one load.
type filter struct {
	mac      [6]byte
	offloads virtio.Features // guest offloads in force
	pairs    int             // VQ_PAIRS_SET
	mtu      int             // bytes, of a frame's layer 3; 0 is no limit

	promisc, allMulti bool // the modes of CTRL_RX
	allUni            bool // the modes of CTRL_RX_EXTRA
	noMulti, noUni    bool
	noBcast           bool

	rss *rss // nil until the guest configures hashes

	uni, multi         [maxMACs][6]byte
	nUni, nMulti       int
	uniOver, multiOver bool // the list did not fit: all of that kind pass

	vlanFilter bool // tagged frames pass only if their VLAN is in vlans
	vlans      [4096 / 64]uint64
}

// newFilter returns the filter after a reset: promiscuous until the driver
// says otherwise, as QEMU's virtio-net, since a driver without CTRL_RX never
// does; with every negotiated offload in force, and one active pair.
func newFilter(cfg *Config, acked virtio.Features) *filter {
	f := &filter{
		mac: cfg.MAC, promisc: true, pairs: 1,
		offloads:   acked & guestOffloads,
		vlanFilter: acked.Has(virtio.FeatureCtrlVLAN),
	}
	if !acked.Has(virtio.FeatureGuestCSum) {
		f.offloads = 0
	}
	if acked.Has(virtio.FeatureMTU) {
		f.mtu = int(cfg.MTU)
	}
	return f
}

// admit decides whether a frame passes, from its first bytes: b holds at least
// an Ethernet header and a VLAN tag if the frame has one.
func (f *filter) admit(b []byte) DropReason {
	if f.promisc {
		return DropNone
	}
	if f.vlanFilter && len(b) >= 18 && b[12] == 0x81 && b[13] == 0x00 {
		id := uint(b[14]&0x0f)<<8 | uint(b[15])
		if f.vlans[id/64]>>(id%64)&1 == 0 {
			return DropVLAN
		}
	}
	if !f.wants([6]byte(b[:6])) {
		return DropFiltered
	}
	return DropNone
}

// wants applies the modes and the lists. What the extra modes switch off goes
// before what others switch on, except promiscuous (virtio 1.3 §5.1.6.5.1).
func (f *filter) wants(dst [6]byte) bool {
	switch {
	case dst == [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}:
		return !f.noBcast
	case dst[0]&1 != 0:
		return !f.noMulti && (f.allMulti || f.multiOver || contains(f.multi[:f.nMulti], dst))
	case f.noUni:
		return false
	}
	return dst == f.mac || f.allUni || f.uniOver || contains(f.uni[:f.nUni], dst)
}

func contains(list [][6]byte, mac [6]byte) bool {
	return slices.Contains(list, mac)
}
