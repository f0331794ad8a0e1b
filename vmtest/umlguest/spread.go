package umlguest

import (
	"errors"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
)

// A kernel with one CPU chooses the transmit queue of a flow by a random number
// (sk_txhash, v6.1), where one with a CPU for each flow would give each a queue of
// its own. With as many queues as flows, a run whose flows share one is given up
// when the last has connected, and another made with the next lot of random
// numbers: the first lot that separates them is the scenario's.

// lots bounds the attempts. Two flows share one of two queues in half of the lots,
// four of four are separate in one of eleven.
const lots = 40

// errSameQueue ends an attempt whose flows share a queue.
var errSameQueue = errors.New("two flows share a queue")

// separable reports whether the scenario's flows can have a queue each.
func separable(s *vmtest.Scenario) bool {
	if s.Guests.Senders > 1 || s.Flows < 2 || s.Flows > 4 || s.Flows > s.QueuePairs {
		return false
	}
	for i := range s.Flows {
		if s.Flow(i).Start > time.Millisecond {
			return false
		}
	}
	return true
}

// connected looks at the queues when a flow has connected.
func (w *world) connected() {
	if !w.separate {
		return
	}
	used := map[int]bool{}
	for i := range w.flows {
		if !w.flows[i].known {
			return
		}
		used[w.flows[i].queue] = true
	}
	if len(used) < len(w.flows) {
		w.cal.broken(errSameQueue)
	}
}

// shared reports whether two flows of a guest had one queue although there was one
// for each.
func (w *world) shared() bool {
	for k := range w.sources {
		used, n := map[int]bool{}, 0
		for i := k; i < len(w.flows); i += len(w.sources) {
			used[w.flows[i].queue] = true
			n++
		}
		if len(used) < min(n, w.s.QueuePairs) {
			return true
		}
	}
	return false
}
