// Package runner makes the runs of a plan on a guest, one after the other, and
// gathers them in a Result. It prints nothing, catches no signal and opens no
// file: its caller does.
package runner

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/vnetbench/vnetbench/hostnet/pcap"
	"github.com/vnetbench/vnetbench/vmtest"
)

// ErrScenario is wrapped by the errors of scenarios that the guest cannot run.
// Nothing was run then.
var ErrScenario = errors.New("cannot run the scenario")

// Config is what to run, and where its by-products go.
type Config struct {
	Guest vmtest.Guest
	Plan  *vmtest.Plan // fitted to the guest
	Runs  []vmtest.PlannedRun

	// Trace opens the trace of a run by its label; nil: no traces.
	Trace func(label string) (io.WriteCloser, error)
	// Capture opens the capture of a run by its label; nil: no captures.
	Capture func(label string) (io.WriteCloser, error)
	// RealTime says that the guest's time is that of the machine.
	RealTime bool
	// Progress is called as the runs go on; run counts from 0. It may be nil.
	Progress func(run int, p vmtest.Progress)
	// Log gets the guest's console and the harness's words. It may be nil.
	Log io.Writer
}

// Check asks the guest about every run, so that a plan fails before its first
// run and not after hours. The error is of ErrScenario.
func (c *Config) Check() error {
	for _, r := range c.Runs {
		if err := c.Guest.Check(r.Scenario); err != nil {
			return fmt.Errorf("%w: %w", ErrScenario, err)
		}
	}
	return nil
}

// Run makes the runs in order. If ctx ends, the Result holds what was measured
// until then, is marked as interrupted, and comes with ctx's error. If a run
// fails otherwise, the Result holds the runs before it and the error says which
// one it was. The Result is never nil.
func (c *Config) Run(ctx context.Context) (*vmtest.Result, error) {
	res := c.empty()
	for i, r := range c.Runs {
		if ctx.Err() != nil {
			res.Interrupted = true
			return res, ctx.Err()
		}
		run, err := c.one(ctx, i, r)
		if run != nil {
			res.Runs = append(res.Runs, *run)
			res.Environment = c.Guest.Environment() // knows more after a run
			c.addCosts(res, r.Scenario)
		}
		if err != nil {
			res.Interrupted = ctx.Err() != nil
			return res, fmt.Errorf("run %s: %w", r.Label, err)
		}
	}
	return res, nil
}

func (c *Config) empty() *vmtest.Result {
	return &vmtest.Result{
		Schema: vmtest.Schema, Scenario: c.Plan.Base.Clone(), Guest: c.Guest.Name(),
		Environment: c.Guest.Environment(), Seed: c.Plan.Base.Seed,
		Runs: []vmtest.Run{}, Conclusions: []vmtest.Conclusion{}, Frontiers: []vmtest.Frontier{}, Costs: []vmtest.Cost{},
		Warnings: append([]string{}, c.Plan.Notes...),
	}
}

// one makes run i. Its trace is closed whatever happens.
func (c *Config) one(ctx context.Context, i int, r vmtest.PlannedRun) (run *vmtest.Run, err error) {
	o := vmtest.Options{Log: c.Log}
	if c.Progress != nil {
		o.Progress = func(p vmtest.Progress) { c.Progress(i, p) }
	}
	if c.Trace != nil {
		w, err := c.Trace(r.Label)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, w.Close()) }()
		o.Trace = w
	}
	if c.Capture != nil {
		w, done, err := c.capture(r.Label)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, done()) }()
		o.Observer = w
	}
	run, err = c.Guest.Run(ctx, r.Scenario, o)
	if run != nil {
		Complete(run, r)
	}
	return run, err
}

// capture starts the capture of a run; done ends it.
func (c *Config) capture(label string) (w *pcap.Writer, done func() error, err error) {
	f, err := c.Capture(label)
	if err != nil {
		return nil, nil, err
	}
	var cfg pcap.Config
	if c.RealTime {
		cfg.Stamp = pcap.WallClock()
	}
	if w, err = pcap.NewWriter(f, cfg); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return w, func() error { return errors.Join(w.Close(), f.Close()) }, nil
}

// Complete fills what the plan knows better than the guest, and empty lists for
// missing ones, since JSON leaves none out.
func Complete(run *vmtest.Run, r vmtest.PlannedRun) {
	s := r.Scenario
	run.Label, run.Axes, run.Settings = r.Label, r.Axes, orEmpty(r.Settings)
	run.Remedies = append([]string{}, s.Remedies...)
	run.Policy, run.QueuePairs, run.Write = s.Policy, s.QueuePairs, int64(s.Write)
	if run.Kernel == "" {
		run.Kernel = s.Kernel
	}
	if run.Release == "" {
		run.Release = s.Release
	}
	run.MeasuredAt = vmtest.MeasuredAtOf(&s)
	if run.MSS == 0 {
		run.MSS = s.EffectiveMSS()
	}
	run.Queues = orEmpty(run.Queues)
	run.Flows = orEmpty(run.Flows)
	run.Sizes = orEmpty(run.Sizes)
	run.Series = orEmpty(run.Series)
	run.Warnings = orEmpty(run.Warnings)
	run.GuestCounters = orEmptyMap(run.GuestCounters)
	run.CostOffset = orEmptyMap(run.CostOffset)
	most := s.LargestPacket()
	for i := range run.Queues {
		completeQueue(&run.Queues[i])
		run.Queues[i].CountExcess(most)
	}
}

func completeQueue(q *vmtest.Queue) {
	for _, m := range []*map[string]int64{&q.GSOHist, &q.PacketsPerKick, &q.PacketsPerCall,
		&q.CallsSuppressed, &q.Drops, &q.KickToUsed, &q.UsedToCall} {
		*m = orEmptyMap(*m)
	}
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func orEmptyMap[T any](m map[string]T) map[string]T {
	if m == nil {
		return map[string]T{}
	}
	return m
}

// addCosts enters the costs of the last run: an entry that an earlier run had
// too gets one more index.
func (c *Config) addCosts(res *vmtest.Result, s vmtest.Scenario) {
	m, ok := c.Guest.(vmtest.Modelled)
	if !ok {
		return
	}
	costs, err := m.Costs(s)
	if err != nil {
		res.Warnings = append(res.Warnings, "costs: "+err.Error())
		return
	}
	run := len(res.Runs) - 1
next:
	for _, cost := range costs {
		for i := range res.Costs {
			if sameCost(res.Costs[i], cost) {
				res.Costs[i].Runs = append(res.Costs[i].Runs, run)
				continue next
			}
		}
		cost.Runs = []int{run}
		res.Costs = append(res.Costs, cost)
	}
}

func sameCost(a, b vmtest.Cost) bool {
	return a.Name == b.Name && a.Value == b.Value && a.Unit == b.Unit && a.Kind == b.Kind && a.Note == b.Note
}
