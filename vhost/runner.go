package vhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// runner carries a session's actions out: it is the composer of one connection.
// Its own goroutine reads messages and drives the workers; nothing else does.
type runner struct {
	ch      *channel
	sess    *Session
	dev     *netdev.Device
	ports   []Port
	log     *slog.Logger
	shared  shared
	fds     [][3]int // of the rings, by FDKind, -1 for none
	callIDs []int64  // of the rings' call eventfds, -1 for none
	backend int      // socket for our own requests, -1 for none
	reason  error    // why the session ended

	transfer  *transfer   // of device state, nil if none was begun
	userfault int         // for missing pages, -1 for none
	guard     *faultGuard // while there is one
	dirty     dirtyLog
	flight    flight

	maps  map[RegionID]*osio.Mapping
	known atomic.Pointer[[]*osio.Mapping] // maps, for a faulting thread to read
	mem   *shm.Memory
	iova  *shm.Memory // by the addresses of a driver behind an IOMMU

	mu      sync.Mutex // what follows
	workers []*worker  // by pair, that of the control queue last; nil until needed
	pending []event
	report  SessionReport // as of the last message
}

// event is what a worker, or somebody outside, reported.
type event struct {
	kind eventKind
	ring int // that the guest broke
	miss ring.Missing
	up   bool // the link is
	err  error
}

type eventKind uint8

const (
	ringBroke eventKind = iota
	sessionEnds
	linkChanged
	addressMissing
)

// newRunner makes the runner of a new session.
func newRunner(ch *channel, dev *netdev.Device, cfg *Config) *runner {
	r := &runner{
		ch: ch, dev: dev, ports: cfg.Ports, log: cfg.Logger, backend: -1,
		maps: make(map[RegionID]*osio.Mapping), workers: make([]*worker, dev.Pairs()+1),
	}
	r.known.Store(&[]*osio.Mapping{})
	r.sess = NewSession(SessionConfig{
		QueuePairs: dev.Pairs(), Features: dev.Features(), Protocol: cfg.Protocol,
		QueueNum: cfg.QueueNum, ResumeFromUsed: !cfg.LiteralBase, ConfigSpace: r.configSpace,
	})
	r.fds, r.callIDs = make([][3]int, len(r.sess.rings)), make([]int64, len(r.sess.rings))
	for i := range r.fds {
		r.fds[i], r.callIDs[i] = [3]int{-1, -1, -1}, -1
	}
	r.shared.dev, r.shared.clock, r.shared.events, r.shared.owns = dev, osio.NewClock(), r, r.owns
	r.shared.grace, r.shared.poll, r.shared.cpus, r.shared.cost = cfg.EnableGrace, cfg.PollTime, cfg.CPUs, cfg.SendCost
	r.shared.pairs.Store(int32(dev.Pairs()))
	r.shared.logFD.Store(-1)
	r.shared.inband.Store(-1)
	r.dirty.fd, r.userfault = -1, -1
	return r
}

// run serves the connection until it ends, releases everything, and returns the
// reason.
func (r *runner) run() error {
	for r.reason == nil {
		m, fds, bad, err := r.ch.read()
		switch {
		case errors.Is(err, errInterrupted):
			r.ch.resume()
			r.takeEvents()
			r.update()
		case err != nil:
			r.reason = err
		default:
			if r.log.Enabled(context.Background(), slog.LevelDebug) {
				r.log.Debug("message", "request", m.String(), "descriptors", len(fds))
			}
			r.perform(r.sess.Handle(m, fds, bad))
			r.update()
		}
	}
	r.release()
	return r.reason
}

// update takes what others may know of the session over into the report.
func (r *runner) update() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Acked, r.report.Protocol, r.report.Stats = r.sess.Acked(), r.sess.Protocol(), r.sess.Stats()
}

// reportNow returns the session's report as of the last message.
func (r *runner) reportNow() SessionReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report
}

// interrupt ends the session for a reason from outside.
func (r *runner) interrupt(reason error) {
	r.post(event{kind: sessionEnds, err: reason})
	r.ch.abort()
}

// post leaves an event for the runner's goroutine.
func (r *runner) post(e event) {
	r.mu.Lock()
	r.pending = append(r.pending, e)
	r.mu.Unlock()
	r.ch.interrupt()
}

func (r *runner) takeEvents() {
	r.mu.Lock()
	all := r.pending
	r.pending = nil
	r.mu.Unlock()
	for _, e := range all {
		switch e.kind {
		case sessionEnds:
			r.end(e.err)
		case linkChanged:
			if r.dev.SetLink(e.up) {
				r.perform(r.sess.ConfigChanged())
			}
		case addressMissing:
			r.perform(r.sess.Missing(e.miss.Addr, e.miss.Write))
		case ringBroke:
			r.log.Warn("guest broke a ring", "ring", e.ring, "error", e.err)
			r.perform(r.sess.RingBroken(e.ring))
		}
	}
}

func (r *runner) end(reason error) {
	if r.reason == nil {
		r.reason = reason
	}
}

// broken, missing, died and control are what workers report, on their own threads.

func (r *runner) broken(ring int, err error) { r.post(event{ring: ring, err: err}) }
func (r *runner) missing(m ring.Missing)     { r.post(event{kind: addressMissing, miss: m}) }
func (r *runner) died(err error)             { r.post(event{kind: sessionEnds, err: err}) }

// control takes over what the guest changed by the control queue, as far as the
// ports have to know.
func (r *runner) control(actions []netdev.Action) {
	if len(actions) == 0 {
		return
	}
	for _, a := range actions {
		switch a.Kind {
		case netdev.ActPairs:
			r.shared.pairs.Store(int32(a.Pairs))
		case netdev.ActOffloads:
			r.shared.offloads.Store(uint64(r.sess.Acked()&^guestOffloads | a.Offloads))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		if w != nil && w.pair != nil {
			w.poke()
		}
	}
}

// passed wakes the worker of a pair that has frames from another one.
func (r *runner) passed(pair int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.workers[pair]; w != nil {
		w.poke()
	}
}

// guestOffloads are the features that the guest can switch off while it runs.
const guestOffloads = virtio.FeatureGuestCSum | virtio.FeatureGuestTSO4 |
	virtio.FeatureGuestTSO6 | virtio.FeatureGuestECN | virtio.FeatureGuestUFO |
	virtio.FeatureGuestUSO4 | virtio.FeatureGuestUSO6

// check ends the session if a worker is gone; the worker's own report, which
// says why, comes first if it is there already.
func (r *runner) check(err error) {
	if err != nil {
		r.takeEvents()
		r.end(err)
	}
}

func (r *runner) setFeatures(acked virtio.Features) error {
	if err := r.dev.SetFeatures(acked); err != nil {
		return err
	}
	r.shared.offloads.Store(uint64(acked))
	r.log.Info("features", "acked", acked.String())
	r.noteSoftware(acked)
	return nil
}

// configSpace reads the device's configuration space; it is the control queue's
// worker, if there is one, that may be changing it.
func (r *runner) configSpace() (space []byte) {
	w := r.workers[r.dev.Pairs()]
	if w == nil || w.do(func() { space = r.dev.ConfigSpace() }) != nil {
		return r.dev.ConfigSpace()
	}
	return space
}

// setFD stores a ring's descriptor and tells the worker, if the ring runs.
func (r *runner) setFD(a SetFD) error {
	if a.FD >= 0 {
		if err := osio.PrepareNotifier(a.FD); err != nil {
			osio.Close(a.FD)
			return fmt.Errorf("%v descriptor: %w", a.Kind, err)
		}
	}
	old := r.fds[a.Ring][a.Kind]
	r.fds[a.Ring][a.Kind] = a.FD
	if a.Kind == CallFD {
		r.noteCall(a.Ring, a.FD)
	}
	if r.sess.rings[a.Ring].running {
		role := r.sess.role(a.Ring)
		w := r.worker(role)
		r.check(w.do(func() { w.setFD(w.leg(role.Dir), a.Kind, a.FD) }))
	}
	osio.Close(old)
	return nil
}

func (r *runner) setBackend(fd int) error {
	if err := osio.PrepareNotifier(fd); err != nil {
		osio.Close(fd)
		return err
	}
	old := r.backend
	r.backend = fd
	if r.sess.Protocol().Has(wire.ProtocolInband) {
		r.shared.inband.Store(int32(fd))
		r.everyWorker((*worker).callAgain) // who had the old number is done with it
	}
	osio.Close(old)
	return nil
}

// notifyConfig tells the front-end of a change. A socket that is full has an
// earlier notification in it, which says the same.
func (r *runner) notifyConfig() {
	if r.backend < 0 {
		return
	}
	b := wire.BackendMessage(wire.BackendConfigChange, wire.Empty{}).Append(nil)
	if err := osio.SendOrWrite(r.backend, b); err != nil {
		r.log.Debug("configuration change not sent", "error", err)
	}
}
