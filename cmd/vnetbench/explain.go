package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/explain"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/progress"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
)

// explainCmd says what a result's counters mean, and what would change them.
type explainCmd struct {
	Result string `arg:"" help:"A result: a file that run --format json wrote."`
	Label  string `placeholder:"LABEL" help:"Only the run of that label."`
	WhatIf bool   `name:"what-if" default:"true" negatable:"" help:"Try remedies and policies in the simulator."`
}

// Run is the command.
func (c *explainCmd) Run(s *streams) error {
	res, err := readResult(c.Result)
	if err != nil {
		return usage(err)
	}
	runs, err := c.choose(res)
	if err != nil {
		return usage(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	line := progress.New(s.err)
	for n, i := range runs {
		if n > 0 {
			fmt.Fprintln(s.out)
		}
		if err := explain.Run(s.out, res, i); err != nil {
			return usage(fmt.Errorf("%s: %w", c.Result, err))
		}
		if !c.WhatIf {
			continue
		}
		err := c.whatIf(ctx, s.out, res, i, line)
		if ctx.Err() != nil {
			return errInterrupted
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *explainCmd) choose(res *vmtest.Result) ([]int, error) {
	var out []int
	var labels []string
	for i := range res.Runs {
		labels = append(labels, res.Runs[i].Label)
		if c.Label == "" || c.Label == res.Runs[i].Label {
			out = append(out, i)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--label: %s has no run %q; it has %s", c.Result, c.Label, strings.Join(labels, ", "))
	}
	return out, nil
}

// whatIf tries changes of a run in the simulator.
func (c *explainCmd) whatIf(ctx context.Context, w io.Writer, res *vmtest.Result, i int, line *progress.Line) error {
	defer line.Clear()
	s, err := res.ScenarioOf(i)
	if err != nil {
		return err
	}
	if res.Guest == "qemu" {
		s.Duration, s.WarmUp = vmtest.Default().Duration, vmtest.Default().WarmUp
	}
	changes := explain.Changes(&s)
	newGuest := func() vmtest.Guest { return simguest.New(simguest.Config{}) }
	base, err := explain.Try(ctx, s, changes, newGuest, func(n, of int) { line.Show("%s: change %d of %d", res.Runs[i].Label, n, of) })
	line.Clear()
	switch {
	case errors.Is(err, explain.ErrNoModel):
		fmt.Fprintf(w, "  What would change it is not known: %v.\n", err)
		return nil
	case err != nil:
		return err
	}
	fmt.Fprintln(w, "  What would change it, by the simulator:")
	if res.Guest != "sim" {
		fmt.Fprintf(w, "  (the guest was real: it had %.0f bytes in the mean and %.1f kicks per MB where the simulator has those of \"none\")\n",
			res.Runs[i].Totals.GSOMeanBytes, res.Runs[i].Totals.KicksPerMB)
	}
	return explain.Table(w, base, changes)
}
