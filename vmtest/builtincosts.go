package vmtest

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/vnetbench/vnetbench/guest/vcpu"
)

// costFS are the built-in cost tables and host models, in the form of files of
// costs. A new one is a new file; the tests hold every one to an entry, a kind and
// a note for each cost.
//
//go:embed costs/guest/*.toml costs/host/*.toml
var costFS embed.FS

// ErrUnknownCosts is returned for a name that no built-in table or model has.
var ErrUnknownCosts = errors.New("unknown costs")

// GuestTables returns the names of the built-in cost tables of a guest's CPU, in
// the order of the alphabet.
func GuestTables() []string { return costNames("guest") }

// HostModels returns the names of the built-in models of a host, in the order of
// the alphabet.
func HostModels() []string { return costNames("host") }

func costNames(side string) []string {
	files, err := costFS.ReadDir("costs/" + side)
	if err != nil {
		panic("vmtest: no costs of the " + side + ": " + err.Error())
	}
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(f.Name(), ".toml"))
	}
	return out
}

// HostCosts returns the built-in model of a host, which has no base. It is
// everybody's, and not to be changed. The error wraps ErrUnknownCosts.
func HostCosts(name string) (*CostFile, error) { return builtinCosts("host", name) }

func builtinCosts(side, name string) (*CostFile, error) {
	file := path.Join("costs", side, name+".toml")
	text, err := costFS.ReadFile(file)
	if err != nil || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%w %q: there are %v", ErrUnknownCosts, name, costNames(side))
	}
	if f, ok := decoded.Load(file); ok {
		return f.(*CostFile), nil
	}
	f := &CostFile{}
	if err := f.decode(file, string(text)); err != nil {
		return nil, err
	}
	decoded.Store(file, f)
	return f, nil
}

// decoded are the files of costFS that were asked for, as *CostFile by path: every
// run asks for some, and they are the same each time.
var decoded sync.Map

// GuestTable returns the cost table that the key guest_cpu names: a built-in one,
// or that of a file.
func GuestTable(name string) (*vcpu.Table, error) {
	if !IsCostFile(name) {
		t, err := builtinTable(name)
		if err != nil {
			return nil, fmt.Errorf("guest_cpu: %w; the nearest is %q, and a file needs a / or a . in its name", err, Nearest(name, GuestTables()))
		}
		return t, nil
	}
	f, err := ReadCostFile(name)
	if err != nil {
		return nil, fmt.Errorf("guest_cpu: %w", err)
	}
	t, err := f.table(name)
	if err != nil {
		return nil, fmt.Errorf("guest_cpu: %w", err)
	}
	return t, nil
}

func builtinTable(name string) (*vcpu.Table, error) {
	f, err := builtinCosts("guest", name)
	if err != nil {
		return nil, err
	}
	return f.table(name)
}

// table makes the file's table: its entries over those of its base, if it has
// one.
func (f *CostFile) table(name string) (*vcpu.Table, error) {
	entries, step := map[vcpu.Op]vcpu.Entry{}, time.Duration(f.ClockStep)
	if f.GuestBase != "" {
		base, err := builtinTable(f.GuestBase)
		if err != nil {
			return nil, fmt.Errorf("%s: guest_cpu_base: %w", name, err)
		}
		for i, e := range base.Entries() {
			entries[vcpu.Op(i)] = e
		}
		if step == 0 {
			step = base.ClockStep()
		}
	}
	for n, e := range f.Guest {
		op, ok := vcpu.OpByName(n)
		if !ok {
			return nil, fmt.Errorf("%s: unknown cost [guest.%s]; the nearest is %q", name, n, Nearest(n, vcpu.OpNames()))
		}
		kind, _ := e.Evidence() // decode has checked it
		entries[op] = vcpu.Entry{Picos: int64(e.NS*1000 + 0.5), Source: kind, Note: e.Note}
	}
	return vcpu.NewTable(name, f.About, step, entries)
}
