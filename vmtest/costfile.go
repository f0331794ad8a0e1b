package vmtest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/vnetbench/vnetbench/guest/vcpu"
)

// CostFile is a file of costs, in TOML: those of a machine, which `vnetbench
// calibrate` writes, over those of a built-in model and table. The keys host and
// guest_cpu of a scenario name such a file.
type CostFile struct {
	About string `toml:"about"` // one sentence: which machine, when, by which command

	HostBase  string `toml:"host_base"`      // the host model for what [host] does not have
	GuestBase string `toml:"guest_cpu_base"` // the cost table for what [guest] does not have

	ClockStep int64 `toml:"clock_step_ns"` // of a guest's clock, 0 as in the base; OpClockRead is then for process context only

	Host  map[string]CostEntry `toml:"host"`
	Guest map[string]CostEntry `toml:"guest"`
}

// CostEntry is one cost of a file.
type CostEntry struct {
	NS   float64 `toml:"ns"`   // nanoseconds, of copy_byte for each byte
	Kind string  `toml:"kind"` // sourced, measured, set (true by construction) or assumed (the default)
	Note string  `toml:"note"` // the source, or how it was measured, or why it was assumed
}

// Evidence is the entry's kind as cost tables have it.
func (e CostEntry) Evidence() (vcpu.Kind, error) {
	kind, ok := map[string]vcpu.Kind{"": vcpu.Assumed, CostAssumed: vcpu.Assumed, CostSourced: vcpu.Sourced, CostMeasured: vcpu.Measured, CostSet: vcpu.Defined}[e.Kind]
	if !ok {
		return 0, fmt.Errorf("kind %q is not one of assumed, sourced, measured, set", e.Kind)
	}
	return kind, nil
}

// maxCost is the most that an entry may cost, in nanoseconds.
const maxCost = 1e9

func (e CostEntry) check(name string) error {
	if e.NS < 0 || e.NS > maxCost {
		return fmt.Errorf("[%s] needs ns from 0 to 1e9", name)
	}
	if _, err := e.Evidence(); err != nil {
		return fmt.Errorf("[%s] %w", name, err)
	}
	return nil
}

// IsCostFile reports whether the value of host or guest_cpu names a file.
func IsCostFile(name string) bool { return strings.ContainsAny(name, "/.") }

// ReadCostFile reads a file of costs. Errors name the entry and what would be
// right.
func ReadCostFile(path string) (*CostFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &CostFile{HostBase: "calibrated", GuestBase: "kvm"}
	return f, f.decode(path, string(text))
}

// decode reads the text of a file over what f has.
func (f *CostFile) decode(path, text string) error {
	md, err := toml.Decode(text, f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if extra := md.Undecoded(); len(extra) > 0 {
		return fmt.Errorf("%s: unknown key %s; a file of costs has about, host_base, guest_cpu_base, clock_step_ns, and tables such as [host.wake] and [guest.kick] with ns, kind and note", path, extra[0])
	}
	if f.ClockStep < 0 || f.ClockStep > maxCost {
		return fmt.Errorf("%s: clock_step_ns needs 0 to 1e9", path)
	}
	for _, side := range []struct {
		name    string
		entries map[string]CostEntry
	}{{"host", f.Host}, {"guest", f.Guest}} {
		for _, name := range slices.Sorted(maps.Keys(side.entries)) {
			if err := side.entries[name].check(side.name + "." + name); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return nil
}
