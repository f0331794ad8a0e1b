package bench

import (
	"sync/atomic"
	"time"

	"github.com/vnetbench/vnetbench/vhost/osio"
)

// rounds is how often a cache line goes to and fro.
const rounds = 10_000

// pingPong returns the nanoseconds in which a cache line goes from one CPU to the
// other and back.
func pingPong(cpus [2]int) (ns float64, err error) {
	var line struct {
		_ [64]byte
		n atomic.Uint32
		_ [64]byte
	}
	other := make(chan error, 1)
	go onCPU(cpus[1], other, func() {
		for i := uint32(1); i < 2*rounds; i += 2 {
			await(&line.n, i)
			line.n.Store(i + 1)
		}
	})
	mine := make(chan error, 1)
	go onCPU(cpus[0], mine, func() {
		start := time.Now()
		for i := uint32(0); i < 2*rounds; i += 2 {
			line.n.Store(i + 1)
			await(&line.n, i+2)
		}
		ns = float64(time.Since(start)) / rounds
	})
	if err := <-mine; err != nil {
		return 0, err
	}
	return ns, <-other
}

func await(n *atomic.Uint32, want uint32) {
	for n.Load() != want {
	}
}

// onCPU runs f on a thread that is bound to a CPU. The thread stays: one that ends
// takes the processes along that it has started.
func onCPU(cpu int, done chan<- error, f func()) { done <- osio.OnCPU(cpu, f) }
