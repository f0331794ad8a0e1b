package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/bench"
)

// benchCmd has a command for each thing that is measured beside others.
type benchCmd struct {
	Backend benchBackendCmd `cmd:"" help:"Measure serve beside other vhost-user back-ends, in turns, under the same front-end."`
}

// benchBackendCmd measures back-ends.
type benchBackendCmd struct {
	Seconds float64  `default:"45" placeholder:"N" help:"Time that all cases take together."`
	CPUs    []string `name:"cpus" placeholder:"A,B" help:"The CPU of the back-ends and that of the front-ends; by default the first two."`
	Format  string   `enum:"text,json" default:"text" help:"text or json."`
}

// Run is the command.
func (c *benchBackendCmd) Run(s *streams) error {
	cfg, err := c.config(s)
	if err != nil {
		return usage(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	results, err := bench.Run(ctx, cfg)
	if ctx.Err() != nil {
		err = errInterrupted
	}
	return errors.Join(err, c.print(s, results))
}

func (c *benchBackendCmd) config(s *streams) (cfg bench.Config, err error) {
	if c.Seconds < bench.MinSeconds {
		return cfg, fmt.Errorf("--seconds: %v is too short for a pair of each case; write %d or more", c.Seconds, bench.MinSeconds)
	}
	cfg.Seconds = c.Seconds
	cfg.Note = func(say string) { fmt.Fprintln(s.err, say) }
	cfg.Progress = func(say string) {
		if c.Format == "text" {
			fmt.Fprintf(s.err, "measuring %s\n", say)
		}
	}
	if cfg.Program, err = os.Executable(); err != nil {
		return cfg, err
	}
	if cfg.CPUs, err = bench.PickCPUs(); err != nil || len(c.CPUs) == 0 {
		return cfg, err
	}
	cpus, err := parseCPUs(c.CPUs)
	if err == nil && len(cpus) != 2 {
		err = fmt.Errorf("--cpus: %d CPUs; write two, such as 0,1", len(cpus))
	}
	if err == nil {
		cfg.CPUs = [2]int(cpus)
	}
	return cfg, err
}

func (c *benchBackendCmd) print(s *streams, results []bench.Result) error {
	if c.Format == "text" {
		if len(results) == 0 {
			return nil
		}
		return bench.Write(s.out, results)
	}
	e := json.NewEncoder(s.out)
	e.SetIndent("", "  ")
	return e.Encode(append([]bench.Result{}, results...))
}
