package driver

import (
	"errors"
	"fmt"
	"math"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// ErrNoMemory is returned when a layout has no room left.
var ErrNoMemory = errors.New("guest memory is used up")

// Layout gives out guest physical addresses, upwards and for good.
type Layout struct{ next, end uint64 }

// NewLayout returns a layout of the size bytes at base.
func NewLayout(base, size uint64) *Layout { return &Layout{next: base, end: base + size} }

// Alloc gives out n bytes at a multiple of align, a power of two. The error
// wraps ErrNoMemory.
func (l *Layout) Alloc(n, align uint64) (gpa uint64, err error) {
	gpa = (l.next + align - 1) &^ (align - 1)
	if gpa < l.next || n > l.end || gpa > l.end-n {
		return 0, fmt.Errorf("%w: %d bytes at %#x, end at %#x", ErrNoMemory, n, l.next, l.end)
	}
	l.next = gpa + n
	return gpa, nil
}

// Used returns the address of the first byte that was not given out.
func (l *Layout) Used() uint64 { return l.next }

// MemoryNeeded returns the bytes of guest memory that New will take of a layout
// that starts at a page boundary.
func MemoryNeeded(cfg Config) (uint64, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return 0, err
	}
	l := NewLayout(0, math.MaxInt64)
	_, err = place(&cfg, l)
	return l.Used(), err
}

const (
	pageSize  = 4096
	cacheLine = 64
	// txStride separates the headers of two packets: net header and frame headers.
	txStride = (virtio.NetHdrLen + skb.MaxHeader + cacheLine - 1) &^ (cacheLine - 1)
)

// places is where everything of a device lies in guest memory.
type places struct {
	tx, rx []queuePlace
	ctrl   queuePlace
	arena  uint64
}

// queuePlace is where a ring and what its descriptors point to lie.
type queuePlace struct {
	ring   ring.Config
	bufs   uint64 // headers of transmitted packets, receive buffers, or the command
	stride uint64
}

// place takes all that a device needs of lay.
func place(cfg *Config, lay *Layout) (p places, err error) {
	p.tx, p.rx = make([]queuePlace, cfg.Pairs), make([]queuePlace, cfg.Pairs)
	rxStride := (uint64(cfg.RxBufLen) + cacheLine - 1) &^ (cacheLine - 1)
	for i := range cfg.Pairs {
		if p.rx[i], err = placeQueue(cfg, lay, cfg.RingSize, rxStride, false); err != nil {
			return p, err
		}
		if p.tx[i], err = placeQueue(cfg, lay, cfg.RingSize, txStride, true); err != nil {
			return p, err
		}
	}
	if cfg.Features.Has(virtio.FeatureCtrlVQ) {
		if p.ctrl, err = placeQueue(cfg, lay, ctrlSize, cacheLine, true); err != nil {
			return p, err
		}
	}
	p.arena, err = lay.Alloc(cfg.ArenaBytes, pageSize)
	return p, err
}

// placeQueue takes a ring of n entries with a buffer of stride bytes for each.
func placeQueue(cfg *Config, lay *Layout, n uint16, stride uint64, indirect bool) (p queuePlace, err error) {
	p.stride = stride
	p.ring = ring.Config{
		Size: n, Features: cfg.Features, Base: ring.StartBase(cfg.Features), ZeroEvent: cfg.Switches.ZeroEvent,
		Serial: cfg.Serial,
	}
	need, align := p.ring.BytesNeeded(), p.ring.Alignment()
	if !indirect {
		p.ring.Features &^= virtio.FeatureIndirectDesc
	}
	for _, part := range []struct {
		gpa      *uint64
		n, align uint64
	}{
		{&p.ring.Desc, need.Desc, pageSize},
		{&p.ring.Avail, need.Avail, align.Avail},
		{&p.ring.Used, need.Used, cacheLine},
		{&p.bufs, stride * uint64(n), cacheLine},
	} {
		if *part.gpa, err = lay.Alloc(part.n, part.align); err != nil {
			return p, err
		}
	}
	if p.ring.Features.Has(virtio.FeatureIndirectDesc) {
		p.ring.IndirectBase, err = lay.Alloc(ring.IndirectBytes(n, 0), ring.DescAlign)
	}
	return p, err
}
