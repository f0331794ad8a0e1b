package tap

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Observer sees the frames that pass a queue, on the thread that moves them.
type Observer interface {
	// Frame is told of a frame that the kernel took from the guest, or that was
	// read for it. first is its first piece, which holds the headers of every
	// frame that Linux sends, and size its length in bytes; neither h nor first
	// may be kept or changed.
	Frame(now vtime.Time, toGuest bool, h *virtio.NetHdr, first []byte, size int)
}

// Observe has o told of every frame from here on; nil ends it. Nothing may use
// the queue meanwhile.
func (q *Queue) Observe(o Observer) { q.observer = o }

// observed tells the observer, if there is one.
func (q *Queue) observed(now vtime.Time, toGuest bool, h *virtio.NetHdr, pieces [][]byte, size int) {
	if q.observer != nil && len(pieces) > 0 {
		q.observer.Frame(now, toGuest, h, pieces[0][:min(size, len(pieces[0]))], size)
	}
}
