package simguest

import (
	"fmt"
	"io"

	"github.com/vnetbench/vnetbench/guest/driver"
	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// guestBase is where the guest's memory begins: not at 0, so that an address
// that was never set is caught.
const guestBase = 1 << 30

// world is everything of one run. It has one goroutine, and all its time is the
// loop's.
type world struct {
	s    vmtest.Scenario // with remedies applied
	cost costModel
	loop sim.Loop
	pool skb.Pool
	rec  *recorder

	mem     *shm.Memory
	dev     *netdev.Device
	net     *driver.Net
	picker  driver.Picker
	kernel  tcp.Config // what is common to all sockets
	cpus    []*processor
	txqs    []*txQueue
	rxqs    []*rxQueue
	workers []*host.Worker
	conns   []*conn
	cable   *cable
	lower   lower

	// With TopologyVeth; else nil.
	veth         *vethLower
	ce           *clockEvent
	soft         *softirqs
	sink         *sink
	writing      *conn // whose program runs
	softirqdRule bool  // softirqs are left to ksoftirqd while it is awake
	deferAck     bool  // the receiver acknowledges at the end of its backlog

	cur  *processor // whose task runs
	fail error      // the first thing that must not happen

	observer netdev.Observer // of the device; nil is nobody

	sacks [frame.MaxSACK]tcp.Range // of the ACK that input reads
}

func newWorld(s vmtest.Scenario, scale map[string]float64, trace io.Writer, seen netdev.Observer) (*world, error) {
	if s.Guests.Senders > 1 {
		return nil, fmt.Errorf("guests.senders: %d; the simulated guest is alone; use --guest uml", s.Guests.Senders)
	}
	applied, err := s.Applied()
	if err != nil {
		return nil, err
	}
	w := &world{s: applied, observer: seen}
	if w.cost, err = newCostModel(&w.s, scale); err != nil {
		return nil, err
	}
	if w.rec, err = newRecorder(&w.s, trace); err != nil {
		return nil, err
	}
	for i := range w.s.CPUs() {
		w.cpus = append(w.cpus, newProcessor(w, i))
	}
	w.cur = w.cpus[0]
	for _, step := range []func() error{w.newKernel, w.newLower, w.newConns} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// newKernel resolves the release, its switches and its sysctls.
func (w *world) newKernel() error {
	cfg, err := kernelConfig(&w.s)
	w.kernel = cfg
	w.kernel.Scratch = new(tcp.Scratch)
	return err
}

// newLower makes what the topology has below TCP.
func (w *world) newLower() error {
	if w.s.Topology == vmtest.TopologyVeth {
		return w.newVeth()
	}
	w.lower = virtioLower{w}
	if w.cost.cpu.ClockInProcess() && len(w.cpus) == 1 {
		w.ce = newClockEvent(w)
		newCalendar(w.cpus[0])
	}
	for _, step := range []func() error{w.newDevice, w.newGuestNet, w.attach} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// newDevice makes the device with one worker for each pair.
func (w *world) newDevice() error {
	policy, err := netdev.ParsePolicy(w.s.Policy)
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	w.dev, err = netdev.New(netdev.Config{
		QueuePairs: w.s.QueuePairs, Features: offered(&w.s), MTU: uint16(w.s.MTU), Policy: policy,
		TSOMaxSize: int(max(w.s.NIC.TSOMaxSize, 65536)), Observer: w.observer,
	})
	if err != nil {
		return err
	}
	w.workers = host.NewWorkers(&w.loop, w, &w.cost.host, w.dev)
	return nil
}

// newGuestNet lays the driver out in guest memory, with a queueing discipline
// in front of each transmit queue.
func (w *world) newGuestNet() error {
	cfg, err := driverConfig(&w.s)
	if err != nil {
		return err
	}
	size, err := driver.MemoryNeeded(cfg)
	if err != nil {
		return err
	}
	w.mem, err = shm.NewMemory([]shm.Region{{GPA: guestBase, UVA: guestBase, Mem: make([]byte, size)}})
	if err != nil {
		return err
	}
	if w.net, err = driver.New(w.mem, driver.NewLayout(guestBase, size), w, cfg); err != nil {
		return err
	}
	qcfg, spec, err := qdiscConfig(&w.s)
	if err != nil {
		return err
	}
	w.picker = driver.Picker{Steering: cfg.Switches.Steering, CPUs: len(w.cpus), MaxPairs: w.s.QueuePairs, Pairs: w.s.QueuePairs}
	for i := range w.s.QueuePairs {
		cpu := w.cpus[i%len(w.cpus)]
		q, err := qdisc.NewFrom(w.rec.dev(i, w.net.TX(i)), w, &w.pool, qcfg, spec)
		if err != nil {
			return fmt.Errorf("qdisc: %w", err)
		}
		w.txqs = append(w.txqs, newTxQueue(w, i, cpu, q))
		w.rxqs = append(w.rxqs, newRxQueue(w, i, cpu))
	}
	return nil
}

// attach acknowledges the features, starts the rings, and lets the driver ask
// for its queue pairs over the control queue, as at probe.
func (w *world) attach() error {
	if err := w.dev.SetFeatures(w.net.Config().Features); err != nil {
		return err
	}
	for i := range w.s.QueuePairs {
		w.net.RX(i).Fill()
		tx, err := ring.NewDevice(w.mem, w.net.TxRing(i))
		if err != nil {
			return fmt.Errorf("transmit queue %d: %w", i, err)
		}
		rx, err := ring.NewDevice(w.mem, w.net.RxRing(i))
		if err != nil {
			return fmt.Errorf("receive queue %d: %w", i, err)
		}
		p := w.dev.Pair(i)
		p.AttachTX(0, tx)
		p.AttachRX(0, rx)
		w.broken(pollOnce(p))
		p.TX.Rearm()
	}
	return w.setPairs()
}

// pollOnce looks at the rings that were just attached, which hold no packet.
func pollOnce(p *netdev.Pair) error {
	if _, _, err := p.TX.Poll(0, netdev.Budget{}); err != nil {
		return err
	}
	_, _, err := p.RX.Poll(0, netdev.Budget{})
	return err
}

// setPairs runs the control command by which the driver turns its pairs on.
func (w *world) setPairs() error {
	if w.s.QueuePairs == 1 {
		return nil
	}
	ctrl := w.net.Ctrl()
	q, err := ring.NewDevice(w.mem, w.net.CtrlRing())
	if err != nil {
		return fmt.Errorf("control queue: %w", err)
	}
	w.dev.Ctrl().Attach(0, q)
	kick, err := ctrl.SetPairs(w.s.QueuePairs)
	if err != nil {
		return err
	}
	if kick {
		w.dev.Ctrl().Kick(0, 1)
	}
	if _, call, _, err := w.dev.Ctrl().Poll(0, netdev.Budget{}); err != nil {
		return err
	} else if call.Needed {
		w.dev.Ctrl().CallResult(0, nil)
	}
	if done, err := ctrl.Done(); !done || err != nil {
		return fmt.Errorf("control queue: command not done: %w", err)
	}
	return nil
}

// broken keeps the first error of a queue that should never have one: the
// simulated driver breaks no rule.
func (w *world) broken(err error) {
	if err != nil && w.fail == nil {
		w.fail = err
		w.loop.Stop()
	}
}
