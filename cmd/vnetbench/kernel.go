package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/progress"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

// kernelCmd holds the commands over kernels of the guest uml.
type kernelCmd struct {
	Build kernelBuildCmd `cmd:"" help:"Build a kernel from the distribution's source package, if it is not there already, and print its path."`
}

// kernelBuildCmd builds one kernel or several.
type kernelBuildCmd struct {
	Kernel []string `arg:"" optional:"" default:"6.12" help:"6.12 or 6.1."`
}

// Run is the command.
func (c *kernelBuildCmd) Run(s *streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, name := range c.Kernel {
		line := progress.New(s.err)
		path, err := umlguest.BuildKernel(ctx, name, func(p umlguest.BuildProgress) { line.Show("kernel %s: %s", name, buildStep(p)) })
		line.Clear()
		if ctx.Err() != nil {
			return errInterrupted
		}
		if err != nil {
			return statusOf(err)
		}
		if _, err := fmt.Fprintln(s.out, path); err != nil {
			return err
		}
	}
	return nil
}

// buildStep says how far a build is.
func buildStep(p umlguest.BuildProgress) string {
	if p.Total == 0 {
		return p.Phase
	}
	return fmt.Sprintf("%s %d of about %d files", p.Phase, p.Done, p.Total)
}
