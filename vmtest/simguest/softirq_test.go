package simguest

import (
	"testing"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// work is a softirq's or a process's work that notes its turn and may do more.
type work struct {
	d    *diary
	name string
	then func()
}

func (k *work) note() {
	k.d.lines = append(k.d.lines, k.name)
	if k.then != nil {
		k.then()
	}
}

func (k *work) output(vtime.Time) { k.note() }
func (k *work) expire(vtime.Time) { k.note() }
func (k *work) Run(*vcpu.CPU)     { k.note() }

// timerRun makes a timer's interrupt do something.
type timerRun func()

func (f timerRun) Run(vtime.Time, uint64) { f() }

func (w *world) atInterrupt(f func()) { w.ce.newTimer(timerRun(f), 0).set(2560, 2560) }

// Softirqs run in the order of their vectors, and what one raises runs after all
// of its round.
func TestSoftirqOrder(t *testing.T) {
	w := vethWorld(t, "6.12")
	d := &diary{w: w}
	again := &work{d: d, name: "timer again"}
	w.atInterrupt(func() {
		w.soft.schedule(&work{d: d, name: "output", then: func() { w.soft.later(again) }})
		w.soft.schedule(&work{d: d, name: "second output"})
		w.soft.later(&work{d: d, name: "timer"})
	})
	w.loop.RunUntil(10_000)
	d.wants(t, "timer", "output", "second output", "timer again")
}

// Softirqs that go on and on are left to ksoftirqd after ten rounds; if a process
// was woken while the CPU idled, after one.
func TestSoftirqsAreLeft(t *testing.T) {
	for _, woken := range []bool{false, true} {
		w := vethWorld(t, "6.12")
		d, rounds := &diary{w: w}, 0
		var k *work
		k = &work{d: d, name: "round", then: func() {
			if rounds++; rounds < 12 {
				w.soft.later(k)
			}
		}}
		w.atInterrupt(func() {
			w.soft.later(k)
			if woken {
				w.wake(w.cpus[0], &work{d: d, name: "process"})
			}
		})
		w.loop.Step() // the hardware
		w.loop.Step() // the interrupt
		if want := map[bool]int{false: 10, true: 1}[woken]; len(d.lines) != want || !w.soft.daemon {
			t.Errorf("woken %v: %q before ksoftirqd %v, want %d rounds", woken, d.lines, w.soft.daemon, want)
		}
		w.loop.RunUntil(10_000)
		if rounds != 12 || w.soft.daemon {
			t.Errorf("woken %v: %d rounds in the end, ksoftirqd awake %v", woken, rounds, w.soft.daemon)
		}
		if woken && d.lines[1] != "process" {
			t.Errorf("the process that woke first does not run before ksoftirqd: %q", d.lines)
		}
	}
}

// With CFS the receiving program goes before a sender, also before one that has the
// CPU; with EEVDF the one that woke first does.
func TestWhoRunsFirst(t *testing.T) {
	for kernel, want := range map[string][]string{"6.1": {"sender", "sink", "sender again"}, "6.12": {"sender", "sender again", "sink"}} {
		w := vethWorld(t, kernel)
		d := &diary{w: w}
		e := w.cable.ends[0]
		e.accepted = false
		again := &work{d: d, name: "sender again"}
		w.wake(w.cpus[0], &work{d: d, name: "sender", then: func() {
			w.sink.wake(e)
			w.keep(w.cpus[0], again)
		}})
		for w.loop.Step() && len(d.lines) < 3 {
			if e.accepted && len(d.lines) < 3 && d.lines[len(d.lines)-1] != "sink" {
				d.lines = append(d.lines, "sink")
			}
		}
		d.wants(t, want...)
	}
}
