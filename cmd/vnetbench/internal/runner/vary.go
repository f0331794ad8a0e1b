package runner

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/conclude"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Conclude draws the conclusions of a result and, where the guest's costs are a
// model, tries them: the runs that they are about are made again with each
// assumed cost halved and doubled. newGuest makes a guest for each of these runs;
// nil: they are not tried. done is called after each run made again, by one
// goroutine at a time; it may be nil. If ctx ends, the conclusions are those
// tried until then.
func (c *Config) Conclude(ctx context.Context, res *vmtest.Result, newGuest func() vmtest.Guest, done func(n, of int)) error {
	res.Conclusions = conclude.Draw(res.Runs)
	vs := conclude.Variations(res.Conclusions, res.Costs)
	if newGuest == nil || len(vs) == 0 {
		return nil
	}
	var mu sync.Mutex
	varied := map[conclude.Variation]*vmtest.Run{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, v := range vs {
		g.Go(func() error {
			run, err := c.again(ctx, newGuest(), v)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			varied[v] = run
			if done != nil {
				done(len(varied), len(vs))
			}
			return nil
		})
	}
	err := g.Wait()
	conclude.Judge(res.Runs, res.Conclusions, varied)
	return err
}

// again makes a run again for half of its time: whether a statement turns round
// shows by then, and there are many of these runs.
func (c *Config) again(ctx context.Context, g vmtest.Guest, v conclude.Variation) (*vmtest.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := c.Runs[v.Run].Scenario.Clone()
	s.Duration /= 2
	return g.Run(ctx, s, vmtest.Options{Scale: map[string]float64{v.Cost: v.Factor}})
}
