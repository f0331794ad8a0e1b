package vhost

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// ownMax is how many frames of its own a worker keeps for a port that does not
// take them yet; ownRetry is how often it tries.
const (
	ownMax   = 8
	ownRetry = time.Millisecond
)

// sendOwn sends a frame that no guest sent, as soon as the port is open. Of too
// many the oldest is forgotten. It runs on the thread.
func (w *worker) sendOwn(f []byte) {
	if len(w.own) == ownMax {
		w.own = w.own[1:]
	}
	w.own = append(w.own, f)
}

// flushOwn gives the port what it takes of the frames, and returns when to try
// again.
func (w *worker) flushOwn(now vtime.Time) (again vtime.Time) {
	if !w.open {
		return vtime.Never
	}
	for ; len(w.own) > 0; w.own = w.own[1:] {
		if !w.pair.Inject(now, w.own[0]) {
			return now.Add(ownRetry)
		}
	}
	w.own = nil
	return vtime.Never
}
