package frontend

import (
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// Crosvm is crosvm: the control queue is the back-end's, GET_QUEUE_NUM is the
// number of rings, and nothing is to be acknowledged.
func Crosvm() *Profile {
	return &Profile{
		Name: "crosvm",
		Protocol: wire.ProtocolConfig | wire.ProtocolMQ | wire.ProtocolBackendReq | wire.ProtocolDeviceState |
			wire.ProtocolSHMEM | wire.ProtocolReplyAck,
		Features:     anyFeatures &^ (virtio.FeatureRingPacked | virtio.FeatureInOrder),
		ControlQueue: true, CountsRings: true,
		needsReply: never,
		open: func(f *Front) []step {
			return join([]step{setOwner, getFeatures, getProtocol, setProtocol}, f.backendFD(),
				[]step{getQueueNum, getAllConfig})
		},
		start: func(f *Front) []step {
			return join([]step{setFeatures}, f.memTable(), f.each(func(r *RingInfo) []step {
				return []step{r.num(), r.addr(), r.base(), r.call(), r.kick(), r.enable(true)}
			}))
		},
		stop: func(f *Front) []step {
			return f.each(func(r *RingInfo) []step { return []step{r.getBase()} })
		},
	}
}

// CloudHypervisor is cloud-hypervisor: everything is to be acknowledged, all sizes
// come first, all rings are enabled last, and the back-end's channel after that.
func CloudHypervisor() *Profile {
	return &Profile{
		Name: "cloud-hypervisor",
		Protocol: wire.ProtocolMQ | wire.ProtocolConfigureMemSlots | wire.ProtocolReplyAck | wire.ProtocolInflightSHMFD |
			wire.ProtocolLogSHMFD | wire.ProtocolDeviceState | wire.ProtocolConfig,
		Features:    anyFeatures &^ (virtio.FeatureRingPacked | virtio.FeatureInOrder | virtio.FeatureCtrlVQ),
		CountsRings: true,
		needsReply:  always,
		open: func(*Front) []step {
			return []step{setOwner, getFeatures, getProtocol, setProtocol, getQueueNum, getAllConfig}
		},
		start: func(f *Front) []step {
			return join([]step{setFeatures}, f.memTable(),
				f.each(func(r *RingInfo) []step { return []step{r.num()} }),
				f.each(func(r *RingInfo) []step { return []step{r.addr(), r.base(), r.call(), r.kick()} }),
				f.each(func(r *RingInfo) []step { return []step{r.enable(true)} }),
				f.backendFD())
		},
		stop: func(f *Front) []step {
			return f.each(func(r *RingInfo) []step { return []step{r.enable(false), r.getBase()} })
		},
	}
}

// Libkrun is libkrun: memory before features, the owner after them, one call
// descriptor for all rings, and no end but that of the connection.
func Libkrun() *Profile {
	return &Profile{
		Name: "libkrun", Protocol: wire.ProtocolConfig | wire.ProtocolMQ,
		Features:   anyFeatures &^ (virtio.FeatureRingPacked | virtio.FeatureInOrder | virtio.FeatureCtrlVQ | virtio.FeatureMQ),
		SharedCall: true, NeverStops: true, FreshRings: true, MaxPairs: 1, CountsRings: true,
		needsReply: never,
		open: func(*Front) []step {
			return []step{getFeatures, getProtocol, setProtocol, getQueueNum, getAllConfig}
		},
		start: func(f *Front) []step {
			return join(f.memTable(), []step{setFeatures, setOwner}, f.each(func(r *RingInfo) []step {
				return []step{r.num(), r.baseOf(0), r.addr(), r.kick(), r.call(), r.enable(true)}
			}))
		},
		stop: func(*Front) []step { return nil },
	}
}
