package vhost

import (
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// dirtyLog is the memory of the dirty log.
type dirtyLog struct {
	mem *osio.Mapping // nil for none
	fd  int           // to be written when pages were logged, -1 for none
}

// flight is the memory of the record of chains in flight.
type flight struct {
	mem    *osio.Mapping // nil for none
	rings  int
	stride uint64
}

// part is that of a ring, which has one.
func (f *flight) part(ring int) []byte {
	at := uint64(ring) * f.stride
	return f.mem.Bytes()[at : at+f.stride]
}

// mapLog maps a new log, moves the rings that log to it, and lets the old one go.
func (r *runner) mapLog(a MapLog) error {
	defer osio.Close(a.FD)
	m, err := osio.Map(a.FD, a.Offset, a.Size)
	if err != nil {
		return fmt.Errorf("%w: dirty log: %w", ErrMemory, err)
	}
	old := r.dirty.mem
	r.dirty.mem = m
	r.remember()
	r.everyWorker(func(w *worker) {
		for i := range w.legs {
			err = errors.Join(err, w.setLog(&w.legs[i], r.ringLog(w.legs[i].log)))
		}
	})
	r.check(err)
	r.unmap(old)
	r.log.Info("dirty log", "bytes", a.Size)
	return nil
}

// ringLog is what a ring gets of the log.
func (r *runner) ringLog(l RingLog) ring.Log {
	if !l.On || r.dirty.mem == nil {
		return ring.Log{}
	}
	return ring.Log{Bitmap: r.dirty.mem.Bytes(), Ring: l.Ring, RingAddr: l.RingAddr}
}

// logRing changes what is logged of a ring that runs.
func (r *runner) logRing(a LogRing) {
	w := r.worker(a.Role)
	var err error
	r.check(w.do(func() {
		l := w.leg(a.Role.Dir)
		l.log = a.Log
		err = w.setLog(l, r.ringLog(a.Log))
	}))
	r.check(err)
	r.log.Info("logging", "ring", a.Ring, "on", a.Log.On, "ring_too", a.Log.Ring)
}

// setLog gives the ring of a leg, if it runs, another log. It runs on the thread.
func (w *worker) setLog(l *leg, to ring.Log) error {
	switch {
	case !l.running:
		return nil
	case l.dir == netdev.DirCtrl:
		return w.ctrl.SetLog(to)
	}
	w.rxReady = w.rxReady || l.dir == netdev.DirRX
	return w.pair.SetLog(l.dir, to)
}

// tellLog says that pages were logged.
func (w *worker) tellLog() {
	if fd := w.logFD.Load(); fd >= 0 {
		_ = osio.WriteEvent(int(fd))
	}
}

// setLogFD replaces the descriptor that tellLog writes to. A worker that has just
// read the old number is waited for before the number can mean another file.
func (r *runner) setLogFD(fd int) error {
	if err := osio.PrepareNotifier(fd); err != nil {
		osio.Close(fd)
		return err
	}
	old := r.dirty.fd
	r.dirty.fd = fd
	r.shared.logFD.Store(int32(fd))
	r.everyWorker(func(*worker) {})
	osio.Close(old)
	return nil
}

// everyWorker runs f on the thread of each worker.
func (r *runner) everyWorker(f func(*worker)) {
	for _, w := range r.workers {
		if w != nil {
			r.check(w.do(func() { f(w) }))
		}
	}
}

// mapInflight maps a record, and lets the one before go. No ring runs.
func (r *runner) mapInflight(a MapInflight) error {
	defer osio.Close(a.FD)
	m, err := osio.Map(a.FD, a.Offset, uint64(a.Rings)*a.Stride)
	if err != nil {
		return fmt.Errorf("%w: record of chains in flight: %w", ErrMemory, err)
	}
	old := r.flight.mem
	r.flight = flight{mem: m, rings: a.Rings, stride: a.Stride}
	r.remember()
	r.unmap(old)
	r.log.Info("chains in flight are recorded", "rings", a.Rings)
	return nil
}

// unmap removes a mapping, if it is one.
func (r *runner) unmap(m *osio.Mapping) {
	if m == nil {
		return
	}
	if err := m.Unmap(); err != nil {
		r.log.Warn("shared memory stays mapped", "error", err)
	}
}

// releaseShared gives everything of this file back. No worker runs.
func (r *runner) releaseShared() {
	r.unmap(r.dirty.mem)
	r.unmap(r.flight.mem)
	osio.Close(r.dirty.fd)
	r.dirty, r.flight = dirtyLog{fd: -1}, flight{}
}
