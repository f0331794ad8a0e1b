package vhost

import (
	"errors"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Slots of a worker's poller. Those of the legs' kicks follow slotLegs.
const (
	slotCtl = iota
	slotRx
	slotTx
	slotDone
	slotLegs
)

// quantum is the most that a queue does before the others of its worker have
// their turn.
var quantum = netdev.Budget{Packets: 64, Bytes: 256 << 10}

// loop is the worker's main loop: do what can be done, sleep until there is
// more, take in what the sleep brought.
func (w *worker) loop() {
	for !w.quit {
		now := w.clock.Now()
		next := w.turn(now)
		switch {
		case w.quit: // the port failed
		case next <= now:
			w.spin.worked(now)
			w.glance(now, busyTurns)
		case w.spin.on(now):
			w.glance(now, w.idleTurns())
		case w.rearmAll(now):
			w.glance(now, 1)
		default:
			w.spin.sleeps(now)
			w.sleep(now, next)
			w.collect()
			w.spin.asleep = false
		}
	}
	if errors.Is(w.err, ErrTruncated) {
		return
	}
	for i := range w.legs {
		w.halt(&w.legs[i], false)
	}
}

// turn serves every queue once and returns when the next turn is due without
// an event.
func (w *worker) turn(now vtime.Time) (next vtime.Time) {
	if w.port != nil {
		w.receive(now)
		w.settle(now)
	}
	next = vtime.Never
	for i := range w.legs {
		l := &w.legs[i]
		if l.active(now) {
			w.poll(l, now)
		}
		next = vtime.Min(next, w.next(l, now))
		if l.polled() {
			next = vtime.Min(next, now.Add(pollTime))
		}
	}
	if w.port == nil {
		return next
	}
	if len(w.own) > 0 {
		next = vtime.Min(next, w.flushOwn(now))
	}
	if err := w.port.Err(); err != nil {
		w.fail(err)
	}
	if w.rxReady || w.rxMore && !w.pair.RX.Starved() {
		w.rxReady = true // or there are buffers again for what the port has
		return now
	}
	return next
}

// receive has the port deliver frames, if it may have some and the guest wants
// them.
func (w *worker) receive(now vtime.Time) {
	if !w.rxReady {
		return
	}
	if !w.open {
		w.rxReady, w.rxMore = false, false
		return
	}
	_, more, err := w.port.Receive(now, w.pair.RX, quantum.Packets)
	if err != nil {
		w.fail(err)
	}
	for i := w.dev.NextPassed(); i >= 0; i = w.dev.NextPassed() {
		w.events.passed(i)
	}
	w.rxReady = more && !w.pair.RX.Starved()
	w.rxMore = more
}

// settle has a port that keeps buffers give back those that are done. Like
// everything here it leaves a queue that does not run alone: the device may be
// reset meanwhile.
func (w *worker) settle(now vtime.Time) {
	if h, ok := w.port.(Holder); ok && w.legs[1].running {
		h.Settle(now, w.pair.TX)
	}
}

// rearmAll asks for kicks on every ring before a sleep, and reports whether one
// of them has something to do after all.
func (w *worker) rearmAll(now vtime.Time) (more bool) {
	for i := range w.legs {
		l := &w.legs[i]
		if w.rearm(l, now) {
			more = true
			if l.dir == netdev.DirRX {
				w.rxReady = true // there are buffers again
			}
		}
	}
	return more
}

// glance looks at the descriptors without sleeping, once in so many turns, and
// takes in what others ask for.
func (w *worker) glance(now vtime.Time, every int) {
	if w.turns++; w.turns < every {
		if w.asked.Load() {
			w.obey()
		}
		return
	}
	w.turns = 0
	w.sleep(now, now)
	w.collect()
}

// idleTurns is how often a worker looks at its descriptors while it polls and
// nothing is to be done: at each turn if its port's frames can only be seen
// there.
func (w *worker) idleTurns() int {
	if w.port != nil && (w.open && w.port.RxFD() >= 0 || w.legs[1].running && w.pair.TX.Blocked()) {
		return 1
	}
	return idleTurns
}

// sleep waits until next, or until a descriptor has something. With next not
// after now it only looks.
func (w *worker) sleep(now, next vtime.Time) {
	for i := range w.legs {
		w.poller.Set(slotLegs+i, w.legs[i].kickSlot(), osio.Readable)
	}
	if w.port != nil {
		w.watchPort()
	}
	if err := w.poller.Wait(osio.Until(now, next)); err != nil {
		w.fail(err)
	}
}

// watchPort waits for frames only while the guest has buffers for them, and for
// room only while a frame waits for it.
func (w *worker) watchPort() {
	rx := -1
	if w.open && !w.pair.RX.Starved() {
		rx = w.port.RxFD()
	}
	tx := -1
	if w.legs[1].running && w.pair.TX.Blocked() {
		tx = w.port.TxFD()
	}
	w.poller.Set(slotRx, rx, osio.Readable)
	w.poller.Set(slotTx, tx, osio.Writable)
	if h, ok := w.port.(Holder); ok {
		done := -1
		if w.legs[1].running {
			done = h.DoneFD()
		}
		w.poller.Set(slotDone, done, osio.Readable)
	}
}

// collect takes in the events of the last sleep.
func (w *worker) collect() {
	now := w.clock.Now()
	for i := range w.legs {
		l := &w.legs[i]
		switch ev := w.poller.Events(slotLegs + i); {
		case ev&osio.Readable != 0:
			w.spin.woke(now)
			w.readKicks(l, now)
		case ev&osio.Broken != 0:
			l.deaf = true
		}
	}
	if w.poller.Events(slotRx) != 0 {
		w.spin.woke(now)
		w.rxReady = true
	}
	if w.poller.Events(slotTx) != 0 && w.legs[1].running {
		w.pair.TX.Writable(now)
	}
	if w.poller.Events(slotCtl) != 0 {
		w.obey()
	}
}

// obey runs the command that waits, if one does, and takes in what others have
// changed in the shared state.
func (w *worker) obey() {
	w.asked.Store(false)
	var buf [8]byte
	_, _ = osio.ReadEvent(w.ctl, &buf)
	select {
	case c := <-w.cmd:
		c.f()
		close(c.done)
	default:
	}
	w.tellPort()
	w.openPort()
}
