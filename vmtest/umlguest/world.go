package umlguest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// world is everything of one run: the calendar, the guests that send, their
// devices with a worker for each pair, and the network behind. It has one goroutine.
type world struct {
	s       vmtest.Scenario // with remedies applied
	cal     calendar
	model   host.Model
	rec     *recorder
	dir     string
	sources []*source
	sender  *client // the first of them
	flows   []flowState

	net       *host.Network // with modelled receivers
	receivers []*receiver   // guests that receive
	out, back *lane         // the link between them and the senders

	lot      int        // of random numbers, from 0
	separate bool       // flows that share a queue end the run
	messages bool       // no memory is shared with guests' clocks
	marks    []snapshot // at the times of mark
	capture  capture    // of TopologyVeth
	progress func(vmtest.Progress)
	log      io.Writer       // takes the consoles; may be nil
	observer netdev.Observer // of the first sender's device; nil is nobody
}

// flowState is what the world knows of a flow from its packets.
type flowState struct {
	sender, receiver int // the guests' numbers

	iss     uint32 // the sender's
	peerISS uint32 // the receiver's
	acked   uint32 // by a receiving guest, relative
	hash    uint32 // of the direction that sends
	queue   int    // transmit queue of its last packet
	known   bool
}

// base is when flows start, in virtual time since the guests' boot: a time that
// no boot reaches, so that a run does not depend on how long it takes.
const base = vtime.Time(time.Second)

// bootPatience bounds the start of a kernel.
const bootPatience = 20 * time.Second

func newWorld(ctx context.Context, s vmtest.Scenario, o *vmtest.Options) (*world, error) {
	w := &world{s: s, progress: o.Progress, log: o.Log, observer: o.Observer}
	w.cal.ctx = ctx
	var err error
	if w.model, err = host.NewModel(s.Host); err != nil {
		return nil, err
	}
	if w.rec, err = newRecorder(&s, o.Trace); err != nil {
		return nil, err
	}
	if s.Topology == vmtest.TopologyVeth {
		w.newNamespaces()
		return w, nil
	}
	for i := range s.Guests.Senders {
		if err := w.newSource(i); err != nil {
			return nil, err
		}
	}
	w.sender = w.sources[0].c
	w.newFlows()
	if s.Receiver.Kind == vmtest.ReceiverKernel {
		return w, w.newReceivers()
	}
	return w, w.newNetwork()
}

// newNamespaces makes the one guest of TopologyVeth, which has no device.
func (w *world) newNamespaces() {
	w.sender = w.newClient("guest sender")
	w.sender.dev = &session{c: w.sender, fd: -1, backend: -1}
	w.sources = []*source{{w: w, c: w.sender}}
	w.flows = make([]flowState, w.s.Flows)
}

// newClient adds a guest to the calendar.
func (w *world) newClient(name string) *client {
	c := &client{cal: &w.cal, name: name, time: -1, request: vtime.Never}
	w.cal.clients = append(w.cal.clients, c)
	return c
}

// newFlows spreads the flows over the guests.
func (w *world) newFlows() {
	w.flows = make([]flowState, w.s.Flows)
	for i := range w.flows {
		f := &w.flows[i]
		f.sender, f.receiver = i%w.s.Guests.Senders, i%w.s.Guests.Receivers
		key := frame.FlowKey{Src: senderEnd(w.s.IP, f.sender).addr, Dst: receiverEnd(w.s.IP, f.receiver).addr,
			SrcPort: uint16(firstPort + i), DstPort: peerPort, Proto: frame.ProtoTCP}
		f.hash = key.Hash()
	}
}

// offered is what the device offers.
func offered(s *vmtest.Scenario) virtio.Features {
	f := netdev.BaseFeatures &^ virtio.FeatureMTU
	if !s.Ring.EventIdx {
		f &^= virtio.FeatureEventIdx
	}
	if !s.Ring.Indirect {
		f &^= virtio.FeatureIndirectDesc
	}
	if s.Ring.Kind == vmtest.RingPacked {
		f |= virtio.FeatureRingPacked
	}
	if s.QueuePairs == 1 {
		f &^= virtio.FeatureMQ
	}
	return f
}

func (w *world) newNetwork() error {
	k, err := tcp.Release(modelled(w.s.Kernel))
	if err != nil {
		return err
	}
	if v, ok := w.s.Sysctl["tcp_rmem"]; ok {
		if err := k.Sysctl.Set("tcp_rmem", v); err != nil {
			return err
		}
	}
	s := w.s
	s.Kernel = modelled(s.Kernel)
	from := receiverEnd(w.s.IP, 0)
	cfg := host.Config{Scenario: &s, Loop: &w.cal.loop, Ends: w, Rmem: int64(k.Sysctl.Rmem[1]),
		Headers: frame.TCPSpec{SrcMAC: from.mac, Src: from.addr, SrcPort: peerPort}}
	for i := range w.s.Flows {
		cfg.Flows = append(cfg.Flows, host.Flow{Port: uint16(firstPort + i), Request: request(w.s.Flow(i))})
	}
	w.net, err = host.NewNetwork(cfg)
	return err
}

// boot starts the guests. It fails if one does not come as far as its clock. All
// processes are started before the first is waited for; what they do after that is
// in the calendar's order.
func (w *world) boot(k, far Kernel) error {
	var err error
	if w.dir, err = runDir(); err != nil {
		return err
	}
	if w.s.Topology == vmtest.TopologyVeth {
		conf, err := vethConf(&w.s)
		if err != nil {
			return err
		}
		if err := w.start(w.sender, k, 0, conf, nil); err != nil {
			return err
		}
		return w.accept()
	}
	var params []string
	switch w.s.Release {
	case vmtest.ReleaseOrphan:
		params = append(params, "virtio_net.napi_tx=0")
	case vmtest.ReleaseNAPI:
		params = append(params, "virtio_net.napi_tx=1")
	}
	for i, x := range w.sources {
		if err := w.start(x.c, k, i, senderConf(&w.s, i), params); err != nil {
			return err
		}
	}
	for i, r := range w.receivers {
		if err := w.start(r.c, far, i, receiverConf(&w.s, i), nil); err != nil {
			return err
		}
	}
	return w.accept()
}

// accept takes the connections of the guests' clocks. Those of their devices come
// while they run.
func (w *world) accept() (err error) {
	for _, c := range w.cal.clients {
		if c.time, err = c.clock.accept(c.vm, min(bootPatience, w.cal.patience)); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		c.clock.close()
	}
	return nil
}

// start starts one guest, with files of its own and with doors for its clock and
// its device.
func (w *world) start(c *client, k Kernel, number int, conf string, params []string) error {
	dir := filepath.Join(w.dir, strings.ReplaceAll(strings.TrimPrefix(c.name, "guest "), " ", "-"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := writeInitramfs(filepath.Join(dir, initrdFile), k.Init, conf); err != nil {
		return err
	}
	clock, err := openDoor(filepath.Join(dir, clockFile))
	if err != nil {
		return err
	}
	c.clock = &clock
	with := w.s.Topology == vmtest.TopologyVirtio
	if with {
		device, err := openDoor(filepath.Join(dir, deviceFile))
		if err != nil {
			return err
		}
		c.dev.fd, c.dev.door = device.fd, &device // readable when the guest connects
	}
	if !w.messages {
		if c.sched, err = newSchedule(); err != nil {
			return err
		}
	}
	c.vm, err = startMachine(machineConfig{kernel: k.Path, shim: k.Shim, dir: dir, memMB: memoryFor(&w.s),
		seed: w.s.Seed + uint64(w.lot)<<32 + uint64(number)<<40, params: params, device: with})
	return err
}

// mark is a time at which all counters are read.
type mark struct {
	w   *world
	end bool // of the measured time
}

// Run reads the counters.
func (m *mark) Run(now vtime.Time, _ uint64) {
	w := m.w
	if w.s.Topology == vmtest.TopologyVirtio {
		w.read(now, m.end)
	}
	if w.progress != nil {
		w.progress(vmtest.Progress{Phase: "measure", Done: now.Sub(base), Total: w.s.WarmUp + w.s.Duration})
	}
}

// read reads the counters. The first time is the start of the measured time.
func (w *world) read(now vtime.Time, end bool) {
	w.marks = append(w.marks, w.snapshot(now))
	if len(w.marks) == 1 {
		w.rec.lens = w.rec.lens[:0]
	}
	if end {
		w.rec.over = true
	}
}

// beginning is the time at which the flows start. Nothing happens then but what the
// guests do.
type beginning struct{}

// Run does nothing.
func (beginning) Run(vtime.Time, uint64) {}

// seriesPoints is how many samples a run's time series has.
const seriesPoints = 20

// markTimes are the start of the measured time, and the ends of its parts.
func (w *world) markTimes() []vtime.Time {
	start := base.Add(w.s.WarmUp)
	out := []vtime.Time{start}
	if w.s.Duration == 0 {
		return out
	}
	for i := 1; i <= seriesPoints; i++ {
		out = append(out, start.Add(w.s.Duration*time.Duration(i)/seriesPoints))
	}
	return out
}

// overtime is how long after its scenario a guest may still run: its program's
// report takes some readings of the clock.
const overtime = 10 * time.Second

// schedule sets the marks, and has the guests ask before they run past base.
func (w *world) schedule() {
	w.cal.loop.At(base, beginning{}, 0)
	if w.s.Duration > 0 {
		w.cal.until = base.Add(w.s.WarmUp + w.s.Duration + overtime)
	}
	times := w.markTimes()
	for i, t := range times {
		w.cal.loop.At(t, &mark{w, i > 0 && i == len(times)-1}, 0)
	}
}

// run is the run from the guests' boot to their end.
func (w *world) run() error {
	w.schedule()
	err := w.cal.run()
	for _, c := range w.cal.clients {
		if said := c.vm.console.said("error"); len(said) > 0 {
			return errors.Join(fmt.Errorf("%s: %w: %s", c.name, ErrEnded, said[0]), err)
		}
	}
	if err != nil {
		return err
	}
	for _, x := range w.sources {
		if len(x.c.vm.console.said("done")) == 0 {
			return x.c.fail(ErrEnded, "%s before the scenario was over", x.c.vm.state())
		}
	}
	if w.s.Topology == vmtest.TopologyVeth {
		return w.readCapture()
	}
	if !w.rec.over {
		w.marks = append(w.marks, w.snapshot(w.cal.at))
	}
	return nil
}

// close ends the guests and removes what they had.
func (w *world) close() error {
	var err error
	for _, c := range w.cal.clients {
		if c.vm != nil {
			c.vm.kill()
			err = errors.Join(err, c.vm.console.close(w.log))
		}
		c.clock.close()
		c.dev.close()
		c.sched.close()
		osio.Close(c.time)
	}
	if w.dir != "" {
		err = errors.Join(err, os.RemoveAll(w.dir))
	}
	return errors.Join(err, w.rec.close())
}
