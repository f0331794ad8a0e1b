package qdisc

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Outcome is what a step asks of the composer, in this order: Kick and Poll at
// once, then, if More, the next Run; Resched and Handoff at the end.
type Outcome struct {
	Sent    int  // packets the driver took in this step
	Dropped bool // the packet given to Xmit is gone (NET_XMIT_DROP)
	// Congested: the packet given to Xmit cost packets of its flow, or is lost
	// itself, but counts as sent (NET_XMIT_CN). A TCP sender takes both this and
	// Dropped as a sign of congestion (tcp_enter_cwr).
	Congested bool
	Kick      bool // notify the device now: the last packet of the step asked for it
	Poll      bool // schedule the driver's TX poll
	More      bool // packets wait and the driver takes them: call Run
	// Resched: the run used up its quota. Raise the transmit softirq on this CPU
	// and call Restart there.
	Resched bool
	// Handoff: another CPU is inside the queue. The packet waits in the queue, and
	// CPU Holder must call Restart when its own run ends, at Until. It is set for
	// the first packet that needs it only.
	Handoff bool
	Holder  int
	Until   vtime.Time
}

// Xmit is dev_queue_xmit: it takes a packet from CPU cpu whose time is now, and
// makes the first step of sending what is queued (__dev_xmit_skb, v3.8 to v6.12).
func (q *TxQ) Xmit(now vtime.Time, cpu int, p *skb.SKB) Outcome {
	q.meter.Charge(vcpu.OpQdisc, 1)
	if q.cfg.Kind == NoQueue {
		return q.xmitDirect(now, cpu, p)
	}
	if q.held(now, cpu) {
		return q.contend(now, p)
	}
	q.begin(cpu)
	if q.Len() == 0 && !q.cfg.NoBypass && q.disc.Bypass() {
		q.Stats.Bypassed++
		q.load(p)
		return q.Run(now)
	}
	fate := q.enqueue(now, p)
	o := q.Run(now)
	o.Dropped, o.Congested = fate == Refused, fate == Congested
	return o
}

// Restart is the transmit softirq, or the end of a hand-off: it begins a run of
// what is queued, as after the driver woke the queue or the watchdog fired
// (net_tx_action, v6.1).
func (q *TxQ) Restart(now vtime.Time, cpu int) Outcome {
	if now >= q.disc.Next() {
		q.disc.Fire(now)
	}
	if q.held(now, cpu) {
		return q.handOff()
	}
	q.begin(cpu)
	return q.Run(now)
}

// Run makes one step: packets go to the driver until one asks for a kick, the
// batch is done, or the driver stops (sch_direct_xmit and __qdisc_run, v6.1).
func (q *TxQ) Run(now vtime.Time) Outcome {
	var o Outcome
	if q.batch.Len() == 0 && !q.dequeue(now) {
		return o
	}
	for q.batch.Len() > 0 && !o.Kick {
		if q.again > 0 && q.quota <= 0 {
			break
		}
		if q.dev.Stopped() || !q.give(now, &o) {
			q.requeue()
			return o
		}
	}
	if q.Len() == 0 {
		return o
	}
	if q.dev.Stopped() {
		if q.batch.Len() > 0 {
			q.requeue()
		}
		return o
	}
	o.More = q.quota > 0 || q.batch.Len() > q.again
	o.Resched = !o.More
	if o.Resched {
		q.Stats.Rescheds++
	}
	return o
}

// Release ends the run of this CPU at now, its time after everything the last
// step asked for: until then the queue was held.
func (q *TxQ) Release(now vtime.Time) { q.until = now }

// give hands the first packet of the batch to the driver and reports whether it
// was taken.
func (q *TxQ) give(now vtime.Time, o *Outcome) bool {
	p := q.batch.Pop()
	bytes := uint64(p.HdrLen) + uint64(p.Len)
	v := q.dev.Xmit(now, p, q.cfg.Bulk && q.batch.Len() > q.again)
	if v.Busy {
		q.batch.Unpop(p)
		return false
	}
	if q.again > 0 {
		q.again--
		q.quota--
	}
	q.inHand = false
	q.Stats.Packets++
	q.Stats.Bytes += bytes
	o.Sent++
	o.Kick = o.Kick || v.Kick
	o.Poll = o.Poll || v.Poll
	return true
}

// requeue puts the rest of the batch back, and notes, once per packet, that a
// dequeued packet has to wait. What was put back leaves one by one, not as a batch
// (dev_requeue_skb, v6.1).
func (q *TxQ) requeue() {
	q.again = q.batch.Len()
	q.disc.Hold(q.batch.Len())
	if !q.inHand {
		q.inHand = true
		q.Stats.Requeued++
	}
}

// dequeue loads the next batch, unless the driver is stopped or nothing leaves
// at now. A batch may be one packet longer than what is left of the quota
// (try_bulk_dequeue_skb, v6.1).
func (q *TxQ) dequeue(now vtime.Time) bool {
	if q.disc.Len() == 0 || q.dev.Stopped() {
		return false
	}
	room := int64(0)
	if q.cfg.Bulk {
		room = q.dev.BulkBytes()
	}
	for left := q.quota; left >= 0; left-- {
		p, ok := q.disc.Dequeue(now)
		if !ok {
			break
		}
		room -= int64(p.HdrLen + p.Len)
		q.load(p)
		q.quota--
		if room <= 0 {
			break
		}
	}
	return q.batch.Len() > 0
}

// load puts a packet, cut if need be, at the end of the batch.
func (q *TxQ) load(p *skb.SKB) {
	if q.cfg.SoftGSO && p.Segs > 1 {
		q.Stats.Segmented++
		q.split.segment(p, &q.batch)
		return
	}
	q.batch.Push(p)
}

// xmitDirect is the path of a device without a queue: the driver takes the
// packet or it is lost.
func (q *TxQ) xmitDirect(now vtime.Time, cpu int, p *skb.SKB) Outcome {
	q.begin(cpu)
	if q.batch.Len() == 0 && !q.dev.Stopped() {
		q.load(p)
		return q.Run(now)
	}
	q.Stats.Dropped++
	p.Free()
	return Outcome{Dropped: true}
}

// contend queues a packet of a CPU that finds another inside the queue.
func (q *TxQ) contend(now vtime.Time, p *skb.SKB) Outcome {
	q.Stats.Contended++
	fate := q.enqueue(now, p)
	if fate == Refused {
		return Outcome{Dropped: true}
	}
	o := q.handOff()
	o.Congested = fate == Congested
	return o
}

// handOff makes the CPU that is inside the queue come back, once.
func (q *TxQ) handOff() Outcome {
	o := Outcome{Handoff: !q.handoff, Holder: q.holder, Until: q.until}
	q.handoff = true
	return o
}

// enqueue gives a packet to the discipline.
func (q *TxQ) enqueue(now vtime.Time, p *skb.SKB) Fate {
	q.disc.Hold(q.batch.Len())
	fate := q.disc.Enqueue(now, p)
	if fate == Refused {
		q.Stats.Dropped++
	}
	q.Stats.BacklogMax = max(q.Stats.BacklogMax, q.Len())
	return fate
}

func (q *TxQ) begin(cpu int) {
	q.holder, q.quota, q.handoff = cpu, q.cfg.Quota, false
}

// held reports whether a CPU other than this one is inside the queue at now.
func (q *TxQ) held(now vtime.Time, cpu int) bool {
	return cpu != q.holder && now < q.until
}
