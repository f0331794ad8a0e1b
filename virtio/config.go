package virtio

import "encoding/binary"

// Bits of the configuration space's status field (virtio 1.3 §5.1.4).
const (
	NetStatusLinkUp   uint16 = 1
	NetStatusAnnounce uint16 = 2
)

// NetConfigLen is the length in bytes of the configuration space up to and
// including the supported hash types, the last field that this device
// implements.
const NetConfigLen = 24

// MaxQueuePairs is the most queue pairs that this device serves: with the
// control queue 257 rings.
const MaxQueuePairs = 128

// SpeedUnknown and DuplexUnknown say that a device does not tell its speed or
// its duplex; DuplexFull is full duplex (virtio 1.3 §5.1.4).
const (
	SpeedUnknown  uint32 = 0xffffffff
	DuplexUnknown uint8  = 0xff
	DuplexFull    uint8  = 1
)

// NetConfig is the configuration space of the net device (virtio 1.3 §5.1.4).
type NetConfig struct {
	MAC           [6]byte
	Status        uint16
	MaxQueuePairs uint16
	MTU           uint16
	SpeedMbit     uint32 // 10^6 bit/s, or SpeedUnknown
	Duplex        uint8  // 0 half, 1 full, or DuplexUnknown
	RSSMaxKey     uint8  // bytes of the longest key for RSS
	RSSMaxTable   uint16 // entries of the largest indirection table
	HashTypes     uint32 // what the device can compute, frame.HashTypes
}

// Encode writes the space, NetConfigLen bytes, little-endian, to b.
func (c *NetConfig) Encode(b []byte) {
	_ = b[NetConfigLen-1]
	copy(b, c.MAC[:])
	binary.LittleEndian.PutUint16(b[6:], c.Status)
	binary.LittleEndian.PutUint16(b[8:], c.MaxQueuePairs)
	binary.LittleEndian.PutUint16(b[10:], c.MTU)
	binary.LittleEndian.PutUint32(b[12:], c.SpeedMbit)
	b[16], b[17] = c.Duplex, c.RSSMaxKey
	binary.LittleEndian.PutUint16(b[18:], c.RSSMaxTable)
	binary.LittleEndian.PutUint32(b[20:], c.HashTypes)
}
