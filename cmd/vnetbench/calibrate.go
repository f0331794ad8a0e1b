package main

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/calibrate"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/progress"
	"github.com/vnetbench/vnetbench/vmtest"
)

// calibrateCmd measures costs of this machine.
type calibrateCmd struct {
	Out string `placeholder:"FILE" help:"Write the costs there, a TOML file for --set host=FILE and --set guest_cpu=FILE."`
}

// Run is the command.
func (c *calibrateCmd) Run(s *streams) error {
	if c.Out != "" && !vmtest.IsCostFile(c.Out) {
		return usage(fmt.Errorf("--out %s: scenarios tell a file from a built-in table by a / or a . in its name; write ./%s or %s.toml", c.Out, c.Out, c.Out))
	}
	out, err := openOutput(c.Out, s.out)
	if err != nil {
		return usage(err)
	}
	defer out.discard()
	line := progress.New(s.err)
	var values []calibrate.Value
	for i, m := range calibrate.Measurements() {
		line.Show("measuring %s.%s, %d of %d", m.Side, m.Name, i+1, len(calibrate.Measurements()))
		v, err := m.Run()
		if err != nil {
			line.Clear()
			return err
		}
		values = append(values, v)
	}
	line.Clear()
	command := "vnetbench calibrate"
	file := calibrate.File(values, cpuName(), time.Now().UTC().Format(time.DateOnly), command)
	if c.Out != "" {
		if err := printCalibration(s.out, values); err != nil {
			return err
		}
	}
	if err := writeCosts(out, file); err != nil {
		return err
	}
	return out.commit()
}

// cpuName is the processor, as the kernel names it.
func cpuName() string {
	name := vmtest.CPUModel()
	if name == "" {
		name = runtime.GOARCH
	}
	return fmt.Sprintf("%s, %d CPUs", name, runtime.NumCPU())
}

// printCalibration shows what was measured, and what was not.
func printCalibration(w io.Writer, values []calibrate.Value) error {
	t := grid.Table{Columns: []grid.Column{{Head: []string{"cost"}, Left: true}, {Head: []string{"median", "ns"}}, {Head: []string{"min"}}, {Head: []string{"max"}},
		{Head: []string{"how"}, Left: true}}}
	for _, v := range values {
		t.Row(v.Side+"."+v.Name, grid.Number(v.Median), grid.Number(v.Min), grid.Number(v.Max), v.What)
	}
	missing := calibrate.NotMeasured()
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Row(name, "-", "-", "-", "not measured: "+missing[name])
	}
	return t.Write(w)
}

func writeCosts(w io.Writer, f *vmtest.CostFile) error {
	_, err := fmt.Fprintf(w, "# Costs for the keys host and guest_cpu of a scenario; what is not here is as in the base.\n")
	if err != nil {
		return err
	}
	e := toml.NewEncoder(w)
	e.Indent = ""
	return e.Encode(f)
}
