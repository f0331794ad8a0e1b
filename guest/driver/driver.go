// Package driver is Linux's virtio-net driver as the simulated guest has it:
// transmit and receive queues over real descriptors in real ring bytes. It is
// without clock, interrupts and notifications: a transmit returns whether the
// device wants a kick, and the composer calls Interrupt and Poll when the
// device called and the CPU is there. It knows nothing of TCP: a packet's owner
// is told when the packet is released, whoever that is.
//
// The driver counts driver_xmit, tx_free and rx_frame on the meter it was given;
// kicks, interrupts, NAPI polls and control commands are the composer's to
// count.
package driver

import (
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// Causes for which a configuration is refused.
var (
	// ErrConfig is a value out of its range.
	ErrConfig = errors.New("driver configuration")
	// ErrNoNAPI is napi release on a kernel whose driver always orphans.
	ErrNoNAPI = errors.New("kernel has no napi_tx")
)

// Defaults and bounds.
const (
	DefaultRingSize = 256 // entries; QEMU's rx_queue_size and tx_queue_size
	DefaultRxBufLen = 1536
	MaxQueuePairs   = 0x8000 // VIRTIO_NET_CTRL_MQ_VQ_PAIRS_MAX (virtio 1.3 §5.1.6.5.5)
	// stopSlots is the number of free ring slots below which a transmit queue
	// stops: 2 + MAX_SKB_FRAGS (start_xmit, v3.8 to v6.12).
	stopSlots = 19
	// pollWeight is the budget of a receive poll (NAPI_POLL_WEIGHT).
	pollWeight = 64
)

// Config describes a device's driver. The zero value of a field is its default.
type Config struct {
	Switches Switches        // what the kernel does; see Release
	Features virtio.Features // negotiated; 0 means DefaultFeatures
	Pairs    int             // queue pairs of the device; 0 means 1
	RingSize uint16          // entries of each data ring; 0 means DefaultRingSize
	// NAPI makes the driver keep a packet charged to its owner until its
	// completion is reaped (napi_tx). Without it the packet is orphaned as it goes
	// into the ring.
	NAPI bool
	// RxBufLen is the length in bytes of a receive buffer, net header included; 0
	// means DefaultRxBufLen, what mergeable buffers come down to when all that
	// arrives is ACKs (get_mergeable_buf_len, v4.0 and later). Without
	// MRG_RXBUF a frame must fit one buffer.
	//
	// Deviation: Linux adapts the length to the mean frame, and builds large
	// buffers from pages; here the length is fixed and a buffer is contiguous.
	RxBufLen uint32
	// ArenaBytes is the size of the payload arena that fragments of packets point
	// into.
	ArenaBytes uint64
	// Serial says that the device runs on the driver's goroutine (ring.Config).
	Serial bool
}

// DefaultFeatures is what Linux acknowledges of what the device of this project
// offers.
const DefaultFeatures = virtio.FeatureCSum | virtio.FeatureGuestCSum | virtio.FeatureMAC |
	virtio.FeatureHostTSO4 | virtio.FeatureHostTSO6 | virtio.FeatureHostECN |
	virtio.FeatureGuestTSO4 | virtio.FeatureGuestTSO6 | virtio.FeatureGuestECN |
	virtio.FeatureMrgRxBuf | virtio.FeatureStatus | virtio.FeatureCtrlVQ | virtio.FeatureMQ |
	virtio.FeatureIndirectDesc | virtio.FeatureEventIdx | virtio.FeatureVersion1

func (c Config) withDefaults() (Config, error) {
	if c.Features == 0 {
		c.Features = DefaultFeatures
	}
	if c.Pairs == 0 {
		c.Pairs = 1
	}
	if c.RingSize == 0 {
		c.RingSize = DefaultRingSize
	}
	if c.RxBufLen == 0 {
		c.RxBufLen = DefaultRxBufLen
	}
	n := c.RingSize
	switch {
	case c.Pairs < 1 || c.Pairs > MaxQueuePairs:
		return c, fmt.Errorf("%w: %d queue pairs, want 1 to %d", ErrConfig, c.Pairs, MaxQueuePairs)
	case n&(n-1) != 0 || n < 32 || n > ring.MaxSize:
		return c, fmt.Errorf("%w: ring of %d entries, want a power of two from 32 to %d", ErrConfig, n, ring.MaxSize)
	case c.RxBufLen < 128:
		return c, fmt.Errorf("%w: receive buffers of %d bytes, want 128 and more", ErrConfig, c.RxBufLen)
	case c.NAPI && !c.Switches.HasNAPI:
		return c, ErrNoNAPI
	}
	return c, nil
}

// hdrLen is the length of the net header: 12 bytes with num_buffers, else 10.
func (c *Config) hdrLen() int {
	if c.Features&(virtio.FeatureVersion1|virtio.FeatureMrgRxBuf) != 0 {
		return virtio.NetHdrLen
	}
	return virtio.LegacyNetHdrLen
}

// CanGSO reports whether the device segments TCP over IPv4 and IPv6: without it
// packets must be cut before they reach the driver.
func (c *Config) CanGSO() bool {
	f := c.Features
	if f == 0 {
		f = DefaultFeatures
	}
	return f.Has(virtio.FeatureCSum | virtio.FeatureHostTSO4 | virtio.FeatureHostTSO6)
}

// Net is the driver of one device. Its queues may be used by different CPUs of
// the simulated guest; the whole is not safe for concurrent use.
type Net struct {
	cfg    Config
	mem    *shm.Memory
	places places
	tx     []TxQueue
	rx     []RxQueue
	ctrl   *Ctrl
}

// New lays rings, headers, receive buffers and the payload arena out in guest
// memory that lay gives out, and sets the rings up. Receive queues are empty:
// call Fill for those in use.
func New(mem *shm.Memory, lay *Layout, meter vcpu.Meter, cfg Config) (*Net, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Net{cfg: cfg, mem: mem, tx: make([]TxQueue, cfg.Pairs), rx: make([]RxQueue, cfg.Pairs)}
	if n.places, err = place(&n.cfg, lay); err != nil {
		return nil, err
	}
	for i := range cfg.Pairs {
		if err := n.tx[i].init(n, meter, &n.places.tx[i]); err != nil {
			return nil, fmt.Errorf("transmit queue %d: %w", i, err)
		}
		if err := n.rx[i].init(n, meter, &n.places.rx[i]); err != nil {
			return nil, fmt.Errorf("receive queue %d: %w", i, err)
		}
		n.rx[i].tx = &n.tx[i]
	}
	if cfg.Features.Has(virtio.FeatureCtrlVQ) {
		if n.ctrl, err = newCtrl(mem, &n.places.ctrl); err != nil {
			return nil, fmt.Errorf("control queue: %w", err)
		}
	}
	return n, nil
}

// Config returns the configuration with its defaults filled in.
func (n *Net) Config() Config { return n.cfg }

// TX returns transmit queue i.
func (n *Net) TX(i int) *TxQueue { return &n.tx[i] }

// RX returns receive queue i.
func (n *Net) RX(i int) *RxQueue { return &n.rx[i] }

// Ctrl returns the control queue, or nil if it was not negotiated.
func (n *Net) Ctrl() *Ctrl { return n.ctrl }

// Arena returns the guest physical address of the payload arena.
func (n *Net) Arena() uint64 { return n.places.arena }

// TxRing, RxRing and CtrlRing say where a queue's ring lies, for the device to
// attach to.
func (n *Net) TxRing(i int) ring.Config { return n.places.tx[i].ring }

// RxRing is TxRing for receive queue i.
func (n *Net) RxRing(i int) ring.Config { return n.places.rx[i].ring }

// CtrlRing is TxRing for the control queue; it must have been negotiated.
func (n *Net) CtrlRing() ring.Config { return n.places.ctrl.ring }
