package host

import (
	"strconv"

	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Rings are the counters of a device at one time: those of the pairs by index,
// and of the control queue.
type Rings struct {
	RX, TX []netdev.Stats
	Ctrl   netdev.Stats
}

// SenderName is what a guest's queues are called in a Run, by its number and how
// many of its kind there are.
func SenderName(i, of int) string { return guestName("sender", i, of) }

// ReceiverName is the same for a guest that receives.
func ReceiverName(i, of int) string { return guestName("receiver", i, of) }

func guestName(role string, i, of int) string {
	if of <= 1 {
		return role
	}
	return role + " " + strconv.Itoa(i)
}

// AddQueues fills in a run's queues and totals by what the device counted since
// from. exitNs and irqNs are the modelled costs of one kick and of one call.
func (to Rings) AddQueues(r *vmtest.Run, from Rings, exitNs, irqNs float64) {
	tx, rx := to.Append(r, SenderName(0, 1), from, exitNs, irqNs)
	r.Totals = vmtest.NewTotals(&tx, &rx, exitNs, irqNs)
}

// Append adds a guest's queues to a run's, and returns the sums over its pairs.
func (to Rings) Append(r *vmtest.Run, guest string, from Rings, exitNs, irqNs float64) (tx, rx netdev.Stats) {
	first := len(r.Queues)
	for i := range to.RX {
		a, b := to.RX[i], to.TX[i]
		a.Sub(&from.RX[i])
		b.Sub(&from.TX[i])
		rx.Merge(&a)
		tx.Merge(&b)
		r.Queues = append(r.Queues, vmtest.NewQueue(i, netdev.DirRX, &a, exitNs, irqNs), vmtest.NewQueue(i, netdev.DirTX, &b, exitNs, irqNs))
	}
	ctrl := to.Ctrl
	ctrl.Sub(&from.Ctrl)
	r.Queues = append(r.Queues, vmtest.NewQueue(0, netdev.DirCtrl, &ctrl, exitNs, irqNs))
	for i := range r.Queues[first:] {
		r.Queues[first+i].Guest = guest
	}
	return tx, rx
}
