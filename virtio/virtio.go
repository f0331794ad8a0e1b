// Package virtio holds what every part of the device shares: feature bits, the
// device status, the net header and the configuration space of virtio-net
// (virtio 1.3 §2 and §5.1). It is without I/O, clock, goroutine or lock, and
// imports nothing of this module.
package virtio

// Device status bits (virtio 1.3 §2.1).
const (
	StatusAcknowledge uint8 = 1
	StatusDriver      uint8 = 2
	StatusDriverOK    uint8 = 4
	StatusFeaturesOK  uint8 = 8
	StatusNeedsReset  uint8 = 64
	StatusFailed      uint8 = 128
)
