package vhost

import (
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// mapRegions maps all regions or none, and closes the descriptors.
func (r *runner) mapRegions(a MapRegions) (uvas []uint64, err error) {
	defer osio.CloseAll(a.FDs)
	maps := make([]*osio.Mapping, 0, len(a.Regions))
	for i, reg := range a.Regions {
		m, err := osio.Map(a.FDs[i], reg.Offset, reg.Size)
		if err != nil {
			for _, m := range maps {
				_ = m.Unmap()
			}
			return nil, fmt.Errorf("%v: %w", reg, err)
		}
		maps, uvas = append(maps, m), append(uvas, m.Addr())
	}
	for i, id := range a.IDs {
		r.maps[id] = maps[i]
	}
	return uvas, nil
}

// setMemory makes the named regions the guest memory and unmaps the others. No
// ring runs.
func (r *runner) setMemory(a SetMemory) {
	keep := make(map[RegionID]*osio.Mapping, len(a.IDs))
	regions := make([]shm.Region, 0, len(a.IDs))
	for i, id := range a.IDs {
		m := r.maps[id]
		keep[id] = m
		delete(r.maps, id)
		regions = append(regions, shm.Region{GPA: a.Regions[i].GPA, UVA: a.Regions[i].UVA, Mem: m.Bytes()})
	}
	r.unmapAll()
	r.maps = keep
	r.remember()
	r.mem = nil
	if len(regions) == 0 {
		return
	}
	mem, err := shm.NewMemory(regions)
	if err != nil {
		panic(fmt.Sprintf("vhost: session let a bad memory table through: %v", err))
	}
	r.mem = mem
	r.log.Info("guest memory", "regions", len(regions))
}

func (r *runner) unmapAll() {
	for _, m := range r.maps {
		if err := m.Unmap(); err != nil {
			r.log.Warn("guest memory stays mapped", "error", err)
		}
	}
	r.maps = nil
}

// remember makes what is mapped known to threads that fault.
func (r *runner) remember() {
	known := make([]*osio.Mapping, 0, len(r.maps)+2)
	for _, m := range r.maps {
		known = append(known, m)
	}
	for _, m := range []*osio.Mapping{r.dirty.mem, r.flight.mem} {
		if m != nil {
			known = append(known, m)
		}
	}
	r.known.Store(&known)
}

// owns reports whether addr is memory that is shared with a front-end; a faulting
// worker asks.
func (r *runner) owns(addr uintptr) bool {
	for _, m := range *r.known.Load() {
		if m.Contains(addr) {
			return true
		}
	}
	return false
}

// slot is the index in workers of the one that serves a role.
func (r *runner) slot(role Role) int {
	if role.Dir == netdev.DirCtrl {
		return r.dev.Pairs()
	}
	return role.Pair
}

// worker returns the worker that serves a role, nil if none was started.
func (r *runner) worker(role Role) *worker { return r.workers[r.slot(role)] }

// hire returns the worker that serves a role, starting it if need be.
func (r *runner) hire(role Role) (*worker, error) {
	if w := r.worker(role); w != nil {
		return w, nil
	}
	pair, port := -1, Port(nil)
	if role.Dir != netdev.DirCtrl {
		pair, port = role.Pair, r.ports[role.Pair]
	}
	w, err := startWorker(&r.shared, pair, port)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers[r.slot(role)] = w
	return w, nil
}

func (r *runner) startRing(a StartRing) error {
	w, err := r.hire(a.Role)
	if err != nil {
		return err
	}
	if a.Role.Dir == netdev.DirCtrl {
		r.limitPairs(1) // until the guest says more
	}
	a.Config.Log = r.ringLog(a.Log)
	if a.Inflight {
		a.Config.Inflight = r.flight.part(a.Ring)
	}
	mem := r.mem
	if a.Translated {
		mem = r.iova
	}
	var started error
	r.check(w.do(func() { started = w.start(a, mem, r.fds[a.Ring]) }))
	if started == nil {
		r.log.Info("ring started", "ring", a.Ring, "queue", a.Role.Dir.String(), "pair", a.Role.Pair,
			"size", a.Config.Size, "base", a.Config.Base, "enabled", a.Enabled)
	}
	return started
}

func (r *runner) stopRing(a StopRing) (base uint32) {
	w := r.worker(a.Role)
	r.check(w.do(func() {
		if q := w.halt(w.leg(a.Role.Dir), a.Leave); q != nil {
			q.Close() // the front-end knows where to go on
			base = q.Base()
		}
	}))
	if a.Role.Dir == netdev.DirCtrl {
		r.limitPairs(r.dev.Pairs())
	}
	r.log.Info("ring stopped", "ring", a.Ring, "base", base)
	return base
}

// limitPairs says how many pairs may receive.
func (r *runner) limitPairs(n int) {
	r.shared.pairs.Store(int32(n))
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		if w != nil && w.pair != nil {
			w.poke()
		}
	}
}

// release stops the workers, that of the control queue first since it pokes the
// others, and gives everything back.
func (r *runner) release() {
	r.endUserfault() // or a worker might wait for a page for ever
	for i := len(r.workers) - 1; i >= 0; i-- {
		if w := r.workers[i]; w != nil {
			w.stop()
		}
	}
	r.endTransfer()
	r.unmapAll()
	r.releaseShared()
	for i := range r.fds {
		osio.CloseAll(r.fds[i][:])
	}
	osio.Close(r.backend)
	r.ch.close()
}

// snapshot returns the counters of every queue. It may be called from any
// goroutine, until the session's workers are gone and after.
func (r *runner) snapshot() (pairs []PairStats, ctrl netdev.Stats) {
	r.mu.Lock()
	workers := append([]*worker(nil), r.workers...)
	r.mu.Unlock()
	pairs = make([]PairStats, r.dev.Pairs())
	for i, w := range workers {
		switch {
		case w == nil:
		case i == len(pairs):
			ctrl = w.snapshot()[0]
		default:
			s := w.snapshot()
			pairs[i] = PairStats{RX: s[0], TX: s[1]}
		}
	}
	return pairs, ctrl
}
