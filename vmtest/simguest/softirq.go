package simguest

import (
	"slices"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// softirqs is the bottom half of a guest with one CPU (kernel/softirq.c, v6.1 and
// v6.12). Softirqs run at the end of an interrupt, or when a process enables them
// again, in the order of their vectors, until none is raised. If a process waits
// for the CPU by then, or after ten rounds, the rest is left to ksoftirqd, or to
// whoever enables bottom halves next.
type softirqs struct {
	w       *world
	pending uint8
	idle    bool // no process had the CPU when the interrupt came
	resched bool // a process that was woken waits for the idle CPU
	daemon  bool // ksoftirqd is awake
	inside  bool // and runs
	run     runQueue

	expired  []expirer   // of the timer wheel
	outputs  []outputter // queueing disciplines that may go on
	backlog  arrivals    // packets between namespaces
	tasklets []*conn
}

// The vectors, the first to run first (enum in include/linux/interrupt.h, v6.1).
const (
	vecTimer   = 1 << iota // timer wheel
	vecNetTx               // queueing disciplines
	vecNetRx               // the backlog of received packets
	vecTasklet             // TSQ
	vecHRTimer             // high-resolution timers that expire late
)

// softirqRounds is how often softirqs are looked for again (MAX_SOFTIRQ_RESTART).
const softirqRounds = 10

// expirer is what a timer of the wheel belongs to.
type expirer interface{ expire(now vtime.Time) }

// outputter is a queueing discipline that was scheduled (net_tx_action).
type outputter interface{ output(now vtime.Time) }

func (s *softirqs) raise(vec uint8) { s.pending |= vec }

// irqExit runs softirqs after an interrupt.
func (s *softirqs) irqExit(c *vcpu.CPU) {
	if s.pending != 0 && !s.left() {
		c.Within(vcpu.SoftIRQ, s)
	}
	s.idle = false
}

// left reports whether softirqs are ksoftirqd's business while it is awake:
// before v6.5 all but tasklets were (ksoftirqd_running). Debian's 6.1.192 has
// it still.
func (s *softirqs) left() bool {
	return s.daemon && s.w.softirqdRule && s.pending&vecTasklet == 0
}

// ClockRead is a clock read of a process: the timer interrupt may be due.
func (s *softirqs) ClockRead(c *vcpu.CPU) {
	if k := s.w.writing; k != nil {
		k.settle() // timers that the socket has set
	}
	for s.w.ce.due(c.Now()) {
		c.Within(vcpu.IRQ, (*timerIRQ)(s.w.ce))
	}
}

// BottomHalves runs softirqs that were raised while a process kept them off.
func (s *softirqs) BottomHalves(c *vcpu.CPU) {
	if k := s.w.writing; k != nil {
		k.settle()
	}
	if s.pending != 0 && !s.left() {
		c.Within(vcpu.SoftIRQ, s)
	}
}

// Run runs softirqs until none is raised or others must have the CPU.
func (s *softirqs) Run(c *vcpu.CPU) {
	for n := 0; s.pending != 0; n++ {
		if n == softirqRounds || n > 0 && s.resched {
			s.wakeDaemon()
			return
		}
		raised := s.pending
		s.pending = 0
		s.round(c, raised)
	}
}

func (s *softirqs) round(c *vcpu.CPU, raised uint8) {
	now := c.ReadClock()
	if raised&vecTimer != 0 {
		s.runExpired(now)
	}
	if raised&vecNetTx != 0 {
		s.runOutputs(now)
	}
	if raised&vecNetRx != 0 {
		s.w.veth.receive(now)
	}
	if raised&vecTasklet != 0 {
		s.runTasklets(c)
	}
	if raised&vecHRTimer != 0 {
		s.w.ce.expireLate(now)
	}
}

// later puts a timer of the wheel that expired on the list of its softirq.
func (s *softirqs) later(x expirer) {
	s.expired = append(s.expired, x)
	s.raise(vecTimer)
}

func (s *softirqs) runExpired(now vtime.Time) {
	n := len(s.expired)
	for i := range n {
		s.expired[i].expire(now)
	}
	s.expired = s.expired[:copy(s.expired, s.expired[n:])]
}

// schedule makes a queueing discipline go on in the transmit softirq
// (__netif_schedule).
func (s *softirqs) schedule(o outputter) {
	if slices.Contains(s.outputs, o) {
		return
	}
	s.outputs = append(s.outputs, o)
	s.raise(vecNetTx)
}

func (s *softirqs) runOutputs(now vtime.Time) {
	for n := len(s.outputs); n > 0; n-- {
		o := s.outputs[0]
		s.outputs = s.outputs[:copy(s.outputs, s.outputs[1:])]
		o.output(now)
	}
}

// tasklet puts a socket on the list of the TSQ tasklet.
func (s *softirqs) tasklet(k *conn) {
	s.tasklets = append(s.tasklets, k)
	s.raise(vecTasklet)
}

func (s *softirqs) runTasklets(c *vcpu.CPU) {
	n := len(s.tasklets)
	for i := n - 1; i >= 0; i-- { // the one that came last first (list_add in tcp_wfree)
		s.tasklets[i].tsq.Run(c)
	}
	s.tasklets = s.tasklets[:copy(s.tasklets, s.tasklets[n:])]
}

// wakeDaemon wakes ksoftirqd, which is a process among others.
func (s *softirqs) wakeDaemon() {
	if !s.daemon {
		s.daemon = true
		s.w.wake(s.w.cpus[0], (*ksoftirqd)(s))
	}
}

// ksoftirqd runs the softirqs that others left.
type ksoftirqd softirqs

// Run is its turn.
func (d *ksoftirqd) Run(c *vcpu.CPU) {
	s := (*softirqs)(d)
	s.inside = true
	if s.pending != 0 {
		c.Within(vcpu.SoftIRQ, s)
	}
	s.inside, s.daemon = false, false
	if s.pending != 0 {
		s.wakeDaemon()
	}
}
