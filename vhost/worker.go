package vhost

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// DrainTime is how long a ring that stops waits for a Holder to give back the
// buffers that it keeps.
const DrainTime = 200 * time.Millisecond

// pollTime is how often a ring without a kick descriptor is looked at.
const pollTime = 50 * time.Microsecond

// EnableGrace is how long, unless Config says otherwise, a transmit ring that
// starts disabled is left alone before its frames are discarded.
//
// Deviation: the protocol has a ring that is started and disabled processed and
// its frames discarded. Most front-ends send SET_VRING_KICK first and
// SET_VRING_ENABLE right behind, and what a guest had in the ring when its
// back-end came back would be lost in between.
const EnableGrace = 100 * time.Millisecond

// shared is what the workers of a session have in common. The runner writes it
// before the rings that depend on it start; what changes while they run is
// atomic.
type shared struct {
	dev    *netdev.Device
	clock  osio.Clock
	events events
	owns   func(addr uintptr) bool // whether an address is guest memory
	grace  time.Duration           // Config.EnableGrace
	logFD  atomic.Int32            // to be written when pages were logged, -1 for none
	inband atomic.Int32            // channel for calls as messages, -1 for none
	poll   time.Duration           // Config.PollTime
	cost   SendCost                // Config.SendCost
	cpus   []int                   // Config.CPUs

	offloads atomic.Uint64 // features that the ports are told of
	pairs    atomic.Int32  // pairs that may receive
}

// events is where workers report to. None of them waits.
type events interface {
	broken(ring int, err error)      // the guest broke a ring
	missing(m ring.Missing)          // a chain waits for a translation
	died(err error)                  // a worker ended: the session cannot go on
	control(actions []netdev.Action) // the control queue changed something
	passed(pair int)                 // a pair was given frames that came in at another
}

// worker serves a queue pair, or the control queue, on an OS thread of its own:
// it sleeps in ppoll until a kick, the port, a time of the device or a command
// needs it. Everything but the commands' entry (do) belongs to that thread.
type worker struct {
	*shared
	pair *netdev.Pair // nil for the control queue
	ctrl *netdev.Ctrl // nil for a pair
	port Port         // of a pair
	legs []leg        // RX and TX, or control

	poller  *osio.Poller
	spin    spin
	turns   int             // without a look at the descriptors
	rxReady bool            // the port may have frames and the guest buffers
	rxMore  bool            // the port has frames for which there were no buffers
	open    bool            // the port has been told that the guest receives
	told    bool            // the port has been told features: these
	tellOf  virtio.Features // only after told
	own     [][]byte        // frames of our own that the port has not taken yet
	quit    bool

	translated bool // addresses are those of a driver behind an IOMMU

	asked atomic.Bool // ctl was written to
	mu    sync.Mutex  // one command at a time, and ctl
	ctl   int         // eventfd that wakes the thread
	cmd   chan command
	dead  chan struct{} // closed when the thread is gone
	err   error         // why, if it was not asked to; valid after dead
}

// command is something that the worker's thread does between two turns.
type command struct {
	f    func()
	done chan struct{}
}

// errWorkerGone says that a worker ended before it could do what it was told.
var errWorkerGone = errors.New("worker is gone")

// startWorker starts the worker of pair i, or with i < 0 that of the control
// queue, which has no port.
func startWorker(sh *shared, i int, port Port) (*worker, error) {
	ctl, err := osio.Eventfd(0)
	if err != nil {
		return nil, err
	}
	w := &worker{
		shared: sh, port: port, ctl: ctl,
		cmd: make(chan command, 1), dead: make(chan struct{}),
	}
	if i < 0 {
		w.ctrl = sh.dev.Ctrl()
		w.legs = []leg{newLeg(netdev.DirCtrl)}
	} else {
		w.pair = sh.dev.Pair(i)
		w.pair.SetPort(sh.cost.spend(port))
		w.legs = []leg{newLeg(netdev.DirRX), newLeg(netdev.DirTX)}
		w.spin = newSpin(sh.poll)
	}
	w.poller = osio.NewPoller(slotLegs + len(w.legs))
	w.poller.Set(slotCtl, ctl, osio.Readable)
	go w.run()
	return w, nil
}

// run is the worker's thread. It is locked and never unlocked, so that the
// thread ends with the goroutine and takes its timer slack along.
func (w *worker) run() {
	runtime.LockOSThread()
	defer close(w.dead)
	_ = osio.SetTimerSlack(1) // without it sleeps are longer, which is no error
	w.pin()
	err := osio.Guard(w.owns, w.loop)
	if err != nil {
		w.err = fmt.Errorf("%w: %w", ErrTruncated, err)
	}
	if w.err != nil {
		w.events.died(w.err)
	}
}

// pin binds the thread of a pair to its CPU.
func (w *worker) pin() {
	if w.pair == nil || len(w.cpus) == 0 {
		return
	}
	cpu := w.cpus[w.pair.Index()%len(w.cpus)]
	if err := osio.SetAffinity(cpu); err != nil {
		w.quit = true
		w.err = fmt.Errorf("%w: pair %d on CPU %d: %w", ErrConfig, w.pair.Index(), cpu, err)
	}
}

// do has f run on the worker's thread, and waits for it. It returns an error
// without having waited for ever if the thread is gone, or goes while f runs.
func (w *worker) do(f func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := command{f: f, done: make(chan struct{})}
	select {
	case <-w.dead:
		return errWorkerGone
	case w.cmd <- c:
	}
	w.wake()
	select {
	case <-c.done:
		return nil
	case <-w.dead:
		return errWorkerGone
	}
}

// wake ends the worker's sleep. The caller holds mu.
func (w *worker) wake() {
	if w.ctl >= 0 {
		w.poke()
	}
}

// poke has the worker look at what it shares with others, some time soon. It
// does not wait for anything but another poke or a command's entry.
func (w *worker) poke() {
	w.asked.Store(true)
	_ = osio.WriteEvent(w.ctl)
}

// stop ends the worker: its rings are stopped first, unless its thread is gone
// already. No command may follow.
func (w *worker) stop() {
	_ = w.do(func() {
		for i := range w.legs {
			w.halt(&w.legs[i], false)
		}
		w.quit = true
	})
	<-w.dead
	w.mu.Lock()
	defer w.mu.Unlock()
	osio.Close(w.ctl)
	w.ctl = -1
}

// snapshot copies the counters, in the order of the legs.
func (w *worker) snapshot() []netdev.Stats {
	out := make([]netdev.Stats, len(w.legs))
	read := func() {
		if w.ctrl != nil {
			out[0] = w.ctrl.Snapshot()
			return
		}
		out[0], out[1] = w.pair.RX.Snapshot(), w.pair.TX.Snapshot()
	}
	if w.do(read) != nil {
		<-w.dead
		read()
	}
	return out
}

// leg returns the leg of a direction.
func (w *worker) leg(dir netdev.Dir) *leg {
	if dir == netdev.DirTX {
		return &w.legs[1]
	}
	return &w.legs[0]
}

// start lays a ring over memory and attaches it. It runs on the thread.
func (w *worker) start(a StartRing, mem *shm.Memory, fds [3]int) error {
	l := w.leg(a.Role.Dir)
	q, err := ring.NewDevice(mem, a.Config)
	if err != nil {
		return err
	}
	w.tellPort()
	now := w.clock.Now()
	w.translated = a.Translated
	*l = leg{ring: a.Ring, dir: l.dir, fds: fds, enabled: a.Enabled, log: a.Log}
	if l.dir == netdev.DirTX {
		l.grace = now.Add(w.grace)
	}
	w.applyEnabled()
	w.attach(l, now, q)
	l.running = true
	if a.Wake {
		w.makeCall(l)
	}
	w.openPort()
	return nil
}

// halt stops a ring and returns what was its device, nil if it does not run. With
// leave it waits for nothing. It runs on the thread.
func (w *worker) halt(l *leg, leave bool) *ring.Device {
	if !l.running {
		return nil
	}
	now := w.clock.Now()
	w.readKicks(l, now) // so that none is lost to the count
	if l.dir == netdev.DirTX && !leave {
		w.drain()
	}
	q, call := w.detach(l, w.clock.Now(), leave)
	if call.Needed {
		w.makeCall(l)
	}
	l.running = false
	w.openPort()
	return q
}

// drain waits until the port keeps none of the guest's buffers.
func (w *worker) drain() {
	h, ok := w.port.(Holder)
	if !ok {
		return
	}
	end := w.clock.Now().Add(DrainTime)
	p := osio.NewPoller(1)
	p.Set(0, h.DoneFD(), osio.Readable)
	for now := w.clock.Now(); h.Settle(now, w.pair.TX) > 0 && now < end; now = w.clock.Now() {
		_ = p.Wait(end.Sub(now))
	}
}

// enable enables or disables a ring. It runs on the thread.
func (w *worker) enable(dir netdev.Dir, on bool) {
	l := w.leg(dir)
	l.enabled, l.grace = on, 0
	w.applyEnabled()
	w.openPort()
}

// applyEnabled tells the device which of the rings are enabled. The control
// queue has no such state in the device.
func (w *worker) applyEnabled() {
	if w.pair != nil {
		w.pair.SetEnabled(w.legs[0].enabled, w.legs[1].enabled)
	}
}

// tellPort tells the port which features are in force, if that changed.
func (w *worker) tellPort() {
	f := virtio.Features(w.offloads.Load())
	if w.port == nil || w.told && f == w.tellOf {
		return
	}
	w.told, w.tellOf = true, f
	if err := w.port.Negotiated(f); err != nil {
		w.fail(err)
	}
}

// openPort tells the port whether the guest receives on this pair, if that
// changed.
func (w *worker) openPort() {
	if w.port == nil {
		return
	}
	rx := &w.legs[0]
	on := rx.running && rx.enabled && w.pair.Index() < int(w.pairs.Load())
	if on == w.open {
		return
	}
	w.open, w.rxReady, w.rxMore = on, on, false
	if err := w.port.Enable(on); err != nil {
		w.fail(err)
	}
}

// fail ends the worker, and with it the session, for an error of the port's.
func (w *worker) fail(err error) {
	if w.quit {
		return
	}
	w.quit = true
	if osio.IsFault(err) {
		w.err = fmt.Errorf("%w: %w", ErrTruncated, err)
		return
	}
	w.err = fmt.Errorf("%w: %w", ErrPort, err)
}
