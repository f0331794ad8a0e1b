package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/report"
	"github.com/vnetbench/vnetbench/guest/driver"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest"
)

// listCmd lists what can be named on the command line.
type listCmd struct {
	Scenarios bool `help:"The named scenarios (what list alone prints)."`
	Keys      bool `help:"The keys of scenarios, for --set and files, with their defaults."`
	Kernels   bool `help:"The kernel releases, each with the switches that it changed."`
	Switches  bool `help:"The switches of a kernel's TCP and driver, with their values."`
	Remedies  bool `help:"The changes to a kernel that reports proposed."`
	Costs     bool `help:"The cost tables of a guest's CPU, with the source of each entry."`
	Policies  bool `help:"The policies of the device."`
}

// Run is the command: each list asked for, a blank line between them.
func (c *listCmd) Run(s *streams) error {
	lists := []struct {
		wanted bool
		print  func(io.Writer) error
	}{
		{c.Scenarios || *c == listCmd{}, listScenarios}, {c.Keys, listKeys}, {c.Kernels, listKernels},
		{c.Switches, listSwitches}, {c.Remedies, listRemedies}, {c.Costs, listCosts}, {c.Policies, listPolicies},
	}
	first := true
	for _, l := range lists {
		if !l.wanted {
			continue
		}
		if !first {
			fmt.Fprintln(s.out)
		}
		first = false
		if err := l.print(s.out); err != nil {
			return err
		}
	}
	return nil
}

// words makes a table of left-aligned columns.
func words(heads ...string) *grid.Table {
	t := &grid.Table{}
	for _, h := range heads {
		t.Columns = append(t.Columns, grid.Column{Head: []string{h}, Left: true})
	}
	return t
}

func listScenarios(w io.Writer) error {
	t := words("scenario", "runs", "what it is")
	for _, p := range vmtest.Plans() {
		runs, err := p.Runs()
		if err != nil {
			return err
		}
		t.Row(p.Name, fmt.Sprint(len(runs)), p.Doc)
	}
	return t.Write(w)
}

func listKeys(w io.Writer) error {
	s := vmtest.Default()
	t := words("key", "default", "what it is")
	for _, k := range vmtest.Keys() {
		t.Row(k.Name, k.Get(&s), k.Doc)
	}
	return t.Write(w)
}

// listKernels prints the oldest release in full and each later one as its
// changes against the one before.
func listKernels(w io.Writer) error {
	var last *kernel
	for _, name := range tcp.Releases() {
		k, err := kernelRelease(name)
		if err != nil {
			return err
		}
		text := strings.Join(k.unlike(last), " ")
		if text == "" {
			text = "none of the switches changed"
		}
		if _, err := io.WriteString(w, grid.Wrap(text, report.Width, fmt.Sprintf("%-5s ", name), "      ")); err != nil {
			return err
		}
		last = k
	}
	return nil
}

func listSwitches(w io.Writer) error {
	t := words("switch", "values")
	for _, name := range tcp.SwitchNames() {
		t.Row("tcp."+name, strings.Join(tcp.SwitchValues(name), " "))
	}
	for _, name := range driver.SwitchNames() {
		t.Row("driver."+name, strings.Join(driver.SwitchValues(name), " "))
	}
	return t.Write(w)
}

func listRemedies(w io.Writer) error {
	t := words("remedy", "a real kernel can have it", "what it is")
	for _, r := range vmtest.Remedies() {
		real := "no"
		if r.Real() {
			real = "yes"
		}
		t.Row(r.Name, real, r.Doc)
	}
	return t.Write(w)
}

func listCosts(w io.Writer) error {
	for i, name := range vmtest.GuestTables() {
		table, err := vmtest.GuestTable(name)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprint(w, grid.Wrap(table.About(), report.Width, "guest_cpu="+name+": ", "  "))
		if err := report.Costs(w, costsOf(table), 0); err != nil {
			return err
		}
	}
	return nil
}

func costsOf(table *vcpu.Table) []vmtest.Cost {
	var out []vmtest.Cost
	for i, e := range table.Entries() {
		unit := "ns"
		if vcpu.Op(i) == vcpu.OpCopyByte {
			unit = "ns/byte"
		}
		out = append(out, vmtest.Cost{Name: "guest." + e.Name, Value: float64(e.Picos) / 1000,
			Unit: unit, Kind: e.Source.String(), Note: e.Note})
	}
	return out
}

func listPolicies(w io.Writer) error {
	docs := netdev.PolicyDocs()
	for i, form := range netdev.PolicyForms() {
		if _, err := fmt.Fprintf(w, "%-34s %s\n", form, docs[i]); err != nil {
			return err
		}
	}
	return nil
}
