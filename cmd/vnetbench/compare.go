package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/progress"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/sidebyside"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
	"github.com/vnetbench/vnetbench/vmtest/trace"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

// compareCmd runs a scenario on a real kernel and on its model, or on two real
// kernels, and lays the packets side by side; or, with a guest in real time, the
// counters.
type compareCmd struct {
	Scenario string   `arg:"" optional:"" default:"mq-small-packets" help:"A named scenario (see list), or a TOML file: a path with a / or .toml. Or a result: a file that ends in .json."`
	Results  []string `arg:"" optional:"" help:"More results, to be laid beside the first."`
	Guests   []string `default:"sim,uml" help:"sim,uml: the model against the real kernel. uml: the first kernel against each other one. sim,qemu: the model against a real guest, by the counters of several runs."`
	Runs     int      `default:"5" placeholder:"N" help:"For sim,qemu: how often each guest makes every run."`
	Out      string   `placeholder:"DIR" help:"For sim,qemu: keep the results there; the same command goes on with what is missing."`
	Kernel   string   `placeholder:"K" help:"Kernels, by comma: 6.12, 6.1 or PATH."`
	Set      []string `sep:"none" placeholder:"KEY=VALUE" help:"Set a key of the scenario, as for run. May be repeated."`
	Seed     *uint64  `placeholder:"N" help:"Seed of every random choice."`
	Format   string   `enum:"text,json" default:"text" help:"text or json."`
	Brief    bool     `help:"Without the counters; of guests whose counters are compared, only where they disagree."`
	SVG      string   `name:"svg" placeholder:"DIR" help:"Draw each pair into a file there."`
	Least    float64  `placeholder:"PERCENT" help:"Fail if a pair has a smaller share of packets of equal length."`
}

// Run is the command.
func (c *compareCmd) Run(s *streams) error {
	if strings.HasSuffix(c.Scenario, ".json") {
		return c.results(s, append([]string{c.Scenario}, c.Results...))
	}
	if len(c.Results) > 0 {
		return usage(fmt.Errorf("%q: only results, files that end in .json, are compared with each other", c.Results[0]))
	}
	if slices.Equal(slices.Sorted(slices.Values(c.Guests)), []string{"qemu", "sim"}) {
		return c.agree(s)
	}
	runs, err := c.plan()
	if err != nil {
		return usage(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	line := progress.New(s.err)
	defer line.Clear()
	pairs, err := c.pairs(ctx, runs, func(n int) { line.Show("run %d of %d, %s", n+1, len(runs), runs[n].Label) })
	line.Clear()
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return statusOf(err)
	}
	if err := c.draw(pairs); err != nil {
		return usage(err)
	}
	write := sidebyside.Text
	if c.Brief {
		write = sidebyside.Brief
	}
	if c.Format == "json" {
		write = sidebyside.JSON
	}
	if err := write(s.out, pairs); err != nil {
		return err
	}
	return c.judge(pairs)
}

// results lays the counters of results beside each other.
func (c *compareCmd) results(s *streams, files []string) error {
	if len(files) < 2 {
		return usage(fmt.Errorf("%s: a result is compared with another; name two files", files[0]))
	}
	var all []*vmtest.Result
	for _, f := range files {
		r, err := readResult(f)
		if err != nil {
			return usage(err)
		}
		all = append(all, r)
	}
	if !c.Brief {
		if err := sidebyside.Results(s.out, files, all); err != nil {
			return err
		}
	}
	return sidebyside.Agreement(s.out, all, c.Brief)
}

// plan is what the real guest runs, with the packets seen at the host.
func (c *compareCmd) plan() ([]vmtest.PlannedRun, error) {
	guests := slices.Sorted(slices.Values(c.Guests))
	if !slices.Equal(guests, []string{"sim", "uml"}) && !slices.Equal(guests, []string{"uml"}) {
		return nil, fmt.Errorf("--guests: %q; packets can be compared of sim,uml and of uml alone, in virtual time, and counters of sim,qemu", strings.Join(c.Guests, ","))
	}
	run := runCmd{Set: c.Set, Seed: c.Seed, Kernel: c.Kernel}
	settings, err := run.settings()
	if err != nil {
		return nil, err
	}
	plan, err := planFor(c.Scenario, settings)
	if err != nil {
		return nil, err
	}
	plan.Fit(umlguest.New(umlguest.Config{}))
	runs, err := plan.Runs()
	if err != nil {
		return nil, err
	}
	for i := range runs {
		if runs[i].Scenario.Trace.At = "host"; runs[i].Scenario.Topology == vmtest.TopologyVeth {
			runs[i].Scenario.Trace.At = "qdisc"
		}
		if err := umlguest.New(umlguest.Config{}).Check(runs[i].Scenario); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

func (c *compareCmd) pairs(ctx context.Context, runs []vmtest.PlannedRun, progress func(int)) ([]sidebyside.Pair, error) {
	var pairs []sidebyside.Pair
	first := map[string]sidebyside.Side{} // of each scenario, whatever its kernel
	for i, r := range runs {
		progress(i)
		real, err := side(ctx, umlguest.New(umlguest.Config{}), r.Scenario, "uml")
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", r.Label, err)
		}
		if len(c.Guests) == 1 {
			key := strings.Trim(strings.Replace(r.Label, vmtest.FileSafe(r.Scenario.Kernel), "", 1), "-") // a plan's case comes first
			real.Guest = r.Scenario.Kernel
			if truth, ok := first[key]; ok {
				pairs = append(pairs, sidebyside.New(strings.ReplaceAll(key, "--", "-"), truth, real))
			} else {
				first[key] = real
			}
			continue
		}
		model, err := bestModel(ctx, r.Scenario, real)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", r.Label, err)
		}
		pairs = append(pairs, sidebyside.New(r.Label, real, model))
	}
	if len(pairs) == 0 {
		return nil, usage(errors.New("--guests uml compares kernels with the first one; name two with --kernel, such as 6.12,PATH"))
	}
	return pairs, nil
}

// side runs a scenario with its trace.
func side(ctx context.Context, g vmtest.Guest, s vmtest.Scenario, name string) (sidebyside.Side, error) {
	var out bytes.Buffer
	r, err := g.Run(ctx, s, vmtest.Options{Trace: &out})
	if err != nil {
		return sidebyside.Side{}, err
	}
	t, err := trace.Read(name, &out)
	return sidebyside.Side{Guest: name, Run: r, Trace: t}, err
}

// bestModel runs the model on what the real kernel ran. BBR's first phase is a lot
// that the kernel drew: the one that fits best is taken.
func bestModel(ctx context.Context, s vmtest.Scenario, real sidebyside.Side) (best sidebyside.Side, err error) {
	var queues []int
	for _, f := range real.Run.Flows {
		queues = append(queues, f.Queue)
	}
	m := umlguest.Model(s, queues, real.Run.ClockPhase)
	inOrder(&m, real.Trace)
	phases := 0
	for i := range m.Flows {
		if m.Flow(i).CC == "bbr" {
			phases = 7
		}
	}
	most := -1
	for phase := min(phases, 1); phase <= phases; phase++ {
		m.BBRPhase = phase
		model, err := side(ctx, simguest.New(simguest.Config{}), m, "sim")
		if err != nil {
			return best, err
		}
		if n := trace.Compare(real.Trace, model.Trace).EqualLen; n > most {
			best, most = model, n
		}
	}
	return best, nil
}

// inOrder has the model's programs that start together connect in the order in
// which the real guest's scheduler let them: a nanosecond apart.
func inOrder(m *vmtest.Scenario, real *trace.Trace) {
	rank := 0
	for _, flow := range real.SYNs() {
		if flow < len(m.PerFlow) {
			m.PerFlow[flow].Start += time.Duration(rank)
			rank++
		}
	}
}

func (c *compareCmd) draw(pairs []sidebyside.Pair) error {
	if c.SVG == "" {
		return nil
	}
	for _, p := range pairs {
		if err := drawTo(filepath.Join(c.SVG, vmtest.FileSafe(p.Label)+".svg"), p.Report); err != nil {
			return err
		}
	}
	return nil
}

// judge fails if a pair is below the least share.
func (c *compareCmd) judge(pairs []sidebyside.Pair) error {
	for _, p := range pairs {
		if share := 100 * float64(p.Report.EqualLen) / float64(max(p.Report.Packets, 1)); share < c.Least {
			return fmt.Errorf("%s: %.2f %% of packets have equal length, want %.2f %%", p.Label, share, c.Least)
		}
	}
	return nil
}
