package driver

import (
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// TxEvent is what an interrupt or a poll of a transmit queue asks of the
// composer.
type TxEvent struct {
	Poll bool // schedule Poll in a softirq on this CPU
	Wake bool // the queue takes packets again: raise the transmit softirq for it
	Done int  // packets reaped
}

// Interrupt is the device's call for this queue (skb_xmit_done, v3.8 to v6.12).
// Without napi release it wakes the queue and leaves the reaping to the next
// Xmit.
func (q *TxQueue) Interrupt() (e TxEvent) {
	q.Stats.Interrupts++
	q.ring.Called()
	q.ring.DisableCalls()
	if q.cfg.NAPI {
		e.Poll = q.schedule()
		return e
	}
	if q.stopped {
		q.start()
		e.Wake = true
	}
	return e
}

// Poll is the NAPI poll of the queue (virtnet_poll_tx, v4.12 to v6.12): it reaps
// all that is completed, wakes the queue if there is room, and asks for calls
// again, unless more was completed meanwhile: then Poll is set again.
func (q *TxQueue) Poll(now vtime.Time) (e TxEvent) {
	q.Stats.Polls++
	was := q.Stopped()
	q.ring.DisableCalls()
	e.Done = q.reap(now)
	q.mayWake()
	if q.ring.EnableCalls() {
		q.ring.DisableCalls()
		e.Poll = true
	}
	q.scheduled = e.Poll
	e.Wake = was && !q.Stopped()
	return e
}

// cleanFromRX is what the receive poll of the same pair does first
// (virtnet_poll_cleantx, v4.12 to v6.12).
func (q *TxQueue) cleanFromRX(now vtime.Time) (wake bool) {
	if !q.cfg.NAPI {
		return false
	}
	was := q.Stopped()
	if q.cfg.Switches.CleanRxCalls {
		q.clean(now, true)
	} else {
		q.reap(now)
	}
	q.mayWake()
	return was && !q.Stopped()
}

// mayWake undoes stop if the ring has room for any packet again.
func (q *TxQueue) mayWake() {
	if q.stopped && q.ring.Free() >= stopSlots {
		q.start()
	}
}

// reap frees the packets that the device is done with (free_old_xmit_skbs,
// v3.8; free_old_xmit, v6.12).
func (q *TxQueue) reap(now vtime.Time) (n int) {
	var bytes int64
	for {
		token, _, ok := q.ring.Reap()
		if !ok {
			break
		}
		p := q.packets[token]
		q.packets[token] = nil
		q.tokens = append(q.tokens, uint16(token))
		bytes += int64(p.HdrLen) + int64(p.Len)
		n++
		p.Free()
	}
	if n == 0 {
		return 0
	}
	q.meter.Charge(vcpu.OpTxFree, int64(n))
	q.Stats.Packets += uint64(n)
	q.Stats.Bytes += uint64(bytes)
	if q.limits {
		q.bql.completed(now, bytes)
		if q.bql.stopped && !q.bql.full() {
			q.bql.stopped = false
		}
	}
	return n
}

// Err returns why the queue's ring is dead, because the device broke its rules,
// or nil.
func (q *TxQueue) Err() error { return q.ring.Err() }
