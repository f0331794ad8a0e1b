package host

import (
	"time"

	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// thread is a serial CPU of the host, for one worker or, where the device's policy
// has pairs share one, for several, which it serves by turns.
type thread struct {
	loop    *sim.Loop
	model   *Model
	timer   sim.Timer
	workers []*Worker
	at      int // whose turn it is

	awake bool          // running, or on its way to it
	free  vtime.Time    // when the CPU ends what it serves
	debt  time.Duration // spent on calls, charged to the next service
	spins bool          // asleep in name only: it looks at a ring all the time ...
	since vtime.Time    // ... since then, and next looks at this time
	next  vtime.Time
}

func newThread(loop *sim.Loop, m *Model) *thread {
	t := &thread{loop: loop, model: m}
	t.timer = loop.NewTimer(t, 0)
	return t
}

// wake wakes the thread; the worker and the direction that did it go first, because
// works run in the order in which they were queued (vhost_work_queue,
// drivers/vhost/vhost.c, v6.1).
func (t *thread) wake(now vtime.Time, k *Worker, dir netdev.Dir) {
	if t.awake || t.spins && t.next < now.Add(t.model.Of(Wake)) {
		return // it looks soon anyway
	}
	t.spun(now)
	t.awake, t.at, k.turn = true, k.place, dir
	t.timer.Set(now.Add(t.model.Of(Wake)))
}

// Run ends what was in service and begins the next.
func (t *thread) Run(now vtime.Time, _ uint64) {
	if !t.awake && !t.rouse(now) {
		t.sleep(now)
		return
	}
	for t.serve(now) {
		if t.free > now && t.loop.Pass(t.free) {
			now = t.free
		} else if t.free > now || !t.loop.Alone() {
			t.timer.Set(t.free)
			return
		}
	}
	t.sleep(now)
}

// rouse is a timer that ends the thread's sleep: something that is held came due,
// or it is time to look at a ring. It reports whether there is work.
func (t *thread) rouse(now vtime.Time) bool {
	spun := t.spun(now)
	if !spun {
		t.debt += t.model.Of(Look)
	}
	for _, k := range t.workers {
		if k.pair.TX.Looks() <= now || spun && k.in.Peek() != nil {
			t.awake, t.at = true, k.place
			return true
		}
	}
	for _, k := range t.workers {
		k.complete(now)
	}
	return false
}

// spun charges the time that the thread spun, and reports whether it did.
func (t *thread) spun(now vtime.Time) bool {
	spun := t.spins
	if spun {
		t.workers[0].Busy += now.Sub(t.since)
	}
	t.spins = false
	return spun
}

// serve ends what was in service and begins the next. It returns false if there
// is nothing.
func (t *thread) serve(now vtime.Time) bool {
	k := t.workers[t.at]
	k.end(now)
	if k.mates != nil && k.wanted() != t {
		k.move(now)
		if len(t.workers) == 0 {
			return false
		}
		k = t.workers[t.at]
	}
	if len(t.workers) > 1 {
		return t.serveShared(now)
	}
	for !k.begin(now) {
		if k.idle(now) {
			return false
		}
	}
	return true
}

// serveShared is serve where the thread has several workers.
func (t *thread) serveShared(now vtime.Time) bool {
	if t.workers[t.at].turns >= netdev.QuantumPackets {
		t.pass()
	}
	for {
		for range 2 * len(t.workers) {
			k := t.workers[t.at]
			if k.begin(now) {
				k.turns++
				return true
			}
			if k.turn == netdev.DirTX {
				t.pass() // it has had its turn in both directions
			}
		}
		if !t.rearm() {
			return false
		}
	}
}

// pass lets the next worker have its turn.
func (t *thread) pass() {
	t.workers[t.at].turns = 0
	if t.at++; t.at == len(t.workers) {
		t.at = 0
	}
}

// rearm asks for kicks on all rings, and reports whether one has something after
// all.
func (t *thread) rearm() (more bool) {
	for _, k := range t.workers {
		if k.pair.TX.Rearm() {
			more = true
		}
	}
	return more
}

// sleep lets the thread wait, with a timer for what is held.
func (t *thread) sleep(now vtime.Time) {
	t.awake, t.spins, t.since, t.next = false, false, now, vtime.Never
	for _, k := range t.workers {
		k.turn, k.packets, k.bytes, k.turns = netdev.DirTX, 0, 0, 0
		t.spins = t.spins || k.pair.TX.Spins()
		t.next = min(t.next, k.pair.TX.Next(now), k.pair.RX.Next(now))
	}
	t.timer.Set(t.next)
}
