package frontend

import (
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// UML is User Mode Linux (virtio_uml, 5.19): every message that has no answer is
// to be acknowledged, a memory table always has room for two regions, kicks and
// calls go through pipes, and rings are only ever disabled, in reverse order.
func UML() *Profile {
	return &Profile{
		Name:     "UML",
		Protocol: wire.ProtocolReplyAck | wire.ProtocolBackendReq | wire.ProtocolConfig,
		Features: anyFeatures &^ (virtio.FeatureRingPacked | virtio.FeatureInOrder),
		Pipes:    true, FreshRings: true, ControlQueue: true,
		needsReply: always,
		open: func(f *Front) []step {
			return join([]step{setOwner, getFeatures, getProtocol, setProtocol}, f.backendFD(), []step{getAllConfig})
		},
		start: func(f *Front) []step {
			return join([]step{setFeatures, umlMemTable},
				f.each(func(r *RingInfo) []step { return []step{r.call(), r.num(), r.baseOf(0), r.addr()} }),
				f.each(func(r *RingInfo) []step { return []step{r.kick(), r.enable(true)} }))
		},
		stop: func(f *Front) []step {
			return join(f.reversed(func(r *RingInfo) []step { return []step{r.enable(false)} }), []step{getFeatures})
		},
	}
}

// umlMemTable pads the payload to that of two regions.
func umlMemTable(f *Front) Out {
	o := f.memTable()[0](f)
	o.Pad = 32 * max(0, 2-len(f.Regions))
	return o
}
