package vhost

import (
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/vnetbench/vnetbench/vhost/osio"
)

// stillRuntime counts the sessions during which no garbage may be collected. A
// thread that waits for a page cannot be stopped, so a collection, which stops
// all, would wait for it, and with it whoever has to tell that the front-end is
// gone.
var stillRuntime struct {
	sync.Mutex
	sessions int
	percent  int
}

// holdRuntime stops the collection of garbage and sees to it that the runtime has
// a processor left when so many threads wait for pages.
func holdRuntime(threads int) {
	s := &stillRuntime
	s.Lock()
	defer s.Unlock()
	if s.sessions++; s.sessions == 1 {
		s.percent = debug.SetGCPercent(-1)
	}
	if want := threads + 2; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

// freeRuntime takes the last holdRuntime of a session back.
func freeRuntime() {
	s := &stillRuntime
	s.Lock()
	defer s.Unlock()
	if s.sessions--; s.sessions == 0 {
		debug.SetGCPercent(s.percent)
	}
}

// makeUserfault makes the descriptor for missing pages, and returns the
// front-end's of it.
func (r *runner) makeUserfault() (int, error) {
	if r.userfault >= 0 {
		return osio.Dup(r.userfault)
	}
	fd, err := osio.Userfault()
	if err != nil {
		return -1, err
	}
	theirs, err := osio.Dup(fd)
	if err != nil {
		osio.Close(fd)
		return -1, err
	}
	g, err := r.guardFaults(fd)
	if err != nil {
		osio.CloseAll([]int{fd, theirs})
		return -1, err
	}
	r.userfault, r.guard = fd, g
	holdRuntime(len(r.workers))
	return theirs, nil
}

// faultGuard takes the watch off memory when the front-end hangs up: the session's
// own goroutine may be waiting for a worker that waits for a page.
type faultGuard struct {
	stop int // eventfd
	done chan struct{}
}

func (r *runner) guardFaults(fd int) (*faultGuard, error) {
	stop, err := osio.Eventfd(0)
	if err != nil {
		return nil, err
	}
	g := &faultGuard{stop: stop, done: make(chan struct{})}
	p := osio.NewPoller(2)
	p.Set(0, stop, osio.Readable)
	_ = r.ch.raw.Control(func(conn uintptr) { p.Set(1, int(conn), osio.Hangup) })
	go func() {
		defer close(g.done)
		for p.Events(0) == 0 {
			if err := p.Wait(-1); err != nil {
				return
			}
			if p.Events(1) != 0 {
				r.unwatch(fd)
				return
			}
		}
	}()
	return g, nil
}

// end ends the guard and waits for it.
func (g *faultGuard) end() {
	_ = osio.WriteEvent(g.stop)
	<-g.done
	osio.Close(g.stop)
}

// unwatch takes the watch off all memory that is mapped. It may be called from any
// goroutine.
func (r *runner) unwatch(fd int) {
	for _, m := range *r.known.Load() {
		if err := m.Unwatch(fd); err != nil {
			r.log.Debug("memory is watched no more", "error", err)
		}
	}
}

// watchMemory has missing pages of the guest's memory reported.
func (r *runner) watchMemory() error {
	for _, m := range r.maps {
		if err := m.WatchMissing(r.userfault); err != nil {
			return err
		}
	}
	r.log.Info("memory comes page by page", "regions", len(r.maps))
	return nil
}

// endUserfault takes the watch off; who waits for a page gets an empty one.
func (r *runner) endUserfault() {
	if r.userfault < 0 {
		return
	}
	r.guard.end()
	r.unwatch(r.userfault)
	osio.Close(r.userfault)
	r.userfault = -1
	freeRuntime()
}
