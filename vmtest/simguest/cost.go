package simguest

import (
	"fmt"
	"strings"
	"time"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// costModel is every cost of a run: the guest's CPU and the host.
type costModel struct {
	cpu  *vcpu.Table
	work time.Duration // the program's, between two writes
	host host.Model

	policy bool // the device has one, which causes costs of its own
}

// workName is the cost that the scenario's key work sets.
const workName = "guest.work"

func newCostModel(s *vmtest.Scenario, scale map[string]float64) (costModel, error) {
	var m costModel
	var err error
	if m.cpu, err = vmtest.GuestTable(s.GuestCPU); err != nil {
		return m, err
	}
	for name, v := range s.GuestCosts {
		op, ok := vcpu.OpByName(name)
		d, err := vmtest.ParseDuration(v)
		if !ok || err != nil {
			return m, fmt.Errorf("guest.%s: no such operation, or no time: %q", name, v)
		}
		m.cpu = m.cpu.With(op, d, "set by the scenario")
	}
	m.work, m.policy = s.Work, s.Policy != "none"
	if m.host, err = host.NewModel(s.Host); err != nil {
		return m, err
	}
	for name, factor := range scale {
		if err := m.scale(name, factor); err != nil {
			return m, err
		}
	}
	return m, nil
}

// scale multiplies one cost by a factor of at least 0, to a thousandth.
func (m *costModel) scale(name string, factor float64) error {
	if factor < 0 || factor > 1000 {
		return fmt.Errorf("cost %s: the factor %v is not from 0 to 1000", name, factor)
	}
	if name == workName {
		m.work = time.Duration(float64(m.work) * factor)
		return nil
	}
	side, entry, _ := strings.Cut(name, ".")
	if op, ok := vcpu.OpByName(entry); ok && side == "guest" {
		m.cpu = m.cpu.Scaled(op, int64(factor*1000+0.5), 1000)
		return nil
	}
	if side == "host" && m.host.Scale(entry, factor) {
		return nil
	}
	return fmt.Errorf("unknown cost %q; the nearest is %q", name, vmtest.Nearest(name, m.names()))
}

func (m *costModel) names() []string {
	var out []string
	for _, c := range m.list() {
		out = append(out, c.Name)
	}
	return out
}

// list returns the costs in the order of their tables.
func (m *costModel) list() []vmtest.Cost {
	var out []vmtest.Cost
	for i, e := range m.cpu.Entries() {
		unit, value := "ns", float64(e.Picos)/1000
		switch vcpu.Op(i) {
		case vcpu.OpCopyByte:
			unit = "ns/byte"
		case vcpu.OpTxLock:
			unit = "ns/ns"
		}
		out = append(out, vmtest.Cost{Name: "guest." + e.Name, Value: value, Unit: unit, Kind: costKind(e.Source), Note: e.Note, Runs: []int{}})
	}
	out = append(out, vmtest.Cost{Name: workName, Value: float64(m.work), Unit: "ns", Kind: vmtest.CostAssumed,
		Note: "the scenario's key work: the program's loop around its writes", Runs: []int{}})
	for i, c := range m.host.Entries() {
		if !m.policy && (i == host.Look || i == host.Join) {
			continue // nothing causes it
		}
		unit := "ns"
		if i == host.TxPerKB {
			unit = "ns/kB"
		}
		out = append(out, vmtest.Cost{Name: "host." + c.Name, Value: c.Ns, Unit: unit, Kind: costKind(c.Kind), Note: c.Note, Runs: []int{}})
	}
	return out
}

func costKind(k vcpu.Kind) string {
	switch k {
	case vcpu.Sourced:
		return vmtest.CostSourced
	case vcpu.Measured:
		return vmtest.CostMeasured
	case vcpu.Defined:
		return vmtest.CostSet
	}
	return vmtest.CostAssumed
}
