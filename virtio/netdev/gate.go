package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
)

// gateVerdict is what has to be done with a frame before the guest gets it.
type gateVerdict uint8

const (
	gatePass    gateVerdict = iota
	gateDrop                // do not deliver it
	gateCSum                // complete its checksum first
	gateSegment             // deliver its segments instead
)

// gate holds the frame in r.view against the receive filter and the guest
// offloads in force, and clears in its net header what the guest did not
// negotiate (virtio 1.3 §5.1.6.4.1).
func (r *RX) gate() (gateVerdict, DropReason) {
	v, h, f := &r.view, &r.view.hdr, r.pair.dev.filter.Load()
	h.HdrLen = 0
	if why := f.admit(v.front); why != DropNone {
		return gateDrop, why
	}
	if h.Flags &= virtio.HdrNeedsCSum | virtio.HdrDataValid; h.Flags&virtio.HdrNeedsCSum == 0 {
		h.CSumStart, h.CSumOffset = 0, 0
	} else if !v.csumInside() {
		return gateDrop, DropBadCSum
	}
	if h.GSOType != virtio.GSONone {
		return r.gateGSO(f)
	}
	h.GSOSize = 0
	if f.mtu > 0 && v.len-v.l3() > f.mtu {
		return gateDrop, DropMTU
	}
	if f.offloads.Has(virtio.FeatureGuestCSum) {
		return gatePass, DropNone
	}
	if h.Flags&virtio.HdrNeedsCSum != 0 {
		return gateCSum, DropNone
	}
	h.Flags = 0
	return gatePass, DropNone
}

func (r *RX) gateGSO(f *filter) (gateVerdict, DropReason) {
	v, h := &r.view, &r.view.hdr
	version, need := uint8(4), virtio.FeatureGuestTSO4|virtio.FeatureGuestCSum
	if h.GSOType&^virtio.GSOECN == virtio.GSOTCPv6 {
		version, need = 6, virtio.FeatureGuestTSO6|virtio.FeatureGuestCSum
	}
	if h.GSOType&virtio.GSOECN != 0 {
		need |= virtio.FeatureGuestECN
	}
	switch {
	case h.GSOSize == 0 || !v.gsoIs(version):
		return gateDrop, DropBadGSO
	case f.mtu > 0 && v.info.Payload-v.l3()+int(h.GSOSize) > f.mtu:
		return gateDrop, DropMTU
	case !f.offloads.Has(need) || h.Flags&virtio.HdrNeedsCSum == 0:
		return gateSegment, DropNone
	case int(h.CSumStart) != v.info.L4 || h.CSumOffset != frame.TCPCSumOffset:
		return gateDrop, DropBadGSO
	}
	h.HdrLen = uint16(v.info.Payload)
	return gatePass, DropNone
}

// validFlag is the flag of a frame whose checksum the device made itself:
// DATA_VALID if the guest knows it.
func (r *RX) validFlag() uint8 {
	if r.pair.dev.filter.Load().offloads.Has(virtio.FeatureGuestCSum) {
		return virtio.HdrDataValid
	}
	return 0
}
