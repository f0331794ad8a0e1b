package simguest

import (
	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// processor is one of the guest's CPUs on the loop: it runs when its CPU is
// free and has work.
type processor struct {
	*vcpu.CPU
	w     *world
	timer sim.Timer
	tsq   []*conn   // sockets that wait for the CPU's TSQ tasklet
	hold  *calendar // of a guest whose time an outside calendar moves; else nil
}

func newProcessor(w *world, id int) *processor {
	p := &processor{CPU: vcpu.New(id, w.cost.cpu), w: w}
	p.timer = w.loop.NewTimer(p, 0)
	return p
}

// post queues a task that is ready at now.
func (p *processor) post(now vtime.Time, class vcpu.Class, t vcpu.Task) {
	p.Post(now, class, t)
	if !p.Running() {
		p.timer.Set(p.Next())
	}
}

// interrupt queues the handler of a device's interrupt.
func (p *processor) interrupt(now vtime.Time, t vcpu.Task) {
	if p.hold == nil || !p.hold.late(now, t) {
		p.post(now, vcpu.IRQ, t)
	}
}

// tasklet puts a socket on the list of the CPU's TSQ tasklet (tcp_wfree).
func (p *processor) tasklet(k *conn) {
	if p.tsq = append(p.tsq, k); len(p.tsq) == 1 {
		p.post(p.w.now(), vcpu.SoftIRQ, (*tsqTasklet)(p))
	}
}

// tsqTasklet runs the sockets of a CPU's list.
type tsqTasklet processor

// Run begins with the socket that came last (list_add in tcp_wfree and
// tcp_tasklet_func, v3.6 to v6.12).
func (t *tsqTasklet) Run(c *vcpu.CPU) {
	n := len(t.tsq)
	for i := n - 1; i >= 0; i-- {
		t.tsq[i].tsq.Run(c)
	}
	if t.tsq = t.tsq[:copy(t.tsq, t.tsq[n:])]; len(t.tsq) > 0 {
		(*processor)(t).post(c.Now(), vcpu.SoftIRQ, t)
	}
}

// Run is the CPU being free with work at hand.
func (p *processor) Run(now vtime.Time, _ uint64) {
	if p.hold != nil {
		p.hold.run(now)
		return
	}
	p.w.cur = p
	p.Step(now)
	next := p.Next()
	for p.w.soft == nil && (next <= now && p.w.loop.Alone() || next > now && p.w.loop.Pass(next)) {
		now = max(now, next)
		p.Step(now)
		next = p.Next()
	}
	p.timer.Set(next)
}

// Charge counts work on the CPU whose task runs. It is the meter of everything
// that the guest's CPUs share.
func (w *world) Charge(op vcpu.Op, n int64) { w.cur.Charge(op, n) }

// now is the time of the code that runs: that of the running task, or the
// loop's.
func (w *world) now() vtime.Time {
	if w.cur.Running() {
		return w.cur.Now()
	}
	return w.loop.Now()
}
