package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/progress"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/report"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/runner"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/sidebyside"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/sweep"
	"github.com/vnetbench/vnetbench/vmtest"
)

// tries is how often a run on a guest in real time is tried: a machine that is
// under load may not even let the guest come up.
const tries = 3

// agree has the simulated guest and one in real time make the same runs, several
// times each, and says how far they agree.
func (c *compareCmd) agree(s *streams) error {
	if err := c.checkAgree(); err != nil {
		return usage(err)
	}
	var rounds []*round
	for _, guest := range []string{"sim", "qemu"} { // what the plan asks for is refused before the first run
		for n := range c.Runs {
			r, err := c.round(guest, n)
			if err != nil {
				return usage(err)
			}
			rounds = append(rounds, r)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	line := progress.New(s.err)
	results, err := runRounds(ctx, rounds, line)
	line.Clear()
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return statusOf(err)
	}
	return sidebyside.Agreement(s.out, results, c.Brief)
}

func (c *compareCmd) checkAgree() error {
	switch {
	case c.Runs < 1:
		return fmt.Errorf("--runs %d: give 1 or more", c.Runs)
	case c.Format == "json":
		return errors.New("--format json: what sim and qemu made is in the files of --out DIR; the comparison is text")
	case c.SVG != "" || c.Least != 0:
		return errors.New("--svg, --least: packets are compared in virtual time only, with --guests sim,uml")
	case c.Out == "":
		return nil
	}
	return os.MkdirAll(c.Out, 0o755)
}

// round is one result: every run of the plan once, on one kind of guest.
type round struct {
	cfg  *runner.Config
	file string // "": not kept
	res  *vmtest.Result
}

// round prepares round n of a guest, with what an earlier command left of it.
func (c *compareCmd) round(guest string, n int) (*round, error) {
	seed := uint64(n + 1)
	if c.Seed != nil {
		seed = *c.Seed + uint64(n)
	}
	run := runCmd{Scenario: c.Scenario, Guest: guest, Set: c.Set, Seed: &seed, Kernel: c.Kernel}
	cfg, _, err := run.configure()
	if err != nil {
		return nil, err
	}
	r := &round{cfg: cfg}
	if c.Out == "" {
		return r, nil
	}
	r.file = filepath.Join(c.Out, guest+"-"+strconv.Itoa(n+1)+".json")
	if r.res, err = readResult(r.file); errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil && !sameScenario(&r.res.Scenario, &cfg.Plan.Base) {
		err = fmt.Errorf("%s: is of another scenario; give an empty --out", r.file)
	}
	return r, err
}

// sameScenario compares what JSON says of them.
func sameScenario(a, b *vmtest.Scenario) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// runRounds makes what is missing, one round after the other, so that what changes
// on the machine in the course of time is in the spread.
func runRounds(ctx context.Context, rounds []*round, line *progress.Line) (results []*vmtest.Result, _ error) {
	for i, r := range rounds {
		show := func(label string) { line.Show("round %d of %d, %s %s", i+1, len(rounds), r.cfg.Guest.Name(), label) }
		if err := r.complete(ctx, show); err != nil {
			return nil, err
		}
		results = append(results, r.res)
	}
	return results, nil
}

// complete makes what the round does not have: all at once in virtual time, where
// nothing is there yet, else run by run. show is called before each of those.
func (r *round) complete(ctx context.Context, show func(label string)) (err error) {
	missing := r.missing()
	if len(missing) == len(r.cfg.Runs) && !r.cfg.RealTime {
		if r.res, err = r.cfg.Run(ctx); err != nil {
			return err
		}
		return r.keep()
	}
	for _, run := range missing {
		show(run.Label)
		if err := r.make(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

// missing are the runs that the round does not have yet.
func (r *round) missing() (out []vmtest.PlannedRun) {
	for _, run := range r.cfg.Runs {
		if r.res == nil || !slices.ContainsFunc(r.res.Runs, func(have vmtest.Run) bool { return have.Label == run.Label }) {
			out = append(out, run)
		}
	}
	return out
}

// make makes one run and adds it to the round.
func (r *round) make(ctx context.Context, run vmtest.PlannedRun) error {
	cfg := *r.cfg
	cfg.Runs = []vmtest.PlannedRun{run}
	res, err := cfg.Run(ctx)
	for n := 1; n < tries && err != nil && ctx.Err() == nil && statusOf(err) == err; n++ {
		failed := err
		if res, err = cfg.Run(ctx); err == nil {
			res.Runs[0].Warnings = append(res.Runs[0].Warnings, "made again after: "+failed.Error())
		}
	}
	if err != nil {
		return err
	}
	if r.res == nil {
		r.res = res
	} else {
		r.res.Runs = append(r.res.Runs, res.Runs...)
	}
	return r.keep()
}

// keep writes the round's file.
func (r *round) keep() error {
	if r.file == "" {
		return nil
	}
	if err := sweep.Replace(r.file, func(w io.Writer) error { return report.JSON(w, r.res) }); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}
