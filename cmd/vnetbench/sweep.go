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
	"time"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/plot"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/progress"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/sweep"
)

// sweepCmd runs a matrix of scenarios.
type sweepCmd struct {
	File     string `arg:"" help:"A TOML file: a scenario in which any key may have an array of values; the runs are all combinations."`
	Guest    string `enum:"sim,uml,qemu" default:"sim" help:"Kind of guest: sim, uml or qemu."`
	Out      string `placeholder:"DIR" help:"Where the results go (default: the file's name with .sweep for .toml)."`
	Shard    string `placeholder:"I/N" help:"Run only part I of N; merge joins the parts. A task of a Slurm job array is its part without being told."`
	Shards   int    `placeholder:"N" help:"Parts of a job array of Kubernetes (JOB_COMPLETION_INDEX) or GNU parallel (PARALLEL_SEQ), which do not tell their number."`
	Parallel int    `placeholder:"N" help:"Runs at once (default: one for each core; 1 for qemu)."`
	Pictures bool   `default:"true" negatable:"" help:"Draw heat maps and curves when all cells are done."`
}

// Run is the command. Everything that can be refused is refused before the first
// run.
func (c *sweepCmd) Run(s *streams) error {
	cfg, err := c.configure(s.err)
	if err != nil {
		return usage(err)
	}
	if err := os.MkdirAll(filepath.Dir(cfg.File), 0o755); err != nil {
		return usage(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	line := progress.New(s.err)
	cfg.Progress = func(st sweep.State) {
		line.Show("cell %d of %d, about %v left", st.Done, st.Of, st.Left.Round(time.Second))
	}
	done, err := cfg.Run(ctx)
	line.Clear()
	if ctx.Err() != nil {
		fmt.Fprintf(s.out, "%s: %d cells; the same command goes on\n", cfg.File, len(done))
		return errInterrupted
	}
	if err != nil {
		if errors.Is(err, sweep.ErrOther) || errors.Is(err, sweep.ErrFile) {
			return usage(err)
		}
		return statusOf(err)
	}
	fmt.Fprintf(s.out, "%s: %d of %d cells\n", cfg.File, len(done), cfg.Spec.Len())
	return writeSweep(s.out, cfg.File, cfg.Spec.Header(), done, c.Pictures && cfg.Shard.Whole())
}

// configure reads the file and has the guest look at every cell.
func (c *sweepCmd) configure(errs io.Writer) (*sweep.Config, error) {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return nil, fmt.Errorf("sweep file: %w", err)
	}
	spec, err := sweep.Parse(c.File, c.Guest, text)
	if err != nil {
		return nil, err
	}
	if spec.Name == "" || spec.Name == "custom" {
		spec.Name = strings.TrimSuffix(filepath.Base(c.File), ".toml")
	}
	shard, err := c.shard(errs)
	if err != nil {
		return nil, err
	}
	newGuest, err := (&runCmd{Guest: c.Guest}).guests()
	if err != nil {
		return nil, err
	}
	if c.Parallel < 0 {
		return nil, fmt.Errorf("--parallel %d: give 1 or more, or 0 for one a core", c.Parallel)
	}
	if c.Guest == "qemu" && c.Parallel == 0 {
		c.Parallel = 1 // what runs beside a guest in real time changes its figures
	}
	cfg := &sweep.Config{Spec: spec, Shard: shard, File: c.cells(shard), NewGuest: newGuest, Parallel: c.Parallel}
	return cfg, cfg.Check()
}

func (c *sweepCmd) shard(errs io.Writer) (sweep.Shard, error) {
	if c.Shard != "" {
		return sweep.ParseShard(c.Shard)
	}
	s, from, err := sweep.ShardOf(os.Getenv, c.Shards)
	if err == nil && from != "" {
		fmt.Fprintf(errs, "vnetbench: %s: shard %v\n", from, s)
	}
	return s, err
}

// cells names the file of the cells.
func (c *sweepCmd) cells(shard sweep.Shard) string {
	dir := c.Out
	if dir == "" {
		dir = strings.TrimSuffix(c.File, ".toml") + ".sweep"
	}
	name := "cells.jsonl"
	if !shard.Whole() {
		name = fmt.Sprintf("cells.%d-of-%d.jsonl", shard.No, shard.Of)
	}
	return filepath.Join(dir, name)
}

// mergeCmd joins the shards of a sweep.
type mergeCmd struct {
	Files      []string `arg:"" help:"Files of cells, one for each shard."`
	Out        string   `required:"" placeholder:"DIR" help:"Where the joined results go."`
	Incomplete bool     `help:"Join what there is, though cells are missing."`
	Pictures   bool     `default:"true" negatable:"" help:"Draw heat maps and curves."`
}

// Run is the command.
func (c *mergeCmd) Run(s *streams) error {
	h, done, err := sweep.Merge(c.Files, c.Incomplete)
	if err != nil {
		return usage(err)
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return usage(err)
	}
	file := filepath.Join(c.Out, "cells.jsonl")
	if err := sweep.Replace(file, func(w io.Writer) error { return sweep.WriteLines(w, h, done) }); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s: %d of %d cells\n", file, len(done), h.Cells)
	return writeSweep(s.out, file, h, done, c.Pictures)
}

// writeSweep writes the table and the pictures beside a file of cells.
func writeSweep(out io.Writer, cells string, h sweep.Header, done []sweep.Done, pictures bool) error {
	table := strings.TrimSuffix(cells, ".jsonl") + ".csv"
	if err := sweep.Replace(table, func(w io.Writer) error { return sweep.CSV(w, h.Axes, done) }); err != nil {
		return err
	}
	fmt.Fprintln(out, table)
	if !pictures {
		return nil
	}
	names, err := plot.Sweep(filepath.Dir(cells), h, done, []string{".svg", ".png"})
	for _, n := range names {
		fmt.Fprintln(out, n)
	}
	return err
}
