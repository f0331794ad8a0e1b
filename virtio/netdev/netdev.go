// Package netdev is the multiqueue virtio-net device (virtio 1.3 §5.1). It is
// without clock, file descriptor, goroutine, lock or timer: it is called with
// the time, moves packets between rings and ports, and answers with what
// happened, whether the guest has to be interrupted, and when it wants to be
// called again. Whoever drives it (a worker with eventfds, the simulator's
// loop, a time-travel calendar) owns time and turns answers into events; the
// device cannot tell them apart.
//
// A Device owns up to 128 queue pairs and a control queue. One owner at a time
// calls the methods of a Pair; different pairs may have different owners that
// run concurrently. What pairs share (receive filter, offloads, steering table,
// which pairs are live) is read through single atomic loads, so that the
// control queue never stops the data queues.
//
// The order of calls for a transmit queue:
//
//	pair.Kick(now, netdev.DirTX, n)       // n kicks arrived
//	work, call, err := tx.Poll(now, b)    // complete what is due, then take packets
//	next := tx.Next(now)                  // when to Poll again without a kick
//	if tx.Rearm() { ... }                 // ring empty: enable kicks; true: do not sleep yet
//	pair.CallResult(now, netdev.DirTX, e) // what became of a call
package netdev

import (
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/virtio"
)

// Errors of the device. They come wrapped with what was wrong.
var (
	// ErrConfig is a Config field out of its bounds.
	ErrConfig = errors.New("bad device configuration")
	// ErrFeatures is an acknowledged feature set that was not offered.
	ErrFeatures = errors.New("feature not offered")
	// ErrRunning is a change that needs every ring stopped while one runs.
	ErrRunning = errors.New("a ring is running")
	// ErrPolicy is a completion policy that cannot be parsed.
	ErrPolicy = errors.New("bad completion policy")
	// ErrBroken is a queue that the guest broke; it rests until it is attached
	// again.
	ErrBroken = errors.New("queue broken by the guest")
)

// BaseFeatures is what the devices of the guests in virtual time offer, to which
// their models and recorded traces belong.
const BaseFeatures = virtio.FeatureVersion1 |
	virtio.FeatureIndirectDesc | virtio.FeatureEventIdx |
	virtio.FeatureMAC | virtio.FeatureMTU | virtio.FeatureStatus |
	virtio.FeatureCSum | virtio.FeatureHostTSO4 | virtio.FeatureHostTSO6 | virtio.FeatureHostECN |
	virtio.FeatureGuestCSum | virtio.FeatureGuestTSO4 | virtio.FeatureGuestTSO6 | virtio.FeatureGuestECN |
	virtio.FeatureMrgRxBuf | virtio.FeatureCtrlVQ | virtio.FeatureCtrlRX |
	virtio.FeatureCtrlVLAN | virtio.FeatureCtrlMACAddr | virtio.FeatureCtrlGuestOffloads |
	virtio.FeatureMQ | virtio.FeatureGuestAnnounce

// DefaultFeatures is what a device offers unless it is told otherwise.
const DefaultFeatures = BaseFeatures |
	virtio.FeatureHostUFO | virtio.FeatureHostUSO |
	virtio.FeatureGuestUFO | virtio.FeatureGuestUSO4 | virtio.FeatureGuestUSO6 |
	virtio.FeatureCtrlRXExtra | virtio.FeatureNotfCoal | virtio.FeatureVQNotfCoal |
	virtio.FeatureDeviceStats | virtio.FeatureGuestHdrLen | virtio.FeatureSpeedDuplex |
	virtio.FeatureRingPacked | virtio.FeatureInOrder

// AllFeatures is everything that the device implements. What DefaultFeatures
// lacks of it has a price for every packet (HASH_REPORT: 8 bytes and a hash), or
// needs a composer that steers by Device.Steer (RSS), that translates addresses
// (ACCESS_PLATFORM), or that hands the data of notifications on, which vhost-user
// cannot (NOTIFICATION_DATA), or one that tells of every reset of a queue
// (RING_RESET), which not every front-end does that acknowledges it; or is of no
// use to a device that is a program (ORDER_PLATFORM).
const AllFeatures = DefaultFeatures | virtio.FeatureHashReport | virtio.FeatureRSS | virtio.FeatureAccessPlatform |
	virtio.FeatureRingReset | virtio.FeatureNotificationData | virtio.FeatureOrderPlatform

// Bounds and defaults of Config.
const (
	// DefaultMTU is the largest layer-3 packet in bytes of an Ethernet frame.
	DefaultMTU = 1500
	// MinMTU is the smallest MTU that a device may offer (virtio 1.3 §5.1.4.1).
	MinMTU = 68
	// DefaultTSOMaxSize is the longest GSO packet in bytes, from its layer-3
	// header on: what a NIC takes without BIG TCP (Linux GSO_LEGACY_MAX_SIZE).
	DefaultTSOMaxSize = 65536
	// MaxTSOMaxSize bounds Config.TSOMaxSize: the longest packet that Linux
	// builds with BIG TCP is 8*65535 bytes (GSO_MAX_SIZE, Linux v6.1).
	MaxTSOMaxSize = 8 * 65536
	// DefaultSpillBytes is the room in bytes that each receive queue has for
	// frames that wait for buffers.
	DefaultSpillBytes = 256 << 10
	// DefaultFlowSlots is the number of entries of the steering table.
	DefaultFlowSlots = 4096
)

// Config describes a device. The zero value of each field is its default.
type Config struct {
	// QueuePairs is the number of RX/TX pairs, 1 to virtio.MaxQueuePairs; 0
	// is 1. Without FeatureMQ it has to be 1.
	QueuePairs int
	// Features is the set to offer; 0 is DefaultFeatures, without MQ if there
	// is one pair. Only bits of AllFeatures may be offered.
	Features virtio.Features
	// MAC is the station address; zero is 52:54:00:12:34:56.
	MAC [6]byte
	// MTU in bytes, MinMTU to 65535; 0 is DefaultMTU. It binds the guest, and
	// what is delivered to it, only if FeatureMTU is acknowledged.
	MTU uint16
	// Policy is the completion policy that TX queues start with; the zero
	// value completes at once.
	Policy Policy
	// TSOMaxSize is the longest packet in bytes, from its layer-3 header on,
	// that TX takes; a longer one is dropped and counted. 0 is
	// DefaultTSOMaxSize; at most MaxTSOMaxSize.
	TSOMaxSize int
	// SpillBytes is the room in bytes, per receive queue, for frames that wait
	// for buffers; allocated when first needed. 0 is DefaultSpillBytes; at
	// least 4096.
	SpillBytes int
	// Observer sees every frame; nil is nobody.
	Observer Observer
	// SpeedMbit is the speed that the guest is told, in 10^6 bit/s, of full
	// duplex; 0 says that it is unknown.
	SpeedMbit uint32
	// FlowSlots is the number of entries of the steering table, a power of two
	// from 256; 0 is DefaultFlowSlots.
	FlowSlots int
}

func (c Config) withDefaults() (Config, error) {
	if c.QueuePairs == 0 {
		c.QueuePairs = 1
	}
	if c.Features == 0 {
		c.Features = DefaultFeatures
		if c.QueuePairs == 1 {
			c.Features &^= virtio.FeatureMQ
		}
	}
	if c.MAC == [6]byte{} {
		c.MAC = [6]byte{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}
	}
	c.MTU = orDefault(c.MTU, DefaultMTU)
	c.TSOMaxSize = orDefault(c.TSOMaxSize, DefaultTSOMaxSize)
	c.SpillBytes = orDefault(c.SpillBytes, DefaultSpillBytes)
	c.FlowSlots = orDefault(c.FlowSlots, DefaultFlowSlots)
	return c, c.validate()
}

func orDefault[T int | uint16](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

func (c *Config) validate() error {
	if c.QueuePairs < 1 || c.QueuePairs > virtio.MaxQueuePairs {
		return fmt.Errorf("%w: QueuePairs %d is not in 1..%d", ErrConfig, c.QueuePairs, virtio.MaxQueuePairs)
	}
	if extra := c.Features &^ AllFeatures; extra != 0 {
		return fmt.Errorf("%w: Features: %v is not implemented", ErrConfig, extra)
	}
	if err := c.Features.CheckOffer(); err != nil {
		return fmt.Errorf("%w: Features: %w", ErrConfig, err)
	}
	if c.QueuePairs > 1 && !c.Features.Has(virtio.FeatureMQ) {
		return fmt.Errorf("%w: QueuePairs %d needs feature MQ", ErrConfig, c.QueuePairs)
	}
	if c.MAC[0]&1 != 0 {
		return fmt.Errorf("%w: MAC %x is a group address", ErrConfig, c.MAC)
	}
	return c.validateSizes()
}

func (c *Config) validateSizes() error {
	if c.MTU < MinMTU {
		return fmt.Errorf("%w: MTU %d is below %d", ErrConfig, c.MTU, MinMTU)
	}
	if c.TSOMaxSize < MinMTU || c.TSOMaxSize > MaxTSOMaxSize {
		return fmt.Errorf("%w: TSOMaxSize %d is not in %d..%d", ErrConfig, c.TSOMaxSize, MinMTU, MaxTSOMaxSize)
	}
	if c.SpillBytes < 4096 || c.SpillBytes > 64<<20 {
		return fmt.Errorf("%w: SpillBytes %d is not in 4096..%d", ErrConfig, c.SpillBytes, 64<<20)
	}
	if c.FlowSlots < 256 || c.FlowSlots > 1<<20 || c.FlowSlots&(c.FlowSlots-1) != 0 {
		return fmt.Errorf("%w: FlowSlots %d is not a power of two in 256..%d", ErrConfig, c.FlowSlots, 1<<20)
	}
	return c.Policy.validate()
}
