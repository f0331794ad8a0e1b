package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/progress"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/report"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/runner"
	"github.com/vnetbench/vnetbench/vmtest"
)

// runCmd runs the plan of a scenario on one kind of guest.
type runCmd struct {
	Scenario     string   `arg:"" optional:"" default:"mq-small-packets" help:"A named scenario (see list), or a TOML file: a path with a / or .toml."`
	Guest        string   `enum:"sim,uml,qemu" default:"sim" help:"Kind of guest: sim (simulated), uml (a real Linux in virtual time) or qemu (a real Linux)."`
	Set          []string `sep:"none" placeholder:"KEY=VALUE" help:"Set a key of the scenario (see list --keys); a comma list of values makes several runs. May be repeated."`
	Format       string   `enum:"text,json," default:"" help:"text or json (default: text, or json if --out ends in .json)."`
	Out          string   `placeholder:"FILE" help:"Write the result there and not to standard output."`
	Trace        string   `placeholder:"FILE" help:"Write the packets there; with several runs to FILE.LABEL."`
	Pcap         string   `placeholder:"FILE" help:"Write what passes both sides of the device there, as pcapng with the virtio-net headers; with several runs to FILE.LABEL."`
	Seed         *uint64  `placeholder:"N" help:"Seed of every random choice, like --set seed=N."`
	Kernel       string   `placeholder:"K" help:"Kernel, like --set kernel=K: a named release; for qemu 6.1, 6.12 or VMLINUZ[:MODULES]; for uml 6.1, 6.12 or PATH."`
	Table        bool     `help:"Print the table only, without lines for single queues and without what happened."`
	Explain      bool     `help:"Print the costs and the kernel switches of the runs, and where each is from."`
	Vary         bool     `default:"true" negatable:"" help:"Try the conclusions with each assumed cost halved and doubled."`
	GuestProgram string   `placeholder:"FILE" help:"For qemu: a static binary to run in the guest instead of the sender."`
	QEMU         string   `name:"qemu" placeholder:"PATH" help:"For qemu: the QEMU to use; default: $VNETBENCH_QEMU, or qemu-system-x86_64."`
	Console      string   `placeholder:"FILE" help:"For qemu and uml: write the guest's console there."`
}

// Run is the command: everything that can be refused is refused before the
// first run.
func (c *runCmd) Run(s *streams) error {
	cfg, newGuest, err := c.configure()
	if err != nil {
		return usage(err)
	}
	out, err := openOutput(c.Out, s.out)
	if err != nil {
		return usage(err)
	}
	defer out.discard()
	console, err := c.openConsole()
	if err != nil {
		return usage(err)
	}
	if console != nil {
		defer console.Close()
		cfg.Log = console
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the process at once; but timeout(1) sends its signal to
	// the process and, right behind, to its group.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	res, err := c.measure(ctx, cfg, newGuest, progress.New(s.err))
	return c.finish(ctx, res, err, out, cfg)
}

// configure makes the plan, fits it to the guest and has the guest look at it.
func (c *runCmd) configure() (*runner.Config, func() vmtest.Guest, error) {
	settings, err := c.settings()
	if err != nil {
		return nil, nil, err
	}
	plan, err := planFor(c.Scenario, settings)
	if err != nil {
		return nil, nil, err
	}
	newGuest, err := c.guests()
	if err != nil {
		return nil, nil, err
	}
	guest := newGuest()
	plan.Fit(guest)
	runs, err := plan.Runs()
	if err != nil {
		return nil, nil, err
	}
	if err := c.checkPcap(runs); err != nil {
		return nil, nil, err
	}
	cfg := &runner.Config{Guest: guest, Plan: &plan, Runs: runs,
		Trace: tracer("--trace", c.Trace, len(runs)), Capture: tracer("--pcap", c.Pcap, len(runs)), RealTime: c.Guest == "qemu"}
	return cfg, newGuest, cfg.Check()
}

// checkPcap refuses to capture what has no device.
func (c *runCmd) checkPcap(runs []vmtest.PlannedRun) error {
	for _, r := range runs {
		if c.Pcap != "" && r.Scenario.Topology == vmtest.TopologyVeth {
			return errors.New("--pcap: topology veth has no device to capture at; use topology=virtio, or --trace")
		}
	}
	return nil
}

func (c *runCmd) openConsole() (io.WriteCloser, error) {
	if c.Console == "" {
		return nil, nil
	}
	return os.Create(c.Console)
}

// measure makes the runs and draws the conclusions, with a line that says how
// far it is.
func (c *runCmd) measure(ctx context.Context, cfg *runner.Config, newGuest func() vmtest.Guest, line *progress.Line) (*vmtest.Result, error) {
	defer line.Clear()
	cfg.Progress = func(run int, p vmtest.Progress) {
		line.Show("run %d of %d, %s: %s%s", run+1, len(cfg.Runs), cfg.Runs[run].Label, p.Phase, percent(p))
	}
	res, err := cfg.Run(ctx)
	if err == nil {
		err = cfg.Frontier(ctx, res, newGuest, func(policy string) { line.Show("weighing settings: %s", policy) })
	}
	if c.Table {
		return res, err
	}
	if !c.Vary || err != nil {
		newGuest = nil
	}
	varied := cfg.Conclude(ctx, res, newGuest, func(n, of int) {
		line.Show("trying the conclusions with other costs: %d of %d runs", n, of)
	})
	return res, errors.Join(err, varied)
}

func percent(p vmtest.Progress) string {
	if p.Total <= 0 {
		return ""
	}
	return fmt.Sprintf(" %d %%", 100*p.Done/p.Total)
}

// finish prints what there is, also of runs that were interrupted or failed.
func (c *runCmd) finish(ctx context.Context, res *vmtest.Result, failed error, out *output, cfg *runner.Config) error {
	interrupted := ctx.Err() != nil
	res.Interrupted = res.Interrupted || interrupted
	if failed != nil && !interrupted {
		if len(res.Runs) == 0 {
			return statusOf(failed)
		}
		res.Warnings = append(res.Warnings, "not all runs were made: "+failed.Error())
	}
	if err := c.print(out, res, cfg); err != nil {
		return err
	}
	if err := out.commit(); err != nil {
		return err
	}
	if interrupted {
		return errInterrupted
	}
	return statusOf(failed)
}

func (c *runCmd) print(w io.Writer, res *vmtest.Result, cfg *runner.Config) error {
	if formatFor(c.Format, c.Out) == "json" {
		return report.JSON(w, res)
	}
	if c.Table {
		return errors.Join(report.Table(w, res), report.Frontiers(w, res.Frontiers))
	}
	if err := errors.Join(report.Text(w, res), report.Frontiers(w, res.Frontiers)); err != nil {
		return err
	}
	if !c.Explain {
		return nil
	}
	return explainRuns(w, res, cfg)
}
