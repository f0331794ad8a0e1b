package netdev

import (
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
)

// Device is a virtio-net device. Its own methods, and those of a Pair that
// attach, detach, enable and reset, are for whoever handles the control plane,
// one at a time. ConfigSpace, Steer, SteerRX and ActivePairs may be called from
// anywhere at any time.
type Device struct {
	cfg      Config
	acked    virtio.Features // changes only while no ring is attached
	restored *savedState     // by Load, until a reset; nil if nothing

	filter   atomic.Pointer[filter] // what receive queues let through
	live     [virtio.MaxQueuePairs / 64]atomic.Uint64
	ctrlRuns atomic.Bool // the control queue is attached
	linkDown atomic.Bool
	announce atomic.Bool      // the guest has been asked to announce itself
	coal     [2]atomic.Uint64 // Coalescing of all queues, packed, by direction
	flows    steering
	passed   [virtio.MaxQueuePairs / 64]atomic.Uint64 // pairs that were given frames by others

	pairs []*Pair
	ctrl  *Ctrl
}

// New makes a device with all rings stopped and the link up. The error wraps
// ErrConfig or ErrPolicy and names the field and its bounds.
func New(cfg Config) (*Device, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Device{cfg: cfg, flows: newSteering(cfg.FlowSlots)}
	for i := range cfg.QueuePairs {
		d.pairs = append(d.pairs, newPair(d, i))
	}
	d.ctrl = newCtrl(d)
	d.Reset()
	return d, nil
}

// Config returns the configuration with its defaults filled in.
func (d *Device) Config() Config { return d.cfg }

// Features returns the set that the device offers.
func (d *Device) Features() virtio.Features { return d.cfg.Features }

// Acked returns the set that the driver acknowledged last.
func (d *Device) Acked() virtio.Features { return d.acked }

// SetFeatures takes the set that the driver acknowledged; bits that belong to
// the transport are the caller's to remove. It returns an error that wraps
// ErrFeatures if a bit was not offered, and ErrRunning if a ring is attached
// and the set differs; the device is then unchanged. Whether dependencies of
// virtio 1.3 §5.1.3.1 are met is not checked, since drivers exist that do not
// meet them; an offload without its base is never used.
func (d *Device) SetFeatures(acked virtio.Features) error {
	if extra := acked &^ d.cfg.Features; extra != 0 {
		return fmt.Errorf("%w: %v", ErrFeatures, extra)
	}
	if acked == d.acked {
		return nil
	}
	if d.attached() {
		return fmt.Errorf("features %v: %w", acked^d.acked, ErrRunning)
	}
	d.acked = acked
	d.filter.Store(d.freshFilter())
	if acked.Has(virtio.FeatureRSS) {
		for _, p := range d.pairs {
			p.RX.box.open()
		}
	}
	return nil
}

func (d *Device) attached() bool {
	if d.ctrl.q != nil {
		return true
	}
	for _, p := range d.pairs {
		if p.RX.q != nil || p.TX.q != nil {
			return true
		}
	}
	return false
}

// Reset returns the device to its state after New, as a device reset does
// (virtio 1.3 §2.4): no ring is attached, nothing is acknowledged, filters and
// steering are empty, rings are enabled. Guest memory is not written and
// tokens that ports still hold become stale. Counters, ports and policies stay.
// No pair may be in use.
func (d *Device) Reset() {
	for _, p := range d.pairs {
		p.reset()
	}
	d.ctrl.detach()
	d.ctrlRuns.Store(false)
	d.announce.Store(false)
	d.setCoalescing(DirRX, Coalescing{})
	d.setCoalescing(DirTX, Coalescing{})
	d.acked, d.restored = 0, nil
	d.filter.Store(newFilter(&d.cfg, 0))
	d.flows.clear()
}

// Pairs returns the number of queue pairs.
func (d *Device) Pairs() int { return len(d.pairs) }

// Pair returns pair i, 0 <= i < Pairs().
func (d *Device) Pair(i int) *Pair { return d.pairs[i] }

// Ctrl returns the control queue. It exists even if CTRL_VQ is not offered, and
// is then never attached.
func (d *Device) Ctrl() *Ctrl { return d.ctrl }

// ConfigSpace returns a new copy of the configuration space.
func (d *Device) ConfigSpace() []byte {
	c := virtio.NetConfig{
		MAC: d.filter.Load().mac, MaxQueuePairs: uint16(len(d.pairs)), MTU: d.cfg.MTU,
		SpeedMbit: d.cfg.SpeedMbit, Duplex: virtio.DuplexFull,
		RSSMaxKey: frame.ToeplitzKeyMax, RSSMaxTable: maxIndirection, HashTypes: uint32(frame.HashAll),
	}
	if d.cfg.SpeedMbit == 0 {
		c.SpeedMbit, c.Duplex = virtio.SpeedUnknown, virtio.DuplexUnknown
	}
	if !d.linkDown.Load() {
		c.Status |= virtio.NetStatusLinkUp
	}
	if d.announce.Load() {
		c.Status |= virtio.NetStatusAnnounce
	}
	b := make([]byte, virtio.NetConfigLen)
	c.Encode(b)
	return b
}

// SetLink changes the link status and reports whether the driver has to be
// told that the configuration changed.
func (d *Device) SetLink(up bool) (changed bool) {
	changed = d.linkDown.Swap(!up) == up
	return changed && d.acked.Has(virtio.FeatureStatus)
}

// Announce asks the guest to announce itself, say after a migration (virtio
// 1.3 §5.1.6.5.4), and reports whether it can: if so, the driver has to be
// told that the configuration changed, and acknowledges by the control queue.
func (d *Device) Announce() bool {
	if !d.acked.Has(virtio.FeatureGuestAnnounce | virtio.FeatureCtrlVQ | virtio.FeatureStatus) {
		return false
	}
	d.announce.Store(true)
	return true
}

// SetPolicy sets the policy of every pair, as Pair.SetPolicy does. The pairs'
// owners must not be polling.
func (d *Device) SetPolicy(p Policy) error {
	for _, pair := range d.pairs {
		if err := pair.SetPolicy(p); err != nil {
			return err
		}
	}
	d.cfg.Policy = p
	return nil
}

// ActivePairs returns the number of pairs that receive: those from 0 on whose
// RX ring is attached and enabled, up to the number that the driver set by
// VQ_PAIRS_SET if the device has the control queue (1 after a reset). It is at
// least 1. A front-end that keeps the control queue to itself (QEMU) enables
// rings instead.
func (d *Device) ActivePairs() int {
	n := bits.TrailingZeros64(^d.live[0].Load())
	if n == 64 {
		n += bits.TrailingZeros64(^d.live[1].Load())
	}
	if d.ctrlRuns.Load() {
		n = min(n, d.filter.Load().pairs)
	}
	return max(n, 1)
}

// setLive notes that the RX ring of pair i is, or is not, attached and enabled.
func (d *Device) setLive(i int, live bool) {
	bit := uint64(1) << (i % 64)
	if live {
		d.live[i/64].Or(bit)
		return
	}
	d.live[i/64].And(^bit)
}

// hdrLen is the length of the net header that the acknowledged features imply.
func (d *Device) hdrLen() int {
	if d.acked.Has(virtio.FeatureHashReport) {
		return virtio.HashNetHdrLen
	}
	if d.acked&(virtio.FeatureVersion1|virtio.FeatureMrgRxBuf|virtio.FeatureRingPacked) != 0 {
		return virtio.NetHdrLen
	}
	return virtio.LegacyNetHdrLen
}
