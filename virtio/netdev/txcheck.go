package netdev

import "github.com/vnetbench/vnetbench/virtio"

// txRules are what a transmit queue holds the guest's headers against.
type txRules struct {
	acked  virtio.Features
	hdrLen int
	tso    int // longest packet in bytes, from its layer-3 header on
	mtu    int // bytes from the layer-3 header on; 0 is no limit
}

func (d *Device) txRules() txRules {
	r := txRules{acked: d.acked, hdrLen: d.hdrLen(), tso: d.cfg.TSOMaxSize}
	if d.acked.Has(virtio.FeatureMTU) {
		r.mtu = int(d.cfg.MTU)
	}
	return r
}

// check validates a frame and its net header (virtio 1.3 §5.1.6.2.1), and
// rewrites the header to what a port may rely on. Nothing in the header is
// believed that the frame can tell: hdr_len is measured, unknown flags and
// fields without their flag are cleared.
func (r *txRules) check(v *frameView) DropReason {
	h := &v.hdr
	h.Flags &= virtio.HdrNeedsCSum
	h.HdrLen, h.NumBuffers = 0, 0
	if v.len-v.l3() > r.tso {
		return DropOversize
	}
	if h.Flags == 0 {
		h.CSumStart, h.CSumOffset = 0, 0
	} else if !r.acked.Has(virtio.FeatureCSum) {
		return DropOffload
	} else if !v.csumInside() {
		return DropBadCSum
	}
	if h.GSOType != virtio.GSONone {
		return r.checkGSO(v)
	}
	h.GSOSize = 0
	if r.mtu > 0 && v.len-v.l3() > r.mtu {
		return DropMTU
	}
	return DropNone
}

func (r *txRules) checkGSO(v *frameView) DropReason {
	h := &v.hdr
	k := gsoKindOf(h.GSOType)
	if k == nil {
		return DropBadGSO
	}
	need := k.host
	if h.GSOType&virtio.GSOECN != 0 {
		need |= virtio.FeatureHostECN
	}
	switch {
	case !r.acked.Has(need):
		return DropOffload
	case h.Flags == 0 || !v.gsoFits(k) || !v.csumFits(k):
		return DropBadGSO
	case r.mtu > 0 && v.cutLen(k) > r.mtu:
		return DropMTU
	}
	h.HdrLen = uint16(v.info.Payload)
	return DropNone
}
