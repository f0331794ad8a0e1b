package host

import (
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Rings are the counters of a device at one time: those of the pairs by index,
// and of the control queue.
type Rings struct {
	RX, TX []netdev.Stats
	Ctrl   netdev.Stats
}

// AddQueues fills in a run's queues and totals by what the device counted since
// from. exitNs and irqNs are the modelled costs of one kick and of one call.
func (to Rings) AddQueues(r *vmtest.Run, from Rings, exitNs, irqNs float64) {
	var tx, rx netdev.Stats
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
	r.Totals = vmtest.NewTotals(&tx, &rx, exitNs, irqNs)
}
