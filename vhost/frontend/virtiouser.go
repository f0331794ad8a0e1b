package frontend

import (
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// VirtioUser is DPDK's virtio-user (22.11): control messages without descriptors,
// receive rings before transmit rings, the status of a real driver, base 0 when a
// split ring goes on, 0x8000 for a new packed one, and MQ without CTRL_VQ.
func VirtioUser() *Profile {
	return &Profile{
		Name:     "virtio-user",
		Protocol: wire.ProtocolMQ | wire.ProtocolReplyAck | wire.ProtocolStatus,
		Features: virtio.FeatureCSum | virtio.FeatureGuestCSum | virtio.FeatureGuestTSO4 | virtio.FeatureGuestTSO6 |
			virtio.FeatureHostTSO4 | virtio.FeatureHostTSO6 | virtio.FeatureMrgRxBuf | virtio.FeatureIndirectDesc |
			virtio.FeatureVersion1 | virtio.FeatureRingPacked | virtio.FeatureInOrder | virtio.FeatureMQ,
		EmptyRights: true, PacksRings: true,
		needsReply: only(wire.SetMemTable, wire.SetStatus),
		open: func(*Front) []step {
			return []step{setOwner, getFeatures, getProtocol, setProtocol}
		},
		start: virtioUserStart,
		stop: func(f *Front) []step {
			return join(
				f.each(func(r *RingInfo) []step { return []step{r.enable(false)} }),
				f.each(func(r *RingInfo) []step { return []step{r.getBase()} }))
		},
	}
}

func virtioUserStart(f *Front) (steps []step) {
	for i := range f.Rings {
		steps = append(steps, f.Rings[i].call())
	}
	steps = append(steps, setFeatures, setStatus(featuresOK), getStatus, getStatus)
	steps = append(steps, f.memTable()...)
	for _, odd := range []int{0, 1} {
		for i := odd; i < len(f.Rings); i += 2 {
			r := &f.Rings[i]
			steps = append(steps, r.num(), virtioUserBase(r), r.addr(), r.kick())
		}
	}
	for i := range f.Rings {
		if i == 2 {
			steps = append(steps, setStatus(driverOK))
		}
		steps = append(steps, f.Rings[i].enable(true))
	}
	if len(f.Rings) <= 2 {
		steps = append(steps, setStatus(driverOK))
	}
	return steps
}

// virtioUserBase is 0, whatever the ring holds; a packed ring gets its wrap
// counter, and only the half of the next available descriptor.
func virtioUserBase(r *RingInfo) step {
	return func(f *Front) Out {
		base := uint32(0)
		if f.Acked.Has(virtio.FeatureRingPacked) {
			base = 0x8000
		}
		return r.baseOf(base)(f)
	}
}
