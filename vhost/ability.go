package vhost

import (
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// hostOffloads are the features by which a guest leaves work to a port.
const hostOffloads = virtio.FeatureCSum | virtio.FeatureHostTSO4 | virtio.FeatureHostTSO6 |
	virtio.FeatureHostECN | virtio.FeatureHostUFO | virtio.FeatureHostUSO

// software returns the offloads that the guest has acknowledged and that a port
// does not take, so that the device does the work itself, on the CPU.
func (r *runner) software(acked virtio.Features) (missing virtio.Features) {
	for _, p := range r.ports {
		missing |= acked & hostOffloads &^ offloads(p)
	}
	return missing
}

// offloads are those that a port takes.
func offloads(p netdev.Port) virtio.Features {
	if l, ok := p.(netdev.Limited); ok {
		return l.Offloads()
	}
	return hostOffloads
}

// noteSoftware tells about such offloads: a guest that was promised them is slower
// than it could be, and cannot see why.
func (r *runner) noteSoftware(acked virtio.Features) {
	missing := r.software(acked)
	if missing != 0 {
		r.log.Warn("the host's side does not take all that the guest leaves to it; the device does it on the CPU", "offloads", missing.String())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Software = missing
}

// noteCall remembers which eventfd a ring's calls go to, and counts the rings
// that share theirs with another one.
func (r *runner) noteCall(ring, fd int) {
	r.callIDs[ring] = osio.EventfdID(fd)
	rings := map[int64]int{}
	for _, id := range r.callIDs {
		if id >= 0 {
			rings[id]++
		}
	}
	shared := 0
	for _, n := range rings {
		if n > 1 {
			shared += n
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.SharedCalls = shared
}
