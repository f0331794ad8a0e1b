package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/report"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/runner"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/vmtest"
)

// explainRuns prints what the figures of simulated runs rest on: the costs, and the
// kernels' switches. A real guest has no switches.
func explainRuns(w io.Writer, res *vmtest.Result, cfg *runner.Config) error {
	if len(res.Costs) == 0 {
		return explainReal(w, res)
	}
	fmt.Fprintln(w, "\nCosts of the model:")
	if err := report.Costs(w, res.Costs, len(res.Runs)); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nSwitches of the kernels' TCP and driver (list --switches has their values):")
	return explainKernels(w, cfg.Runs)
}

// explainReal prints the two costs that counts of a real guest are multiplied
// with.
func explainReal(w io.Writer, res *vmtest.Result) error {
	table, err := vmtest.GuestTable(res.Scenario.GuestCPU)
	if err != nil {
		return err
	}
	costs := costsOf(table)
	fmt.Fprintln(w, "\nCosts by which the kicks and calls of the real guest were multiplied:")
	return report.Costs(w, []vmtest.Cost{costs[vcpu.OpKick], costs[vcpu.OpIRQ]}, 0)
}

// explainKernels prints the first kernel's switches in full, and what each other
// kernel, or kernel with remedies, has differently.
func explainKernels(w io.Writer, runs []vmtest.PlannedRun) error {
	var first *kernel
	seen := map[string]bool{}
	for _, r := range runs {
		name := kernelName(r.Scenario)
		if seen[name] {
			continue
		}
		seen[name] = true
		k, sysctls, err := kernelOf(r.Scenario)
		if err != nil {
			return err
		}
		text := strings.Join(append(k.unlike(first), sysctls...), " ")
		if first == nil {
			first = k
		} else {
			text = "unlike the first: " + text
		}
		if _, err := io.WriteString(w, grid.Wrap(text, report.Width, name+": ", "  ")); err != nil {
			return err
		}
	}
	return nil
}

func kernelName(s vmtest.Scenario) string {
	if len(s.Remedies) == 0 {
		return s.Kernel
	}
	return s.Kernel + " with " + strings.Join(s.Remedies, " and ")
}
