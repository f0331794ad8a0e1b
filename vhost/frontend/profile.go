package frontend

import (
	"slices"

	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// Profile is the habits of one front-end: which messages it sends in which order,
// and what it acknowledges. They are what others have seen of it, or what its
// source says, and no more than what a back-end can tell apart.
type Profile struct {
	Name     string
	Protocol wire.ProtocolFeatures // that it acknowledges if they are offered
	Features virtio.Features       // that it passes on
	// NoProtocolBit: it does not acknowledge the transport's feature bit, so that
	// its rings are enabled without a word.
	NoProtocolBit bool
	// EmptyRights: its messages carry a control message even without descriptors.
	EmptyRights bool
	// ControlQueue: what the guest says on the control queue reaches the
	// back-end.
	ControlQueue bool
	// Pipes: kicks and calls go through pipes.
	Pipes bool
	// SharedCall: all rings have one call descriptor.
	SharedCall bool
	// FreshRings: when the guest starts again its rings are new ones.
	FreshRings bool
	// NeverStops: it has no way to stop a device; the connection ends instead.
	NeverStops bool
	// PacksRings: it passes RING_PACKED on.
	PacksRings bool
	// MaxPairs bounds the queue pairs; 0 is no bound.
	MaxPairs int
	// CountsRings: GET_QUEUE_NUM is the number of rings for it, not of pairs.
	CountsRings bool

	needsReply        func(wire.Request) bool
	open, start, stop func(f *Front) []step
}

// Profiles are all front-ends that are known here.
func Profiles() []*Profile {
	return []*Profile{QEMU7(), QEMU10(), VirtioUser(), UML(), Crosvm(), CloudHypervisor(), Libkrun()}
}

// never and always say for which messages an acknowledgement is asked.
func never(wire.Request) bool  { return false }
func always(wire.Request) bool { return true }

func only(list ...wire.Request) func(wire.Request) bool {
	return func(r wire.Request) bool { return slices.Contains(list, r) }
}

// join puts lists of steps behind each other.
func join(lists ...[]step) (all []step) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// each is the steps of every ring, one ring after the other.
func (f *Front) each(of func(r *RingInfo) []step) (steps []step) {
	for i := range f.Rings {
		steps = append(steps, of(&f.Rings[i])...)
	}
	return steps
}

// reversed is each, from the last ring on.
func (f *Front) reversed(of func(r *RingInfo) []step) (steps []step) {
	for i := len(f.Rings) - 1; i >= 0; i-- {
		steps = append(steps, of(&f.Rings[i])...)
	}
	return steps
}

// anyFeatures is everything but what no front-end passes on to a guest that uses
// memory by its physical addresses.
const anyFeatures = ^(wire.FeatureProtocol | wire.FeatureLogAll | virtio.FeatureAccessPlatform)
