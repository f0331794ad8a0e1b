package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// SendResult is what became of a frame that was given to a Port.
type SendResult uint8

// The three answers of a port.
const (
	// Sent: the port took the frame; its buffers are free at the returned time.
	Sent SendResult = iota
	// Full: the port did not take it. The chain goes back to the ring and the
	// queue sleeps until Writable.
	Full
	// Later: the port took it and keeps its buffers until it gives the token
	// to Complete.
	Later
)

// Token names a frame that a port keeps. It is opaque; one from before the
// queue was stopped or reset is ignored by Complete.
type Token uint64

func makeToken(gen uint32, head uint16) Token { return Token(gen)<<16 | Token(head) }
func (t Token) gen() uint32                   { return uint32(t >> 16) }
func (t Token) head() uint16                  { return uint16(t) }

// Port is the wire that a transmit queue sends to.
type Port interface {
	// Send takes a frame. The header was validated: its flags hold at most
	// NEEDS_CSUM, a GSO type that was negotiated and fits the frame, and a
	// HdrLen that the device measured. iov is the frame without the net
	// header, at least one piece and none of them empty. h and iov themselves
	// belong to the queue and are valid only during the call; the guest memory
	// that the pieces of iov name stays valid until done (Sent) or until
	// Complete (Later). The guest may change that memory at any time, so a
	// port that reads a byte twice may see two values. done is ignored unless
	// the result is Sent; a time in the past means now. The port must not call
	// the queue's Poll from here.
	Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, tok Token) (done vtime.Time, r SendResult)
	// Flush ends a batch: the port pushes out what it gathered. It is called
	// once at the end of each Poll that sent something.
	Flush(now vtime.Time)
}

// FrameLen is the length of a frame in pieces, as Send gets it.
func FrameLen(iov [][]byte) (n int) {
	for _, b := range iov {
		n += len(b)
	}
	return n
}

// Dir names one of the three kinds of queue.
type Dir uint8

// The kinds of queue. DirRX is the guest's receive queue, DirTX its transmit
// queue.
const (
	DirRX Dir = iota
	DirTX
	DirCtrl
)

// String returns "rx", "tx" or "ctrl".
func (d Dir) String() string { return [...]string{"rx", "tx", "ctrl"}[min(d, DirCtrl)] }

// Budget bounds one Poll. A Poll takes no further packet once one of the
// bounds is reached, so it may exceed Bytes by one packet. Zero is no bound
// but the ring's size, which always bounds a Poll. With Packets below zero a
// Poll takes none and does not look at the ring for new ones: it only completes
// and publishes what is due.
type Budget struct {
	Packets int
	Bytes   int
}

// takes reports whether a Poll with this budget looks for packets.
func (b Budget) takes() bool { return b.Packets >= 0 }

// Work is what one Poll did, for a cost table to turn into CPU time.
type Work struct {
	Packets   int // packets sent or delivered; commands of the control queue
	Bytes     int // frame bytes of those packets, without the net header
	Payload   int // TCP payload bytes of those packets
	Segs      int // packets on the wire after segmentation
	Descs     int // descriptors read
	Dropped   int // chains (TX, control) or frames (RX) dropped and counted
	Copied    int // bytes that the device itself copied
	Completed int // used entries published
}

// Add adds o to w.
func (w *Work) Add(o Work) {
	w.Packets += o.Packets
	w.Bytes += o.Bytes
	w.Payload += o.Payload
	w.Segs += o.Segs
	w.Descs += o.Descs
	w.Dropped += o.Dropped
	w.Copied += o.Copied
	w.Completed += o.Completed
}

// within reports whether the budget leaves room for another packet after w.
// limit bounds the packets if the budget does not.
func (b Budget) within(w *Work, limit int) bool {
	n := w.Packets + w.Dropped
	if n >= limit || b.Packets != 0 && n >= b.Packets {
		return false
	}
	return b.Bytes <= 0 || w.Bytes < b.Bytes
}

// left is how many packets the budget leaves after w, limit bounding them too.
func (b Budget) left(w *Work, limit int) int {
	n := w.Packets + w.Dropped
	if b.Packets != 0 {
		limit = min(limit, b.Packets)
	}
	return limit - n
}
