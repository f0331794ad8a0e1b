package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

// cli is the command line: a field for each command.
type cli struct {
	Run       runCmd       `cmd:"" help:"Run a scenario and report what the device met."`
	Serve     serveCmd     `cmd:"" help:"Be a vhost-user net device for a virtual machine monitor."`
	List      listCmd      `cmd:"" help:"List the scenarios, or what else can be named."`
	Doctor    doctorCmd    `cmd:"" help:"Say what of QEMU, KVM, kernels and taps is here, and how to get the rest."`
	Compare   compareCmd   `cmd:"" help:"Run a scenario on a real kernel in virtual time and on its model, and compare the packets."`
	Kernel    kernelCmd    `cmd:"" help:"Build a Linux kernel that runs in user mode and virtual time, for --guest uml."`
	Trace     traceCmd     `cmd:"" help:"Show and compare packet traces, and hold the model against those of real kernels."`
	Sweep     sweepCmd     `cmd:"" help:"Run a matrix of scenarios, side by side; resumable, and in shards."`
	Merge     mergeCmd     `cmd:"" help:"Join the shards of a sweep."`
	Plot      plotCmd      `cmd:"" help:"Draw a result, or a sweep."`
	Explain   explainCmd   `cmd:"" help:"Say what a result means, and what would change it."`
	Calibrate calibrateCmd `cmd:"" help:"Measure what the cost tables need on this machine."`
	Bench     benchCmd     `cmd:"" help:"Measure our own parts beside those of others."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
}

const description = "Measure a multi-queue virtio-net device under a guest's TCP, simulated or real. " +
	"Exit status: 0 done, 1 a run or check failed, 2 usage or environment, 130 interrupted."

// streams are where a command writes: results to out, all else to err.
type streams struct {
	out, err *os.File
}

// execute runs the command line and returns the exit status.
func execute(args []string, out, errs *os.File) int {
	var c cli
	parser, err := kong.New(&c, kong.Name("vnetbench"), kong.Description(description),
		kong.Writers(out, errs), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}))
	if err != nil {
		panic(fmt.Sprintf("vnetbench: the command line's own description is wrong: %v", err))
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		return complain(errs, usage(err))
	}
	return complain(errs, ctx.Run(&streams{out, errs}))
}

// Exit statuses.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// statusError is an error with the exit status that it leads to.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// usage marks an error as one of usage or environment.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{exitUsage, err}
}

// errInterrupted ends a command after Ctrl-C, when all is said.
var errInterrupted = &statusError{exitInterrupted, errors.New("interrupted")}

// complain prints the error, if there is one, and returns the exit status.
func complain(w *os.File, err error) int {
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(w, "vnetbench: %v\n", err)
	var s *statusError
	if errors.As(err, &s) {
		return s.status
	}
	return exitFailed
}
