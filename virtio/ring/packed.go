package ring

import (
	"fmt"

	"github.com/vnetbench/vnetbench/virtio/shm"
)

// Flags of a packed descriptor beside NEXT, WRITE and INDIRECT, which have the
// values of the split ring (virtio 1.3 §2.8.1, §2.8.2).
const (
	packedAvail = 1 << 7
	packedUsed  = 1 << 15

	flagShift = 48 // of the flags in the second word of a descriptor; the id is at 32
	bothFlags = uint64(packedAvail|packedUsed) << flagShift
)

// Flags of an event structure (virtio 1.3 §2.8.14), in its second half.
const (
	eventEnable  = 0
	eventDisable = 1
	eventDesc    = 2

	wrapBit = 0x8000
)

// packedParts is a packed ring laid over guest memory.
type packedParts struct {
	ring        []shm.Pair64 // addr, then len | id<<32 | flags<<48
	driverEvent *uint32      // off | wrap<<15, then flags<<16
	deviceEvent *uint32
}

// PackedBytesNeeded returns the length in bytes of each part of a packed ring of
// size entries (virtio 1.3 §2.8).
func PackedBytesNeeded(size uint16) Bytes {
	return Bytes{Desc: 16 * uint64(size), Avail: 4, Used: 4}
}

// placePacked validates cfg's geometry and lays the parts over mem. Each part
// must lie in one region.
func (cfg *Config) placePacked(mem *shm.Memory) (p packedParts, err error) {
	if err := ValidSize(int(cfg.Size), cfg.Features); err != nil {
		return p, err
	}
	need := cfg.BytesNeeded()
	ring, ok, err := view[shm.Pair64](mem, "descriptor ring", cfg.Desc, need.Desc, DescAlign)
	if !ok {
		return p, err
	}
	driver, ok, err := view[uint32](mem, "driver event structure", cfg.Avail, need.Avail, EventAlign)
	if !ok {
		return p, err
	}
	device, ok, err := view[uint32](mem, "device event structure", cfg.Used, need.Used, EventAlign)
	if !ok {
		return p, err
	}
	return packedParts{ring: ring, driverEvent: &driver[0], deviceEvent: &device[0]}, nil
}

// spot is a position in a packed ring and the wrap counter there, as wrapBit or
// 0. Both in one word are how the event structures and the base have it.
type spot struct{ off, wrap uint16 }

func spotOf(v uint16) spot { return spot{off: v &^ wrapBit, wrap: v & wrapBit} }

func (s spot) word() uint16 { return s.off | s.wrap }

// availFlags are the two flags of a descriptor that is available at s, in place.
func (s spot) availFlags() uint64 { return uint64(s.wrap>>8|(s.wrap^wrapBit)) << flagShift }

// usedFlags are the two flags of a descriptor that is used at s, in place.
func (s spot) usedFlags() uint64 { return uint64(s.wrap>>8|s.wrap) << flagShift }

// on returns the position n entries on, n at most size.
func (s spot) on(n, size uint16) spot {
	off := uint32(s.off) + uint32(n)
	if off >= uint32(size) {
		return spot{off: uint16(off - uint32(size)), wrap: s.wrap ^ wrapBit}
	}
	return spot{off: uint16(off), wrap: s.wrap}
}

// back returns the position n entries before, n at most size.
func (s spot) back(n, size uint16) spot {
	if n > s.off {
		return spot{off: uint16(uint32(s.off) + uint32(size) - uint32(n)), wrap: s.wrap ^ wrapBit}
	}
	return spot{off: s.off - n, wrap: s.wrap}
}

// until returns the entries from s to e, which is not before s; more than size if
// that cannot be.
func (s spot) until(e spot, size uint16) uint32 {
	if s.wrap == e.wrap {
		if e.off < s.off {
			return uint32(size) + 1
		}
		return uint32(e.off - s.off)
	}
	return uint32(e.off) + uint32(size) - uint32(s.off)
}

// startSpots decodes cfg.Base.
func (cfg *Config) startSpots() (avail, used spot, err error) {
	lo, hi := uint16(cfg.Base), uint16(cfg.Base>>16)
	if hi == 0 && lo >= wrapBit {
		hi = lo
	}
	avail, used = spotOf(lo), spotOf(hi)
	if avail.off >= cfg.Size || used.off >= cfg.Size || used.until(avail, cfg.Size) > uint32(cfg.Size) {
		return avail, used, fmt.Errorf("%#x of %d entries: %w", cfg.Base, cfg.Size, ErrBase)
	}
	return avail, used, nil
}

// wants reports whether the side that wrote event wants to be told of what was
// done in the n entries up to now, and whether it said so by a position
// (virtio 1.3 §2.8.10.1).
func wants(event uint32, byIdx bool, now spot, n, size uint16) (want, positional bool) {
	switch flags := event >> 16 & 3; {
	case flags == eventDisable:
		return false, false
	case flags != eventDesc || !byIdx:
		return true, false
	}
	at := spotOf(uint16(event))
	if at.wrap != now.wrap {
		at.off -= size
	}
	return needEvent(at.off, now.off, now.off-n), true
}
