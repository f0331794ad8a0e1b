package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/runner"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Config is how to run a sweep.
type Config struct {
	Spec     *Spec
	Shard    Shard
	File     string              // of cells: read if it is there, written as cells are done
	NewGuest func() vmtest.Guest // a guest for one goroutine
	Parallel int                 // runs at once; 0: as many as the machine has cores
	Progress func(State)         // called after each cell, by one goroutine at a time; may be nil
}

// State is how far a sweep is.
type State struct {
	Done, Of int           // cells of the shard
	Left     time.Duration // at the pace of this process so far
}

// Check asks the guest about every cell of the shard, before the first run.
func (c *Config) Check() error {
	g := c.NewGuest()
	for i := range c.Spec.Len() {
		if !c.Shard.Has(i) {
			continue
		}
		cell, err := c.Spec.Cell(i)
		if err == nil {
			err = g.Check(cell.Scenario)
		}
		if err != nil {
			return fmt.Errorf("cell %d, %s: %w", i, c.Spec.Label(cell), err)
		}
	}
	return nil
}

// Run makes the cells of the shard that the file does not have yet, appends each
// to it as it is done, and at the end writes the file in the order of the cells.
// If ctx ends, or a cell fails, the file has what was done. It returns the cells.
func (c *Config) Run(ctx context.Context) ([]Done, error) {
	done, err := c.resume()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(c.File, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	j := &journal{done: done, w: json.NewEncoder(f), c: c, began: time.Now(), before: len(done)}
	err = c.cells(ctx, j)
	byCell(j.done)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return j.done, err
	}
	return j.done, c.write(j.done)
}

func (c *Config) write(done []Done) error {
	return Replace(c.File, func(w io.Writer) error { return WriteLines(w, c.Spec.Header(), done) })
}

// resume reads what an earlier run of the sweep left, or begins the file. What a
// line cut short leaves is wiped.
func (c *Config) resume() ([]Done, error) {
	h, done, err := Read(c.File)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case h.Fingerprint != c.Spec.Fingerprint():
		return nil, fmt.Errorf("%w: %s is of %s (%s), not of %s (%s); remove it or name another --out",
			ErrOther, c.File, h.Name, h.Fingerprint, c.Spec.Name, c.Spec.Fingerprint())
	}
	for _, d := range done {
		if !c.Shard.Has(d.Cell) {
			return nil, fmt.Errorf("%w: %s has cell %d, which is not of shard %v; name another --out", ErrOther, c.File, d.Cell, c.Shard)
		}
	}
	return done, c.write(done)
}

// cells runs what is left, side by side.
func (c *Config) cells(ctx context.Context, j *journal) error {
	have := map[int]bool{}
	for _, d := range j.done {
		have[d.Cell] = true
	}
	n := c.Parallel
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	var left []int
	for i := range c.Spec.Len() {
		if c.Shard.Has(i) && !have[i] {
			left = append(left, i)
		}
	}
	j.of = len(j.done) + len(left)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(n)
	for _, i := range left {
		g.Go(func() error { return c.one(ctx, i, j) })
	}
	return g.Wait()
}

// one runs a cell. One that was interrupted is not done.
func (c *Config) one(ctx context.Context, i int, j *journal) error {
	if ctx.Err() != nil {
		return nil
	}
	cell, err := c.Spec.Cell(i)
	if err != nil {
		return err
	}
	run, err := c.NewGuest().Run(ctx, cell.Scenario, vmtest.Options{})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cell %d, %s: %w", i, c.Spec.Label(cell), err)
	}
	axes := map[string]string{}
	for k, a := range c.Spec.Axes {
		axes[a.Key] = cell.Values[k]
	}
	runner.Complete(run, vmtest.PlannedRun{Label: c.Spec.Label(cell), Axes: axes, Scenario: cell.Scenario})
	return j.add(Done{i, *run})
}

// journal gathers the cells of all goroutines.
type journal struct {
	mu     sync.Mutex
	c      *Config
	w      *json.Encoder
	done   []Done
	of     int
	before int // cells of an earlier run
	began  time.Time
}

func (j *journal) add(d Done) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done = append(j.done, d)
	if err := j.w.Encode(&d); err != nil {
		return err
	}
	if j.c.Progress != nil {
		made := len(j.done) - j.before
		left := time.Since(j.began) / time.Duration(made) * time.Duration(j.of-len(j.done))
		j.c.Progress(State{len(j.done), j.of, left})
	}
	return nil
}
