package host

import (
	"slices"

	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// A thread that several workers share serves them by turns, and asks for kicks
// only when no ring of them has anything.

// join gives the worker to a thread, which it was not with.
func (k *Worker) join(t *thread) {
	k.thread, k.place = t, len(t.workers)
	t.workers = append(t.workers, k)
}

// wanted is the thread that the worker's pair would be served by: that of the first
// of its mates whose pair wishes to share, if it does as well, or its own.
func (k *Worker) wanted() *thread {
	if !k.pair.Shares() {
		return k.home
	}
	for _, m := range k.mates {
		if m.pair.Shares() {
			return m.home
		}
	}
	return k.home
}

// move takes the worker, which serves nothing, to the thread that is wanted, and
// wakes that.
func (k *Worker) move(now vtime.Time) {
	from := k.thread
	from.workers = slices.Delete(from.workers, k.place, k.place+1)
	for i, other := range from.workers {
		other.place = i
		other.turnTo(netdev.DirTX) // it has not asked for kicks yet
	}
	from.at = 0
	k.turnTo(netdev.DirTX)
	k.join(k.wanted())
	from.tell(now)
	k.thread.tell(now)
	k.wake(now, k, netdev.DirTX)
}

// tell tells the pairs of a thread whether they share it.
func (t *thread) tell(now vtime.Time) {
	for _, k := range t.workers {
		k.pair.SetShared(now, len(t.workers) > 1)
	}
}
