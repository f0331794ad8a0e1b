package vhost

import (
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// leg is one ring that a worker serves, with its descriptors. The descriptors
// are the runner's; the worker only uses them. All of it belongs to the worker's
// thread.
type leg struct {
	ring    int // index in the session
	dir     netdev.Dir
	fds     [3]int // by FDKind, -1 for none
	running bool
	enabled bool
	deaf    bool       // the kick descriptor failed and is not looked at any more
	broken  bool       // the guest broke the ring, and that has been reported
	grace   vtime.Time // until when a transmit ring that was never enabled is left alone
	asked   bool       // for the translation that a chain waits for
	log     RingLog    // what is noted in the dirty log
	called  bool       // a call was due since the ring started, made or owed
	buf     [8]byte
	msg     []byte // scratch of tell
}

func newLeg(dir netdev.Dir) leg { return leg{dir: dir, fds: [3]int{-1, -1, -1}} }

// setFD gives the leg another descriptor. A call that was due before is made
// again on a new call descriptor: it may have gone to a descriptor on which the
// front-end no longer listens, or to none. One call too many is harmless, one
// too few stops the guest.
func (w *worker) setFD(l *leg, kind FDKind, fd int) {
	l.fds[kind] = fd
	switch kind {
	case KickFD:
		l.deaf = false
	case CallFD:
		if l.called && fd >= 0 {
			w.makeCall(l)
		}
	}
}

// makeCall notifies the guest, and accounts what became of it: by the ring's
// descriptor, or else by a message if that was negotiated. Without either the call
// is made when there is one.
func (w *worker) makeCall(l *leg) {
	l.called = true
	if fd := l.fds[CallFD]; fd >= 0 {
		w.callResult(l, w.clock.Now(), osio.WriteEvent(fd))
	} else if ch := w.inband.Load(); ch >= 0 {
		w.callResult(l, w.clock.Now(), l.tell(int(ch), wire.BackendVringCall))
	}
}

// callAgain makes the calls that were due before on another channel. It runs on
// the thread.
func (w *worker) callAgain() {
	for i := range w.legs {
		if l := &w.legs[i]; l.running && l.called {
			w.makeCall(l)
		}
	}
}

// tell sends a message about the ring on the back-end's channel.
func (l *leg) tell(channel int, r wire.BackendRequest) error {
	l.msg = wire.BackendMessage(r, wire.VringState{Index: uint32(l.ring)}).Append(l.msg[:0])
	return osio.SendOrWrite(channel, l.msg)
}

// readKicks reads the kick descriptor and accounts what was there. A
// descriptor whose other end is gone is not looked at again.
func (w *worker) readKicks(l *leg, now vtime.Time) {
	fd := l.fds[KickFD]
	if fd < 0 || l.deaf {
		return
	}
	n, err := osio.ReadEvent(fd, &l.buf)
	if err != nil {
		l.deaf = true
		return
	}
	w.kicked(l, now, n)
}

// active reports whether the leg's ring is to be looked at. The device itself
// knows what to do with receive and transmit rings that are disabled; a control
// queue is left alone, and so is a transmit ring in its time of grace.
func (l *leg) active(now vtime.Time) bool {
	return l.running && (l.enabled || l.dir != netdev.DirCtrl && now >= l.grace)
}

// polled reports whether the leg's ring has to be looked at without kicks.
func (l *leg) polled() bool { return l.running && !l.broken && l.fds[KickFD] < 0 }

// kickSlot is the descriptor that a sleeping worker waits for on behalf of the
// leg.
func (l *leg) kickSlot() int {
	if !l.running || l.deaf || l.broken {
		return -1
	}
	return l.fds[KickFD]
}

// report tells the runner that the guest broke the ring, once, and signals the
// front-end's error descriptor.
func (w *worker) report(l *leg, err error) {
	if l.broken {
		return
	}
	l.broken = true
	if fd := l.fds[ErrFD]; fd >= 0 {
		_ = osio.WriteEvent(fd)
	} else if ch := w.inband.Load(); ch >= 0 {
		_ = l.tell(int(ch), wire.BackendVringErr)
	}
	w.events.broken(l.ring, err)
}

// kicked, callResult, poll, next, rearm, attach and detach hand on to the
// device's queue that the leg is.

func (w *worker) kicked(l *leg, now vtime.Time, n uint64) {
	if l.dir == netdev.DirCtrl {
		w.ctrl.Kick(now, n)
		return
	}
	w.pair.Kick(now, l.dir, n)
	if l.dir == netdev.DirRX {
		w.rxReady = true
	}
}

func (w *worker) callResult(l *leg, now vtime.Time, err error) {
	if l.dir == netdev.DirCtrl {
		w.ctrl.CallResult(now, err)
		return
	}
	w.pair.CallResult(now, l.dir, err)
}

func (w *worker) poll(l *leg, now vtime.Time) {
	var call netdev.Call
	var err error
	var work netdev.Work
	switch l.dir {
	case netdev.DirRX:
		work, call, err = w.pair.RX.Poll(now, quantum)
	case netdev.DirTX:
		work, call, err = w.pair.TX.Poll(now, quantum)
	case netdev.DirCtrl:
		var done []netdev.Action
		work, call, done, err = w.ctrl.Poll(now, quantum)
		w.events.control(done)
	}
	if l.log.On && work.Completed > 0 {
		w.tellLog()
	}
	if err != nil {
		w.report(l, err)
	}
	if call.Needed {
		w.makeCall(l)
	}
	if w.translated && !l.asked {
		w.askMissing(l)
	}
}

func (w *worker) next(l *leg, now vtime.Time) vtime.Time {
	switch {
	case !l.running:
		return vtime.Never
	case !l.active(now) && l.dir == netdev.DirCtrl:
		return vtime.Never
	case !l.active(now):
		return l.grace
	}
	switch l.dir {
	case netdev.DirRX:
		return w.pair.RX.Next(now)
	case netdev.DirTX:
		return w.pair.TX.Next(now)
	}
	return w.ctrl.Next(now)
}

func (w *worker) rearm(l *leg, now vtime.Time) (more bool) {
	if !l.active(now) {
		return false
	}
	switch l.dir {
	case netdev.DirRX:
		return w.pair.RX.Rearm()
	case netdev.DirTX:
		return w.pair.TX.Rearm()
	}
	return w.ctrl.Rearm()
}

func (w *worker) attach(l *leg, now vtime.Time, q *ring.Device) {
	switch l.dir {
	case netdev.DirRX:
		w.pair.AttachRX(now, q)
	case netdev.DirTX:
		w.pair.AttachTX(now, q)
	case netdev.DirCtrl:
		w.ctrl.Attach(now, q)
	}
}

func (w *worker) detach(l *leg, now vtime.Time, leave bool) (q *ring.Device, call netdev.Call) {
	switch l.dir {
	case netdev.DirRX:
		return w.pair.DetachRX(now)
	case netdev.DirTX:
		if leave {
			return w.pair.LeaveTX(now)
		}
		return w.pair.DetachTX(now)
	}
	return w.ctrl.Detach(now), netdev.Call{}
}
