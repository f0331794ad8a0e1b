package vmtest

import (
	"context"
	"io"
	"time"

	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// Guest runs scenarios on one kind of guest. Implementations are safe for use
// by one goroutine at a time.
type Guest interface {
	// Name is sim, uml or qemu.
	Name() string
	// Kernels lists the kernels that the guest can run, the default first.
	Kernels() []string
	// Check says what of the scenario this guest cannot do; an error names
	// the key and what would be right.
	Check(Scenario) error
	// Run runs the scenario to its end, or until ctx ends: then it returns
	// what was measured so far together with ctx's error. It leaves no
	// process, socket, tap or network namespace behind.
	Run(ctx context.Context, s Scenario, o Options) (*Run, error)
	// Environment describes where the guest runs.
	Environment() Environment
}

// Options are what a Run may be given beside the scenario.
type Options struct {
	Trace    io.Writer      // packets as they pass Scenario.Trace.At; nil: none
	Progress func(Progress) // called now and then, from the goroutine of Run; may be nil
	Log      io.Writer      // the guest's console and the harness's words; nil: none

	// Observer sees the frames on both sides of the device, of the first guest
	// that sends if there are several. Nil: nobody. TopologyVeth has no device.
	Observer netdev.Observer

	// Scale multiplies costs of a Modelled guest, by Cost.Name; other guests
	// ignore it. A name that the scenario does not use is an error.
	Scale map[string]float64
}

// Progress is how far a run is.
type Progress struct {
	Phase string        // boot, warm-up, measure, ...
	Done  time.Duration // of the guest's time, in this phase
	Total time.Duration
}
