package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vnetbench/vnetbench/vmtest/trace"
	"github.com/vnetbench/vnetbench/vmtest/tracecheck"
)

// traceCmd holds the commands over packet traces.
type traceCmd struct {
	Show  traceShowCmd  `cmd:"" help:"Print the sizes of a trace's packets as they leave."`
	Diff  traceDiffCmd  `cmd:"" help:"Compare two traces; exit status 1 if they differ."`
	Check traceCheckCmd `cmd:"" help:"Run the model on the headers of traces of real kernels, and compare; exit status 1 below --least."`
}

// traceShowCmd prints one trace.
type traceShowCmd struct {
	File string `arg:"" type:"existingfile" help:"A trace, compressed with gzip or not."`
	Flow []int  `placeholder:"N" help:"Only these flows."`
	Top  int    `default:"10" help:"How many of the most frequent sizes and gaps."`
}

// Run is the command.
func (c *traceShowCmd) Run(s *streams) error {
	t, err := trace.ReadFile(c.File)
	if err != nil {
		return usage(err)
	}
	return trace.Show(s.out, t, trace.ShowOptions{Flows: c.Flow, Top: c.Top})
}

// traceDiffCmd compares two traces.
type traceDiffCmd struct {
	Truth  string `arg:"" type:"existingfile" help:"The trace that is right."`
	Model  string `arg:"" type:"existingfile" help:"The trace that is compared with it."`
	Format string `enum:"text,json" default:"text" help:"text or json."`
	SVG    string `name:"svg" placeholder:"FILE" help:"Draw both there."`
}

// errTracesDiffer ends a comparison that found a packet of another length.
var errTracesDiffer = &statusError{exitFailed, errors.New("the traces differ")}

// Run is the command.
func (c *traceDiffCmd) Run(s *streams) error {
	truth, err := trace.ReadFile(c.Truth)
	if err != nil {
		return usage(err)
	}
	model, err := trace.ReadFile(c.Model)
	if err != nil {
		return usage(err)
	}
	r := trace.Compare(truth, model)
	if err := drawTo(c.SVG, r); err != nil {
		return usage(err)
	}
	write := r.WriteText
	if c.Format == "json" {
		write = r.WriteJSON
	}
	if err := write(s.out); err != nil {
		return err
	}
	if r.EqualLen < r.Packets || r.OnlyModel > 0 {
		return errTracesDiffer
	}
	return nil
}

// drawTo writes the report's picture to path, if there is one.
func drawTo(path string, r *trace.Report) error {
	if path == "" {
		return nil
	}
	return writeFile(path, r.WriteSVG)
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// traceCheckCmd holds the model against traces of real kernels.
type traceCheckCmd struct {
	Path   string  `arg:"" help:"A trace, or a folder of traces."`
	Format string  `enum:"text,json" default:"text" help:"text or json."`
	SVG    string  `name:"svg" placeholder:"DIR" help:"Draw each comparison into a file there."`
	Clock  bool    `help:"Where a trace differs, try every phase that the guest's clock may have had, and say which fits best."`
	Least  float64 `placeholder:"PERCENT" help:"Fail if a trace has a smaller share of packets of equal length."`
}

// Run is the command.
func (c *traceCheckCmd) Run(s *streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.check(ctx, s.out)
}

func (c *traceCheckCmd) check(ctx context.Context, w io.Writer) error {
	files, err := tracecheck.Files(c.Path)
	if err != nil {
		return usage(err)
	}
	var reports []*trace.Report
	for _, f := range files {
		r, err := tracecheck.Check(ctx, f, tracecheck.Options{Clock: c.Clock})
		if ctx.Err() != nil {
			return errInterrupted
		}
		if err != nil {
			return usage(err)
		}
		if err := c.draw(f, r); err != nil {
			return usage(err)
		}
		reports = append(reports, r)
	}
	write := trace.WriteCheck
	if c.Format == "json" {
		write = trace.WriteCheckJSON
	}
	if err := write(w, reports); err != nil {
		return err
	}
	return c.judge(reports)
}

func (c *traceCheckCmd) draw(file string, r *trace.Report) error {
	if c.SVG == "" {
		return nil
	}
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".gz"), ".tsv") + ".svg"
	return drawTo(filepath.Join(c.SVG, name), r)
}

// judge fails if a trace is below the least share.
func (c *traceCheckCmd) judge(reports []*trace.Report) error {
	for _, r := range reports {
		if share := 100 * float64(r.EqualLen) / float64(max(r.Packets, 1)); share < c.Least {
			return fmt.Errorf("%s: %.2f %% of packets have equal length, want %.2f %%", r.Trace, share, c.Least)
		}
	}
	return nil
}
