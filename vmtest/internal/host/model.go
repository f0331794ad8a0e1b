package host

import (
	"fmt"
	"slices"
	"time"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Model is what the host's work takes: one worker for each queue pair with a
// CPU of its own. Costs are in nanoseconds.
type Model struct {
	name  string
	about string
	costs [numCosts]modelCost
}

type modelCost struct {
	ns   float64
	kind vcpu.Kind
	note string
}

// The entries of a host model.
const (
	Wake    = iota // from a kick, or a packet for the guest, to the idle worker running
	TxBase         // one transmitted packet, whatever its length
	TxStack        // the local network stack's part of it, on the worker's CPU
	TxPerKB        // each 1000 bytes of it, net header and frame
	Rx             // one packet to the guest
	Call           // one call: the write to the eventfd
	Look           // a timer that wakes the idle worker, which then looks at its rings
	Join           // each packet that is joined to the one before it
	numCosts
)

var costNames = [numCosts]string{"wake", "tx_base", "tx_stack", "tx_per_kb", "rx", "call", "look", "join"}

// policyCosts are the costs that only a device policy causes.
var policyCosts = [numCosts]modelCost{
	Look: {500, vcpu.Assumed, "a timer interrupt and a switch to the worker's thread; the wake-up's latency is not charged as CPU time, for a kick neither"},
	Join: {300, vcpu.Assumed, "another descriptor chain, its headers compared, of a packet that crosses the host once"},
}

// invented is the note of the models that were made up for the experiments on
// real kernels in virtual time.
const invented = "chosen for the experiments on real kernels in virtual time, so that the two can be compared; of no machine"

func experimentModel(name, about string, base, perKB, rx, wake float64) Model {
	m := Model{name: name, about: about}
	m.costs = policyCosts
	for i, ns := range []float64{wake, base, 0, perKB, rx, 0} {
		m.costs[i] = modelCost{ns, vcpu.Assumed, invented}
	}
	return m
}

func calibratedModel() Model {
	m := Model{name: "calibrated", about: "vhost-net of about 2016 that hands packets to the local network stack"}
	m.costs = [numCosts]modelCost{
		Wake:    {3000, vcpu.Assumed, "wake-up of a sleeping kernel thread on an idle core, from the eventfd to its first instruction"},
		TxBase:  {694, vcpu.Sourced, "pktgen in the guest, 1.44 Mpps of one vhost thread (QEMU commit 96a3d98d2cdb, 2016): ring, tap and drop"},
		TxStack: {900, vcpu.Assumed, "the receiver is local: IP and TCP take the packet in on the worker's CPU; the sender's side of a packet and its ACK is 1193 ns (Linux commit 65466904b015)"},
		TxPerKB: {83, vcpu.Measured, "one copy from memory: 64 KB chunks of 256 MB on an AMD EPYC (family 26), 2026-11-30, go test -bench CopyFromMemory ./vmtest/simguest"},
		Rx:      {415, vcpu.Sourced, "pktgen to the guest, 2.41 Mpps of one vhost thread (QEMU commit 96a3d98d2cdb, 2016)"},
		Call:    {46, vcpu.Sourced, "saved per packet by not signalling a call that nobody wants, TX (QEMU commit 96a3d98d2cdb, 2016)"},
		Look:    policyCosts[Look],
		Join:    policyCosts[Join],
	}
	return m
}

var models = []Model{
	calibratedModel(),
	experimentModel("fast", "400 ns a packet: never behind", 400, 50, 200, 2000),
	experimentModel("med", "1.4 us a packet", 1400, 100, 700, 3000),
	experimentModel("med2", "2 us a packet: one worker falls behind two flows, two keep up", 2000, 100, 800, 3000),
	experimentModel("slow", "6 us a packet: always behind", 6000, 100, 2000, 5000),
}

// Models returns the names of the built-in host models and a sentence on
// each, in pairs.
func Models() [][2]string {
	var out [][2]string
	for _, m := range models {
		out = append(out, [2]string{m.name, m.about})
	}
	return out
}

// NewModel returns the model that the scenario names, with what the
// scenario itself sets over it.
func NewModel(h vmtest.HostConfig) (Model, error) {
	m, err := modelByName(h.Model)
	if err != nil {
		return m, err
	}
	for i, d := range map[int]*time.Duration{Wake: h.Wake, TxBase: h.TxBase, TxPerKB: h.TxPerKB, Rx: h.Rx} {
		if d != nil {
			m.costs[i] = modelCost{float64(*d), vcpu.Defined, "set by the scenario"}
		}
	}
	if h.TxBase != nil {
		m.costs[TxStack] = modelCost{0, vcpu.Defined, "part of host.tx_base, which the scenario sets"}
	}
	return m, nil
}

func modelByName(name string) (Model, error) {
	var names []string
	for _, m := range models {
		if m.name == name {
			return m, nil
		}
		names = append(names, m.name)
	}
	if vmtest.IsCostFile(name) {
		return loadModel(name)
	}
	return Model{}, fmt.Errorf("host: unknown model %q; the nearest is %q, and a file needs a / or a . in its name", name, vmtest.Nearest(name, names))
}

// loadModel reads a file of costs: a built-in model with what the file has over
// it.
func loadModel(path string) (Model, error) {
	f, err := vmtest.ReadCostFile(path)
	if err != nil {
		return Model{}, fmt.Errorf("host: %w", err)
	}
	if vmtest.IsCostFile(f.HostBase) {
		return Model{}, fmt.Errorf("host: %s: host_base %q is no built-in model", path, f.HostBase)
	}
	m, err := modelByName(f.HostBase)
	if err != nil {
		return m, fmt.Errorf("%s: host_base: %w", path, err)
	}
	m.name, m.about = path, f.About
	for n, e := range f.Host {
		i := slices.Index(costNames[:], n)
		if i < 0 {
			return m, fmt.Errorf("host: %s: unknown cost [host.%s]; the nearest is %q", path, n, vmtest.Nearest(n, costNames[:]))
		}
		kind, _ := e.Evidence() // ReadCostFile has checked it
		m.costs[i] = modelCost{e.NS, kind, e.Note}
	}
	return m, nil
}

// TX returns the time that one packet of n bytes, net header and frame, takes.
func (m *Model) TX(n int) time.Duration {
	return time.Duration(m.costs[TxBase].ns+m.costs[TxStack].ns) + time.Duration(float64(n)*m.costs[TxPerKB].ns/1000)
}

// Of returns a cost of the model by its constant: Wake, TxBase and so on.
func (m *Model) Of(cost int) time.Duration { return time.Duration(m.costs[cost].ns) }

// Scale multiplies the cost of that name, and reports whether there is one.
func (m *Model) Scale(name string, factor float64) bool {
	for i, n := range costNames {
		if n == name {
			m.costs[i].ns *= factor
			return true
		}
	}
	return false
}

// Entry is one cost of a model.
type Entry struct {
	Name string
	Ns   float64 // for TxPerKB, of each 1000 bytes
	Kind vcpu.Kind
	Note string
}

// Entries lists the costs in the order of their constants.
func (m *Model) Entries() []Entry {
	out := make([]Entry, numCosts)
	for i, c := range m.costs {
		out[i] = Entry{costNames[i], c.ns, c.kind, c.note}
	}
	return out
}
