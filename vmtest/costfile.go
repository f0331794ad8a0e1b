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

	Host  map[string]CostEntry `toml:"host"`
	Guest map[string]CostEntry `toml:"guest"`
}

// CostEntry is one cost of a file.
type CostEntry struct {
	NS   float64 `toml:"ns"`   // nanoseconds, of copy_byte for each byte
	Kind string  `toml:"kind"` // sourced, measured or assumed (the default)
	Note string  `toml:"note"` // the source, or how it was measured, or why it was assumed
}

// Evidence is the entry's kind as cost tables have it.
func (e CostEntry) Evidence() (vcpu.Kind, error) {
	kind, ok := map[string]vcpu.Kind{"": vcpu.Assumed, CostAssumed: vcpu.Assumed, CostSourced: vcpu.Sourced, CostMeasured: vcpu.Measured}[e.Kind]
	if !ok {
		return 0, fmt.Errorf("kind %q is not one of assumed, sourced, measured", e.Kind)
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
	md, err := toml.Decode(string(text), f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if extra := md.Undecoded(); len(extra) > 0 {
		return nil, fmt.Errorf("%s: unknown key %s; a file of costs has about, host_base, guest_cpu_base, and tables such as [host.wake] and [guest.kick] with ns, kind and note", path, extra[0])
	}
	for _, side := range []struct {
		name    string
		entries map[string]CostEntry
	}{{"host", f.Host}, {"guest", f.Guest}} {
		for _, name := range slices.Sorted(maps.Keys(side.entries)) {
			if err := side.entries[name].check(side.name + "." + name); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return f, nil
}

// GuestTable returns the cost table that the key guest_cpu names: a built-in one,
// or that of a file.
func GuestTable(name string) (*vcpu.Table, error) {
	if !IsCostFile(name) {
		t, err := vcpu.TableByName(name)
		if err != nil {
			return nil, fmt.Errorf("guest_cpu: %w; the nearest is %q, and a file needs a / or a . in its name", err, Nearest(name, vcpu.TableNames()))
		}
		return t, nil
	}
	f, err := ReadCostFile(name)
	if err != nil {
		return nil, fmt.Errorf("guest_cpu: %w", err)
	}
	base, err := vcpu.TableByName(f.GuestBase)
	if err != nil {
		return nil, fmt.Errorf("guest_cpu: %s: guest_cpu_base: %w", name, err)
	}
	entries := map[vcpu.Op]vcpu.Entry{}
	for n, e := range f.Guest {
		op, ok := vcpu.OpByName(n)
		if !ok {
			return nil, fmt.Errorf("guest_cpu: %s: unknown cost [guest.%s]; the nearest is %q", name, n, Nearest(n, vcpu.OpNames()))
		}
		kind, _ := e.Evidence() // ReadCostFile has checked it
		entries[op] = vcpu.Entry{Picos: int64(e.NS*1000 + 0.5), Source: kind, Note: e.Note}
	}
	return base.Based(name, f.About, entries), nil
}
