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

// Models returns the names of the built-in host models and a sentence on
// each, in pairs.
func Models() [][2]string {
	var out [][2]string
	for _, name := range vmtest.HostModels() {
		m, err := modelByName(name)
		if err != nil {
			panic("host: a built-in model: " + err.Error())
		}
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
	if vmtest.IsCostFile(name) {
		return loadModel(name)
	}
	f, err := vmtest.HostCosts(name)
	if err != nil {
		return Model{}, fmt.Errorf("host: %w; the nearest is %q, and a file needs a / or a . in its name", err, vmtest.Nearest(name, vmtest.HostModels()))
	}
	m := Model{name: name, about: f.About}
	err = m.take(f)
	return m, err
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
	err = m.take(f)
	return m, err
}

// take has the file's costs in place of the model's.
func (m *Model) take(f *vmtest.CostFile) error {
	for n, e := range f.Host {
		i := slices.Index(costNames[:], n)
		if i < 0 {
			return fmt.Errorf("host: %s: unknown cost [host.%s]; the nearest is %q", m.name, n, vmtest.Nearest(n, costNames[:]))
		}
		kind, _ := e.Evidence() // the file was checked when it was read
		m.costs[i] = modelCost{e.NS, kind, e.Note}
	}
	return nil
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
