package simguest

import (
	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// txQueue is a transmit queue of the guest: its queueing discipline, and the
// work that its driver leaves to interrupts and softirqs.
type txQueue struct {
	w     *world
	index int
	cpu   *processor // of its interrupts
	q     *qdisc.TxQ
	wait  timer // the discipline holds packets back

	irq     txIRQ
	poll    txPoll
	restart txRestart
}

// The tasks of a transmit queue, each a view of it.
type (
	txIRQ     struct{ *txQueue } // the device's call
	txPoll    struct{ *txQueue } // its NAPI poll
	txRestart struct{ *txQueue } // the transmit softirq
)

func newTxQueue(w *world, i int, cpu *processor, q *qdisc.TxQ) *txQueue {
	t := &txQueue{w: w, index: i, cpu: cpu, q: q}
	t.irq, t.poll, t.restart = txIRQ{t}, txPoll{t}, txRestart{t}
	t.wait = w.newTimer(t, 0)
	return t
}

// Run is the watchdog of the queueing discipline.
func (t *txQueue) Run(now vtime.Time, _ uint64) {
	t.q.Fire(now)
	t.cpu.post(now, vcpu.SoftIRQ, &t.restart)
}

// xmit is dev_queue_xmit on the current CPU. It reports false if the packet was
// dropped before any queue took it.
func (t *txQueue) xmit(p *skb.SKB) bool {
	cpu := t.w.cur
	o := t.q.Xmit(cpu.Now(), cpu.ID, p)
	dropped := o.Dropped
	t.carry(o)
	return !dropped
}

// carry does what the steps of the queue ask for, until it rests.
func (t *txQueue) carry(o qdisc.Outcome) {
	cpu := t.w.cur
	for {
		if o.Kick {
			cpu.Charge(vcpu.OpKick, 1)
			t.w.kick(cpu.Now(), t.index, netdev.DirTX)
		}
		if o.Poll {
			cpu.post(cpu.Now(), vcpu.SoftIRQ, &t.poll)
		}
		if !o.More {
			break
		}
		o = t.q.Run(cpu.Now())
	}
	if o.Handoff {
		// The holder goes on with this packet when its own run ends.
		t.w.cpus[o.Holder].post(max(cpu.Now(), o.Until), vcpu.SoftIRQ, &t.restart)
		return
	}
	t.q.Release(cpu.Now())
	t.wait.Set(t.q.Next())
	if o.Resched {
		cpu.post(cpu.Now(), vcpu.SoftIRQ, &t.restart)
	}
}

// Run is the interrupt handler.
func (t *txIRQ) Run(c *vcpu.CPU) {
	c.Charge(vcpu.OpIRQ, 1)
	e := t.w.net.TX(t.index).Interrupt()
	if e.Poll {
		t.w.cur.post(c.Now(), vcpu.SoftIRQ, &t.poll)
	}
	if e.Wake {
		t.w.cur.post(c.Now(), vcpu.SoftIRQ, &t.restart)
	}
}

// Run is the NAPI poll of the transmit queue.
func (t *txPoll) Run(c *vcpu.CPU) {
	c.Charge(vcpu.OpNAPI, 1)
	e := t.w.net.TX(t.index).Poll(c.Now())
	if e.Poll {
		t.w.cur.post(c.Now(), vcpu.SoftIRQ, &t.poll)
	}
	if e.Wake {
		t.w.cur.post(c.Now(), vcpu.SoftIRQ, &t.restart)
	}
}

// Run is the transmit softirq.
func (t *txRestart) Run(c *vcpu.CPU) { t.carry(t.q.Restart(c.Now(), c.ID)) }

// rxQueue is a receive queue of the guest.
type rxQueue struct {
	w     *world
	index int
	cpu   *processor

	irq  rxIRQ
	poll rxPoll
}

type (
	rxIRQ  struct{ *rxQueue }
	rxPoll struct{ *rxQueue }
)

func newRxQueue(w *world, i int, cpu *processor) *rxQueue {
	r := &rxQueue{w: w, index: i, cpu: cpu}
	r.irq, r.poll = rxIRQ{r}, rxPoll{r}
	return r
}

// Run is the interrupt handler.
func (r *rxIRQ) Run(c *vcpu.CPU) {
	c.Charge(vcpu.OpIRQ, 1)
	if r.w.net.RX(r.index).Interrupt() {
		r.w.cur.post(c.Now(), vcpu.SoftIRQ, &r.poll)
	}
}

// Run is the NAPI poll of the receive queue.
func (r *rxPoll) Run(c *vcpu.CPU) {
	c.Charge(vcpu.OpNAPI, 1)
	e := r.w.net.RX(r.index).Poll(c.Now(), r.w)
	if e.Kick {
		c.Charge(vcpu.OpKick, 1)
		r.w.kick(c.Now(), r.index, netdev.DirRX)
	}
	if e.Wake {
		t := r.w.txqs[r.index]
		r.w.cur.post(c.Now(), vcpu.SoftIRQ, &t.restart)
	}
	if e.Poll {
		r.w.cur.post(c.Now(), vcpu.SoftIRQ, &r.poll)
	}
}

// kick carries a notification to the queue's worker.
func (w *world) kick(at vtime.Time, pair int, dir netdev.Dir) {
	w.loop.At(at, w, uint64(pair)<<8|uint64(dir))
}

// Run is the arrival of a kick at the host.
func (w *world) Run(now vtime.Time, arg uint64) {
	w.workers[arg>>8].Kick(now, netdev.Dir(arg))
}

// Interrupt carries a call to the CPU that takes the queue's interrupts.
func (w *world) Interrupt(now vtime.Time, pair int, dir netdev.Dir) {
	if dir == netdev.DirTX {
		t := w.txqs[pair]
		t.cpu.interrupt(now, &t.irq)
		return
	}
	r := w.rxqs[pair]
	r.cpu.interrupt(now, &r.irq)
}
