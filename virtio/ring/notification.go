package ring

// Notification is the data of a kick if NOTIFICATION_DATA was negotiated (virtio
// 1.3 §2.9): which queue, and how far the driver has got. vhost-user has nothing to
// carry it in, neither an eventfd nor its messages for kicks; it is for transports
// that do, and for drivers and devices in one process.
type Notification struct {
	Queue uint16 // index of the virtqueue
	// Next is where the next available entry will be: split, the available index;
	// packed, the position in bits 0 to 14 and the wrap counter in bit 15.
	Next uint16
}

// Encode returns the little-endian 32-bit value that a driver writes.
func (n Notification) Encode() uint32 { return uint32(n.Queue) | uint32(n.Next)<<16 }

// DecodeNotification returns what a value that a driver wrote says. Any value says
// something; whether there is such a queue, and whether it has got that far, is for
// the device to find out by looking at the ring.
func DecodeNotification(v uint32) Notification {
	return Notification{Queue: uint16(v), Next: uint16(v >> 16)}
}

// Notification returns the data of a kick for what was published, the ring being
// that of a queue with this index.
func (q *Driver) Notification(queue uint16) Notification {
	if q.packed {
		return Notification{Queue: queue, Next: q.pk.shown.word()}
	}
	return Notification{Queue: queue, Next: q.shown}
}
