package runner

import (
	"context"
	"fmt"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/frontier"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Frontier tries the plan's settings on every guest with which the adaptive policy
// misses something, and enters what they do into the result. newGuest makes a
// guest for each run. done is called before each; it may be nil. If ctx ends,
// the guests are those finished until then.
func (c *Config) Frontier(ctx context.Context, res *vmtest.Result, newGuest func() vmtest.Guest, done func(label string)) error {
	if len(c.Plan.Frontier) == 0 || c.RealTime {
		return nil
	}
	for _, g := range frontier.Guests(res.Runs) {
		one, two, with := &res.Runs[g.One], &res.Runs[g.Two], &res.Runs[g.With]
		missed := frontier.Judge(one, two, with)
		if len(missed) == 0 {
			continue
		}
		f := vmtest.Frontier{Kernel: with.Kernel, Release: with.Release, Missed: missed}
		for _, policy := range c.Plan.Frontier {
			if done != nil {
				done(policy)
			}
			p, err := c.point(ctx, newGuest, g.With, policy, one, two)
			if err != nil {
				return fmt.Errorf("policy %s on %s %s: %w", policy, f.Kernel, f.Release, err)
			}
			f.Settings = append(f.Settings, p)
		}
		frontier.Weigh(f.Settings)
		res.Frontiers = append(res.Frontiers, f)
	}
	return nil
}

// point makes the two runs of a setting: those of run i with another policy, alone
// and with requests beside.
func (c *Config) point(ctx context.Context, newGuest func() vmtest.Guest, i int, policy string, one, two *vmtest.Run) (vmtest.FrontierPoint, error) {
	s := c.Runs[i].Scenario.Clone()
	s.Policy = policy
	with, err := newGuest().Run(ctx, s, vmtest.Options{})
	if err != nil {
		return vmtest.FrontierPoint{}, err
	}
	Complete(with, vmtest.PlannedRun{Scenario: s})
	vmtest.Beside(&s)
	beside, err := newGuest().Run(ctx, s, vmtest.Options{})
	if err != nil {
		return vmtest.FrontierPoint{}, err
	}
	return frontier.Point(one, two, with, beside), nil
}
