package netdev

import (
	"fmt"
	"time"
)

// Bounds of the parameters of policies.
const (
	MaxHoldPackets = 32768
	MaxHoldTime    = 10 * time.Second
)

// Policy says what a device does, beyond serving its rings, to make a MB cost
// less. It is a set of single policies, each switched on by a field that is not
// zero; the zero value is "none". No policy holds data back from the wire,
// except that DelayTime lets it wait in the ring. All of them work by deadlines
// that Next tells, and keep to one guest's pair: they see frames and counters
// only.
type Policy struct {
	// HoldTime (hold) is the longest that the used entry of a packet that was
	// sent waits for others, counted from its done time. HoldPackets is the
	// number of them that are enough to publish all; 0 is no such number.
	HoldTime    time.Duration
	HoldPackets int

	// ThinTime (thin-acks) is how long pure ACKs for the guest wait for later
	// ones of their flow, counted from the first that waits; what is delivered
	// is the newest of each flow. ACKs that carry news of another kind, and
	// those of a flow that begins or was idle, are never kept waiting.
	ThinTime time.Duration

	// CallTime (coalesce-calls) is the longest that a call waits after the used
	// entry that needs it was published; CallPackets is the number of entries
	// that end the wait; 0 is no such number. It is what the driver asks for by
	// NOTF_COAL (virtio 1.3 §5.1.6.5.9) where it is the device that asks.
	CallTime    time.Duration
	CallPackets int

	// PollTime (poll) is how long after work the device looks at the transmit
	// ring by itself, with kicks suppressed; PollEvery is the time between two
	// looks, 0 is DefaultPollEvery.
	PollTime  time.Duration
	PollEvery time.Duration

	// DelayTime (delay-service) is how long frames wait in a ring that was
	// empty before the device takes them; DelayPackets is the number of them
	// that end the wait, where the ring has event indices; 0 is no such number.
	DelayTime    time.Duration
	DelayPackets int

	// SharePairs (share-worker) is the number of pairs that one worker serves, or
	// with Adaptive may serve; 0 is one pair, or DefaultSharePairs with Adaptive.
	// It is for the composer to do, who owns the workers: see Pair.Shares.
	SharePairs int

	// Merge (merge) joins consecutive segments of a flow that are found in the
	// ring together into one GSO packet, before the port gets it.
	Merge bool

	// Adaptive (adaptive) decides for each flow, by what the device sees of it,
	// which of the others are applied, and how strongly. It goes with none of
	// them but SharePairs.
	Adaptive bool
}

// DefaultPollEvery is the time between two looks of the poll policy: short
// enough that whoever sleeps so long may as well spin.
const DefaultPollEvery = time.Microsecond

// Bounds of SharePairs.
const (
	MaxSharePairs     = 128
	DefaultSharePairs = 2 // that the adaptive policy may have share a worker
)

// Holding reports whether the policy delays every used entry of TX.
func (p Policy) Holding() bool { return p.HoldTime > 0 }

// pollEvery is PollEvery with its default.
func (p Policy) pollEvery() time.Duration {
	if p.PollEvery == 0 {
		return DefaultPollEvery
	}
	return p.PollEvery
}

func (p Policy) validate() error {
	for _, t := range []struct {
		name string
		time time.Duration
	}{{"HoldTime", p.HoldTime}, {"ThinTime", p.ThinTime}, {"CallTime", p.CallTime}, {"PollTime", p.PollTime}, {"PollEvery", p.PollEvery}, {"DelayTime", p.DelayTime}} {
		if t.time < 0 || t.time > MaxHoldTime {
			return fmt.Errorf("%w: %s %v is not in 0..%v", ErrPolicy, t.name, t.time, MaxHoldTime)
		}
	}
	for _, n := range []struct {
		name, time string
		n          int
		needs      time.Duration
	}{{"HoldPackets", "HoldTime", p.HoldPackets, p.HoldTime}, {"CallPackets", "CallTime", p.CallPackets, p.CallTime}, {"DelayPackets", "DelayTime", p.DelayPackets, p.DelayTime}} {
		if n.n < 0 || n.n > MaxHoldPackets {
			return fmt.Errorf("%w: %s %d is not in 0..%d", ErrPolicy, n.name, n.n, MaxHoldPackets)
		}
		if n.n > 0 && n.needs == 0 {
			return fmt.Errorf("%w: %s %d needs a %s", ErrPolicy, n.name, n.n, n.time)
		}
	}
	return p.validateRest()
}

func (p Policy) validateRest() error {
	if p.PollEvery > 0 && p.PollTime == 0 {
		return fmt.Errorf("%w: PollEvery %v needs a PollTime", ErrPolicy, p.PollEvery)
	}
	if p.SharePairs < 0 || p.SharePairs > MaxSharePairs {
		return fmt.Errorf("%w: SharePairs %d is not in 0..%d", ErrPolicy, p.SharePairs, MaxSharePairs)
	}
	if alone := (Policy{Adaptive: true, SharePairs: p.SharePairs}); p.Adaptive && p != alone {
		return fmt.Errorf("%w: adaptive chooses by itself among the others; only share-worker goes with it", ErrPolicy)
	}
	return nil
}
