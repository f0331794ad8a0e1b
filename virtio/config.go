package virtio

import "encoding/binary"

// Bits of the configuration space's status field (virtio 1.3 §5.1.4).
const (
	NetStatusLinkUp   uint16 = 1
	NetStatusAnnounce uint16 = 2
)

// NetConfigLen is the length in bytes of the configuration space up to and
// including the MTU field, the last that this device implements.
const NetConfigLen = 12

// MaxQueuePairs is the most queue pairs that this device serves: with the
// control queue 257 rings.
const MaxQueuePairs = 128

// NetConfig is the configuration space of the net device (virtio 1.3 §5.1.4).
type NetConfig struct {
	MAC           [6]byte
	Status        uint16
	MaxQueuePairs uint16
	MTU           uint16
}

// Encode writes the space, NetConfigLen bytes, little-endian, to b.
func (c *NetConfig) Encode(b []byte) {
	_ = b[NetConfigLen-1]
	copy(b, c.MAC[:])
	binary.LittleEndian.PutUint16(b[6:], c.Status)
	binary.LittleEndian.PutUint16(b[8:], c.MaxQueuePairs)
	binary.LittleEndian.PutUint16(b[10:], c.MTU)
}
