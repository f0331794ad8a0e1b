package tap

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// maxPieces is how many pieces of guest memory one frame may lie in: IOV_MAX of
// Linux, less one for the header.
const maxPieces = 1023

// Queue is one queue of a tap: a netdev.Port and a vhost.Port. It is not safe
// for concurrent use, and no method blocks.
type Queue struct {
	fd       int
	attached bool
	uso      bool // the kernel takes and gives USO
	rx       receiver
	hdr      [virtio.NetHdrLen]byte
	iov      []unix.Iovec // scratch of both directions, maxPieces+1 long
	stats    Stats
	err      error
	observer Observer
}

// Stats counts what became of a queue's frames since it was opened. The device
// counts frames and bytes; here are the tap's own troubles.
type Stats struct {
	Sent     int64 // frames that the kernel took
	Full     int64 // frames that it had no room for; the device sends them again
	Rejected int64 // frames lost because it found header and frame at odds (EINVAL)
	Detached int64 // frames lost because the queue or the interface was down
	NoMemory int64 // frames lost because the kernel had no memory
	Pieces   int64 // frames lost because they lay in more than 1023 pieces
	Received int64 // frames read
	Cut      int64 // of these, lost because they came without data or longer than 64 KiB
}

func newQueue(fd int) *Queue {
	return &Queue{fd: fd, attached: true, iov: make([]unix.Iovec, maxPieces+1)}
}

// Stats returns the queue's counters.
func (q *Queue) Stats() Stats { return q.stats }

// Send writes one frame, which lies in iov, to the interface. The kernel has
// copied or dropped it when Send returns, so the buffers are free at now. Full
// means that the socket buffer of the tap is full.
func (q *Queue) Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, _ netdev.Token) (vtime.Time, netdev.SendResult) {
	if len(iov) > maxPieces {
		q.stats.Pieces++
		return now, netdev.Sent
	}
	hdr := *h
	hdr.NumBuffers = 0
	hdr.Encode(q.hdr[:])
	n, err := writev(q.fd, q.wire(&q.hdr, iov))
	if err == nil {
		q.stats.Sent++
		q.observed(now, false, h, iov, n-virtio.NetHdrLen)
		return now, netdev.Sent
	}
	if errors.Is(err, unix.EAGAIN) {
		q.stats.Full++
		return now, netdev.Full
	}
	q.lose(err)
	return now, netdev.Sent
}

// wire puts the header and the pieces, up to maxPieces, into the scratch.
func (q *Queue) wire(hdr *[virtio.NetHdrLen]byte, pieces [][]byte) []unix.Iovec {
	q.iov[0].Base = &hdr[0]
	q.iov[0].SetLen(len(hdr))
	n := 1
	for _, b := range pieces {
		if len(b) == 0 || n == len(q.iov) {
			continue
		}
		q.iov[n].Base = &b[0]
		q.iov[n].SetLen(len(b))
		n++
	}
	return q.iov[:n]
}

// lose counts a frame that writev refused. What is not about the frame or the
// state of the interface becomes the queue's error.
func (q *Queue) lose(err error) {
	switch err {
	case unix.EINVAL, unix.EMSGSIZE:
		q.stats.Rejected++
	case unix.EIO, unix.EBADFD, unix.ENETDOWN:
		q.stats.Detached++
	case unix.ENOMEM, unix.ENOBUFS:
		q.stats.NoMemory++
	default:
		if q.err == nil {
			q.err = fmt.Errorf("tap: writev: %w", err)
		}
	}
}

// Flush does nothing: Send keeps nothing back.
func (q *Queue) Flush(vtime.Time) {}

// Err is the first error of Send that was not about one frame; it wraps
// unix.EFAULT if guest memory was truncated.
func (q *Queue) Err() error { return q.err }

// Negotiated makes the acknowledged receive features the offloads of the whole
// interface, and clears Err. ECN without TSO, and TSO without GUEST_CSUM, are
// left out, since the kernel refuses them. Of UFO the kernel makes nothing, and
// of USO for one of the two IP versions neither.
func (q *Queue) Negotiated(acked virtio.Features) error {
	q.err = nil
	var flags int
	if acked.Has(virtio.FeatureGuestCSum) {
		flags = unix.TUN_F_CSUM
		if acked.Has(virtio.FeatureGuestTSO4) {
			flags |= unix.TUN_F_TSO4
		}
		if acked.Has(virtio.FeatureGuestTSO6) {
			flags |= unix.TUN_F_TSO6
		}
		if acked.Has(virtio.FeatureGuestECN) && flags != unix.TUN_F_CSUM {
			flags |= unix.TUN_F_TSO_ECN
		}
		if q.uso && acked.Has(virtio.FeatureGuestUSO4|virtio.FeatureGuestUSO6) {
			flags |= unix.TUN_F_USO4 | unix.TUN_F_USO6
		}
	}
	if err := unix.IoctlSetInt(q.fd, unix.TUNSETOFFLOAD, flags); err != nil {
		return fmt.Errorf("tap: TUNSETOFFLOAD %#x: %w", flags, err)
	}
	return nil
}

// Offloads is what the kernel takes from the guest: everything, but USO only
// since v6.2.
func (q *Queue) Offloads() virtio.Features {
	all := virtio.FeatureCSum | virtio.FeatureHostTSO4 | virtio.FeatureHostTSO6 | virtio.FeatureHostECN | virtio.FeatureHostUFO
	if q.uso {
		all |= virtio.FeatureHostUSO
	}
	return all
}

// probe finds out whether the kernel knows USO. It leaves no offload on.
func (q *Queue) probe() error {
	q.uso = unix.IoctlSetInt(q.fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_USO4|unix.TUN_F_USO6) == nil
	if err := unix.IoctlSetInt(q.fd, unix.TUNSETOFFLOAD, 0); err != nil {
		return fmt.Errorf("TUNSETOFFLOAD: %w", err)
	}
	return nil
}

// Enable attaches the queue to its interface or detaches it: the kernel
// spreads frames over attached queues only.
func (q *Queue) Enable(on bool) error {
	if on == q.attached {
		return nil
	}
	ifr, err := unix.NewIfreq("vnb") // the ioctl reads the flags only
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_DETACH_QUEUE)
	if on {
		ifr.SetUint16(unix.IFF_ATTACH_QUEUE)
	}
	if err := unix.IoctlIfreq(q.fd, unix.TUNSETQUEUE, ifr); err != nil {
		return fmt.Errorf("tap: TUNSETQUEUE: %w", err)
	}
	q.attached = on
	return nil
}

// RxFD is the descriptor that is readable when frames wait.
func (q *Queue) RxFD() int { return q.fd }

// TxFD is the descriptor that is writable after Send answered Full.
func (q *Queue) TxFD() int { return q.fd }

// Close closes the queue. A second call does nothing.
func (q *Queue) Close() error {
	if q.fd < 0 {
		return nil
	}
	fd := q.fd
	q.fd = -1
	return unix.Close(fd)
}
