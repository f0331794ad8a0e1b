package simguest

import "github.com/vnetbench/vnetbench/guest/vcpu"

// rank is how early a kind of process gets the CPU of a guest whose processes
// share one. CPU time is free there, so that no process ever uses up a slice, and
// what matters is who is served first.
type rank uint8

const (
	rankSink   rank = iota // the receiving program
	rankDaemon             // ksoftirqd
	rankSender
	ranks
)

// runQueue holds the processes that can run.
//
// With CFS (up to v6.5) a process that has used little CPU time so far goes before
// one that used more, and pushes it aside when it wakes: the receiver and
// ksoftirqd, which sleep nearly all the time, before the sender
// (check_preempt_wakeup, v6.1). With EEVDF (v6.6) each keeps the CPU until it
// sleeps, and then the one that woke first runs (RUN_TO_PARITY, v6.12). Both were
// seen in real kernels, as UML guests in virtual time.
type runQueue struct {
	cfs     bool
	waiting [ranks][]vcpu.Task
	current rank  // of the process that has the CPU
	resched *bool // that process is to give the CPU up
}

// rankOf tells the kinds of processes apart.
func rankOf(t vcpu.Task) rank {
	switch t.(type) {
	case *ksoftirqd:
		return rankDaemon
	case *sink:
		return rankSink
	}
	return rankSender
}

// wake makes a process runnable.
func (w *world) wake(p *processor, t vcpu.Task) {
	s := w.soft
	if s == nil {
		p.post(w.now(), vcpu.Process, t)
		return
	}
	r := rankOf(t)
	if s.idle || s.run.cfs && r < s.run.current {
		s.resched = true
	}
	q := s.run.list(r)
	*q = append(*q, t)
	p.post(w.now(), vcpu.Process, &s.run)
}

// keep makes the process that has the CPU runnable again, in front of others of
// its kind: it was not asked to wait.
func (w *world) keep(p *processor, t vcpu.Task) {
	q := w.soft.run.list(rankOf(t))
	*q = append(*q, nil)
	copy((*q)[1:], *q)
	(*q)[0] = t
	p.PostFirst(vcpu.Process, &w.soft.run)
}

// list is where a process of some rank waits.
func (q *runQueue) list(r rank) *[]vcpu.Task {
	if !q.cfs {
		r = 0 // all alike
	}
	return &q.waiting[r]
}

// Run gives the CPU to the process whose turn it is.
func (q *runQueue) Run(c *vcpu.CPU) {
	for i := range q.waiting {
		l := &q.waiting[i]
		if len(*l) == 0 {
			continue
		}
		t := (*l)[0]
		*l = (*l)[:copy(*l, (*l)[1:])]
		q.current = rankOf(t)
		*q.resched = false
		t.Run(c)
		return
	}
}
