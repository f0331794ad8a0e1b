package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/runner"
	"github.com/vnetbench/vnetbench/vmtest"
)

// fake is a guest whose goodput is the product of its costs and queue pairs.
type fake struct {
	failAt string             // kernel whose run fails
	stop   context.CancelFunc // called in the run of two queue pairs, which is then cut short
}

func (f *fake) Name() string                    { return "sim" }
func (f *fake) Kernels() []string               { return []string{"3.8", "6.12"} }
func (f *fake) Environment() vmtest.Environment { return vmtest.Environment{Version: "test"} }

func (f *fake) Check(s vmtest.Scenario) error {
	if s.Kernel == "2.4" {
		return fmt.Errorf("kernel %q is too old; the nearest is 3.8", s.Kernel)
	}
	return nil
}

func (f *fake) Costs(s vmtest.Scenario) ([]vmtest.Cost, error) {
	return []vmtest.Cost{
		{Name: "guest.kick", Value: 960, Unit: "ns", Kind: vmtest.CostSourced, Runs: []int{}},
		{Name: "host.wake", Value: float64(s.QueuePairs), Unit: "ns", Kind: vmtest.CostAssumed, Runs: []int{}},
	}, nil
}

func (f *fake) Run(ctx context.Context, s vmtest.Scenario, o vmtest.Options) (*vmtest.Run, error) {
	if s.Kernel == f.failAt {
		return nil, errors.New("the guest fell over")
	}
	if o.Trace != nil {
		fmt.Fprintf(o.Trace, "trace of %d pairs\n", s.QueuePairs)
	}
	if o.Progress != nil {
		o.Progress(vmtest.Progress{Phase: "measure"})
	}
	wake := 1.0
	if x, ok := o.Scale["host.wake"]; ok {
		wake = x
	}
	r := &vmtest.Run{Totals: vmtest.Totals{Bytes: 1e6, GoodputBps: 1e9 * float64(s.QueuePairs), GSOMeanBytes: 1000 * wake / float64(s.QueuePairs)}}
	if f.stop != nil && s.QueuePairs == 2 {
		f.stop()
		return r, ctx.Err()
	}
	return r, nil
}

func config(t *testing.T, g vmtest.Guest, settings ...vmtest.Setting) *runner.Config {
	t.Helper()
	p, err := vmtest.PlanByName("mq-small-packets")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Set(settings); err != nil {
		t.Fatal(err)
	}
	runs, err := p.Runs()
	if err != nil {
		t.Fatal(err)
	}
	return &runner.Config{Guest: g, Plan: &p, Runs: runs}
}

func TestRunsInOrderWithTracesAndCosts(t *testing.T) {
	c := config(t, &fake{}, vmtest.Setting{Key: "kernel", Value: "3.8"})
	traces := map[string]*bytes.Buffer{}
	c.Trace = func(label string) (io.WriteCloser, error) {
		traces[label] = &bytes.Buffer{}
		return nopCloser{traces[label]}, nil
	}
	var seen []int
	c.Progress = func(run int, p vmtest.Progress) { seen = append(seen, run) }
	res, err := c.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, r := range res.Runs {
		labels = append(labels, r.Label)
		if got := traces[r.Label].String(); got != fmt.Sprintf("trace of %d pairs\n", r.QueuePairs) {
			t.Errorf("trace of %s: %q", r.Label, got)
		}
		if r.Queues == nil || r.Flows == nil || r.GuestCounters == nil || r.Kernel != "3.8" || r.Write != 1024 || r.MSS != 1448 {
			t.Errorf("run %s is not completed: %+v", r.Label, r)
		}
	}
	if d := cmp.Diff([]string{"3.8-1q", "3.8-2q"}, labels); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int{0, 1}, seen); d != "" {
		t.Error(d)
	}
	var costs []string
	for _, k := range res.Costs {
		costs = append(costs, fmt.Sprintf("%s=%v%v", k.Name, k.Value, k.Runs))
	}
	if d := cmp.Diff([]string{"guest.kick=960[0 1]", "host.wake=1[0]", "host.wake=2[1]"}, costs); d != "" {
		t.Error(d)
	}
}

func TestConcludeTriesTheAssumedCosts(t *testing.T) {
	c := config(t, &fake{}, vmtest.Setting{Key: "kernel", Value: "3.8"})
	res, err := c.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	if err := c.Conclude(context.Background(), res, func() vmtest.Guest { return &fake{} }, nil); err != nil {
		t.Fatal(err)
	}
	for _, k := range res.Conclusions {
		calls++
		if d := cmp.Diff([]string{"host.wake"}, k.Tested); d != "" || !k.Holds {
			t.Errorf("%s: holds %v; tested: %s", k.ID, k.Holds, d)
		}
	}
	if calls == 0 {
		t.Error("no conclusions")
	}
}

func TestInterruptedRunIsKept(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	res, err := config(t, &fake{stop: stop}).Run(ctx)
	if !errors.Is(err, context.Canceled) || !res.Interrupted || len(res.Runs) != 2 {
		t.Errorf("error %v, interrupted %v, %d runs; want two runs, the second cut short", err, res.Interrupted, len(res.Runs))
	}
}

func TestFailedRunIsNamed(t *testing.T) {
	res, err := config(t, &fake{failAt: "6.12"}).Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), "6.12-napi-1q") || res.Interrupted || len(res.Runs) != 4 {
		t.Errorf("error %v with %d runs", err, len(res.Runs))
	}
}

func TestCheckComesBeforeTheFirstRun(t *testing.T) {
	c := config(t, &fake{}, vmtest.Setting{Key: "kernel", Value: "3.8,2.4"})
	if err := c.Check(); !errors.Is(err, runner.ErrScenario) || !strings.Contains(err.Error(), "2.4") {
		t.Errorf("error %v", err)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
