package simguest

import (
	"context"
	"io"
	"runtime"
	"time"

	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Config describes the guest beside its scenarios. The zero value is complete.
type Config struct{}

// Guest runs scenarios in the simulator. It is safe for concurrent use: every
// Run has a world of its own.
type Guest struct{}

var _ vmtest.Modelled = (*Guest)(nil)

// New returns a simulated guest.
func New(Config) *Guest { return &Guest{} }

// Name is sim.
func (*Guest) Name() string { return "sim" }

// Kernels lists the modelled releases, the newest default first.
func (*Guest) Kernels() []string {
	out := []string{vmtest.Default().Kernel}
	for _, k := range tcp.Releases() {
		if k != out[0] {
			out = append(out, k)
		}
	}
	return out
}

// Environment describes the program; a simulated run does not depend on it.
func (*Guest) Environment() vmtest.Environment {
	return vmtest.Environment{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()}
}

// Check builds the scenario's world and runs nothing.
func (*Guest) Check(s vmtest.Scenario) error {
	if err := s.Validate(); err != nil {
		return err
	}
	_, err := newWorld(s, nil, nil, nil)
	return err
}

// Costs lists every cost that a run of the scenario is charged by.
func (*Guest) Costs(s vmtest.Scenario) ([]vmtest.Cost, error) {
	m, err := newCostModel(&s, nil)
	if err != nil {
		return nil, err
	}
	return m.list(), nil
}

// slice is how much virtual time passes between two looks at the context.
const slice = vtime.Time(200 * time.Microsecond)

// seriesPoints is how many samples a run's time series has.
const seriesPoints = 20

// Run runs the scenario in virtual time. When ctx ends, it returns what was
// measured until then, with ctx's error.
func (*Guest) Run(ctx context.Context, s vmtest.Scenario, o vmtest.Options) (*vmtest.Run, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	w, err := newWorld(s, o.Scale, o.Trace, o.Observer)
	if err != nil {
		return nil, err
	}
	warm := vtime.Time(s.WarmUp)
	if err := w.advance(ctx, "warm-up", 0, warm, o.Progress); err != nil {
		from := w.snapshot()
		return w.run(from, from), err
	}
	for _, k := range w.conns {
		k.cwnd.reset()
		k.ask.times = k.ask.times[:0]
	}
	w.rec.lens = w.rec.lens[:0]
	r, err := w.measure(ctx, warm, o.Progress)
	if cerr := w.rec.close(); err == nil {
		err = cerr
	}
	return r, err
}

// measure runs the measured time and takes samples on the way.
func (w *world) measure(ctx context.Context, warm vtime.Time, progress func(vmtest.Progress)) (*vmtest.Run, error) {
	from := w.snapshot()
	last := from
	if w.s.Duration == 0 {
		return w.untilDone(ctx, from, progress)
	}
	end := warm.Add(w.s.Duration)
	var series []vmtest.Sample
	var err error
	for i := 1; i <= seriesPoints && err == nil; i++ {
		at := warm.Add(w.s.Duration * time.Duration(i) / seriesPoints)
		err = w.advance(ctx, "measure", warm, min(at, end), progress)
		now := w.snapshot()
		series = append(series, sample(&last, &now))
		last = now
	}
	r := w.run(from, last)
	r.Series = series
	if w.s.Drain && err == nil {
		err = w.drain(ctx, progress)
		hash := w.rec.hash.Hex()
		r.TraceHash = &hash
	}
	return r, err
}

// maxUntilDone bounds a run that its flows' bytes end.
const maxUntilDone = vtime.Time(1000 * time.Second)

// untilDone runs until every flow's bytes have arrived.
func (w *world) untilDone(ctx context.Context, from snapshot, progress func(vmtest.Progress)) (*vmtest.Run, error) {
	err := w.drain(ctx, progress)
	return w.run(from, w.snapshot()), err
}

// drain runs until every program has ended and all it wrote has arrived.
func (w *world) drain(ctx context.Context, progress func(vmtest.Progress)) (err error) {
	for start := w.loop.Now(); err == nil && !w.finished() && w.loop.Next() < maxUntilDone; {
		err = w.advance(ctx, "drain", start, w.loop.Now()+slice, progress)
	}
	return err
}

func (w *world) finished() bool {
	for _, k := range w.conns {
		if !k.drained() {
			return false
		}
	}
	return true
}

func sample(from, to *snapshot) vmtest.Sample {
	s := vmtest.Sample{TNs: int64(to.at)}
	for i := range to.tx {
		s.Bytes += int64(to.tx[i].PayloadBytes - from.tx[i].PayloadBytes)
		s.Packets += int64(to.tx[i].DataPackets - from.tx[i].DataPackets)
		s.Kicks += int64(to.tx[i].Kicks - from.tx[i].Kicks)
		s.TxCalls += int64(to.tx[i].Calls - from.tx[i].Calls)
		s.RxCalls += int64(to.rx[i].Calls - from.rx[i].Calls)
	}
	return s
}

// advance runs the loop until t, looking at the context now and then.
func (w *world) advance(ctx context.Context, phase string, since, t vtime.Time, progress func(vmtest.Progress)) error {
	for w.loop.Now() < t {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.loop.RunUntil(min(t, w.loop.Now()+slice))
		if w.fail != nil {
			return w.fail
		}
		if progress != nil {
			total := w.s.Duration
			if since == 0 {
				total = w.s.WarmUp
			}
			progress(vmtest.Progress{Phase: phase, Done: w.loop.Now().Sub(since), Total: total})
		}
	}
	return nil
}

// close ends the trace.
func (r *recorder) close() error {
	if r.out == nil {
		return nil
	}
	return r.out.Close()
}

var _ io.Closer = (*vmtest.TraceWriter)(nil)
