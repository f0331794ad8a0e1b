package netdev

import (
	"sync/atomic"

	"github.com/vnetbench/vnetbench/virtio/frame"
)

// steering remembers which pair each flow last sent on (virtio 1.3 §5.1.6.5.5
// leaves the choice to the device; Linux guests expect replies there). It is a
// fixed table: a newer flow replaces an older one in its slot, and a flow
// without a slot is spread by its hash. Each slot is one word, the hash with
// its low byte replaced by pair+1: the slot's index covers those bits.
type steering struct {
	slots []atomic.Uint32
	mask  uint32
}

func newSteering(n int) steering {
	return steering{slots: make([]atomic.Uint32, n), mask: uint32(n - 1)}
}

// learn notes that the flow sent on a pair. The slot is written only when it
// changes, so that a steady flow costs a load.
func (s *steering) learn(hash uint32, pair int) {
	v := hash&^0xff | uint32(pair+1)
	if slot := &s.slots[hash&s.mask]; slot.Load() != v {
		slot.Store(v)
	}
}

// lookup returns the pair that the flow last sent on, or -1.
func (s *steering) lookup(hash uint32) int {
	v := s.slots[hash&s.mask].Load()
	if v&0xff == 0 || v&^0xff != hash&^0xff {
		return -1
	}
	return int(v&0xff) - 1
}

func (s *steering) clear() {
	for i := range s.slots {
		s.slots[i].Store(0)
	}
}

// SteerRX returns the pair that a flow's replies go to: the one that the flow
// last sent on if it receives, else one of the active pairs by the hash. hash
// is frame.FlowKey.Hash of the direction in which the guest sends.
func (d *Device) SteerRX(hash uint32) int {
	active := d.ActivePairs()
	if active == 1 {
		return 0
	}
	if p := d.flows.lookup(hash); p >= 0 && p < active {
		return p
	}
	return int(uint64(hash) * uint64(active) >> 32)
}

// Steer returns the pair that a frame for the guest goes to: by the guest's
// indirection table if it has set one (virtio 1.3 §5.1.6.5.7), else the one that
// its flow sends on, pair 0 if it is not IP. It parses the frame; SteerRX does
// without, and knows no table.
func (d *Device) Steer(f []byte) int {
	if len(d.pairs) == 1 {
		return 0
	}
	var in frame.Info
	frame.Parse(f, &in)
	if r := d.filter.Load().rss; r != nil && r.steers {
		return r.steer(f, &in)
	}
	k, ok := in.Key(f)
	if !ok {
		return 0
	}
	k = k.Reverse()
	return d.SteerRX(k.Hash())
}
