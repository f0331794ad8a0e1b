package netdev

import "github.com/vnetbench/vnetbench/virtio"

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
	k := gsoKindOf(h.GSOType)
	if k == nil || !v.gsoFits(k) {
		return gateDrop, DropBadGSO
	}
	need := k.guest4
	if v.info.Version == 6 {
		need = k.guest6
	}
	if h.GSOType&virtio.GSOECN != 0 {
		need |= virtio.FeatureGuestECN
	}
	switch {
	case f.mtu > 0 && v.cutLen(k) > f.mtu:
		return gateDrop, DropMTU
	case h.Flags&virtio.HdrNeedsCSum != 0 && !v.csumFits(k):
		return gateDrop, DropBadGSO
	case !f.offloads.Has(need|virtio.FeatureGuestCSum) || h.Flags&virtio.HdrNeedsCSum == 0:
		return gateSegment, DropNone
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
