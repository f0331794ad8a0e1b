package tap

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

const (
	// maxFrame is the longest frame of a tap in bytes: an IP packet of 64 KiB
	// behind an Ethernet header with a VLAN tag.
	maxFrame = 14 + 4 + 65535

	// smallFrame is the longest frame in bytes that is copied: an
	// acknowledgement with every option fits. Copying it lets the device hold
	// or drop it, and costs less than a buffer that is given back.
	smallFrame = 256
)

// receiver is the scratch of Receive.
type receiver struct {
	hdr   [virtio.NetHdrLen]byte
	small [smallFrame]byte
	h     virtio.NetHdr
}

// Receive reads up to budget frames into the guest's receive queue. The kernel
// writes each frame into buffers of the guest and its header into ours; the
// device then writes the header that the guest gets.
func (q *Queue) Receive(now vtime.Time, rx *netdev.RX, budget int) (n int, more bool, err error) {
	for n < budget {
		pieces, ok := rx.Reserve(maxFrame + 1) // one more, to see that none was cut
		if !ok {
			return n, false, nil
		}
		got, err := readv(q.fd, q.wire(&q.rx.hdr, pieces))
		if err != nil {
			rx.Abort()
			return n, false, readError(err)
		}
		n++
		q.stats.Received++
		q.deliver(now, rx, got, pieces)
	}
	return n, true, nil
}

// readError is what of a read's error is one: an empty queue is none, nor is
// one that was detached.
func readError(err error) error {
	switch err {
	case unix.EAGAIN, unix.EINTR, unix.EBADFD:
		return nil
	}
	return fmt.Errorf("tap: readv: %w", err)
}

// deliver gives the device a frame of which got bytes, the header included,
// were read into the reserved pieces.
func (q *Queue) deliver(now vtime.Time, rx *netdev.RX, got int, pieces [][]byte) {
	size := got - virtio.NetHdrLen
	if size <= 0 || size > maxFrame {
		rx.Abort()
		q.stats.Cut++
		return
	}
	q.rx.h.Decode(q.rx.hdr[:])
	q.observed(now, true, &q.rx.h, pieces, size)
	if size > smallFrame {
		rx.Commit(size, &q.rx.h)
		return
	}
	frame := q.rx.small[:size]
	gather(frame, pieces)
	rx.Abort()
	rx.Deliver(now, &q.rx.h, frame)
}

// gather fills dst with the first bytes of the pieces.
func gather(dst []byte, pieces [][]byte) {
	for i := 0; len(dst) > 0 && i < len(pieces); i++ {
		dst = dst[copy(dst, pieces[i]):]
	}
}
