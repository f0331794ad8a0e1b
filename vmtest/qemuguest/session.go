package qemuguest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// Errors of a run.
var (
	// ErrGuest says that the guest failed: it did not come up, gave up with a
	// reason of its own, or ended early.
	ErrGuest = errors.New("guest")
	// ErrLost says that bytes that the guest's programs wrote did not arrive.
	ErrLost = errors.New("bytes lost")
)

// Patience with a guest. Emulated machines on a loaded host are slow.
const (
	bootPatience  = 120 * time.Second // until it says hello
	phasePatience = 60 * time.Second  // between two messages, beyond what a phase takes
	stopPatience  = 15 * time.Second  // from stop to the result
	endPatience   = 5 * time.Second   // from the result to the end of QEMU
	stillPatience = 5 * time.Second   // for the device's counters to stand still
)

// point is what both sides counted at one quiet moment.
type point struct {
	guest    *proto.Snapshot
	device   []queueCount
	received []int64
	cpu      time.Duration // that this process had used, after the start and before the end
}

// device is what a session asks of the device: the counters of every data ring,
// RX and TX of each pair in turn, and why its connection ended by itself.
type device interface {
	counters() []queueCount
	failure() <-chan error
}

// lastWordsPatience is for what a guest has said when the device's connection
// ends; a test shortens it.
var lastWordsPatience = 5 * time.Second

// lostPatience is for bytes on their way to the receiver; a test shortens it.
var lostPatience = 5 * time.Second

// session is a run from the guest's first word to its last.
type session struct {
	scenario *vmtest.Scenario
	options  *vmtest.Options
	recv     *receiver
	back     device
	vm       *machine

	hello   proto.Message
	pending *point // of the last quiet message
	start   *point
	end     *point
	report  *proto.Report
	stopped bool
	broken  error     // why the device's connection ended by itself
	started time.Time // of the measured time, by our clock
	series  []vmtest.Sample
	sampled []queueCount // at the last sample
}

// run talks to the guest until it has reported. The context's end makes it stop
// the guest and take what there is.
func (s *session) run(ctx context.Context) error {
	done := ctx.Done()
	timer := time.NewTimer(bootPatience)
	defer timer.Stop()
	tick := time.NewTicker(seriesEvery(s.scenario.Duration))
	defer tick.Stop()
	failed := s.back.failure()
	for s.report == nil {
		select {
		case <-tick.C:
			s.sample()
		case msg, ok := <-s.vm.messages:
			if !ok {
				return s.gone(ctx)
			}
			if err := s.handle(msg); err != nil {
				return err
			}
			timer.Reset(s.patience())
		case s.broken = <-failed:
			// A machine that goes off takes its front-end with it, while the
			// guest's last words may be on their way.
			failed = nil
			timer.Reset(s.patience())
		case <-done:
			done = nil
			if s.start == nil {
				return ctx.Err()
			}
			s.stopped = true
			_ = s.vm.send(proto.Message{Kind: proto.Stop})
			timer.Reset(stopPatience)
		case <-timer.C:
			return s.late(ctx)
		}
	}
	return ctx.Err()
}

// patience is how long the guest may take until its next word.
func (s *session) patience() time.Duration {
	switch {
	case s.broken != nil:
		return lastWordsPatience
	case s.stopped:
		return stopPatience
	}
	return phasePatience + max(s.scenario.WarmUp, s.scenario.Duration)
}

func (s *session) late(ctx context.Context) error {
	if err := cmp.Or(ctx.Err(), s.failure()); err != nil {
		return err
	}
	what := "fell silent"
	if s.hello.Kind == "" {
		what = fmt.Sprintf("did not come up within %v", bootPatience)
	}
	return fmt.Errorf("%w %s; console: %s", ErrGuest, what, s.vm.console.last(5))
}

// failure is why the device's connection ended, if it did.
func (s *session) failure() error {
	if s.broken == nil {
		return nil
	}
	return fmt.Errorf("device: %w; console: %s", s.broken, s.vm.console.last(5))
}

func (s *session) gone(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.vm.ended:
	case <-time.After(endPatience):
	}
	return fmt.Errorf("%w ended early; console: %s", ErrGuest, s.vm.console.last(5))
}

// handle does what a message of the guest asks for.
func (s *session) handle(m proto.Message) error {
	switch m.Kind {
	case proto.Hello:
		s.hello = m
		s.progress("set-up", 0, 0)
	case proto.Ready:
		return s.vm.send(proto.Message{Kind: proto.Go})
	case proto.Progress:
		s.progress(m.Text, m.Done, m.Total)
	case proto.Quiet:
		return s.quiet(m)
	case proto.Agreed:
		return s.agreed(m)
	case proto.Result:
		if m.Report == nil {
			return fmt.Errorf("%w: a result without a report", ErrGuest)
		}
		s.report = m.Report
	case proto.Error:
		return fmt.Errorf("%w: %s", ErrGuest, m.Text)
	default:
		return fmt.Errorf("%w said %q, which no guest says", ErrGuest, m.Kind)
	}
	return nil
}

func (s *session) progress(phase string, done, total time.Duration) {
	if s.options.Progress != nil {
		s.options.Progress(vmtest.Progress{Phase: phase, Done: done, Total: total})
	}
}

// quiet takes the device's counters while the guest keeps still.
func (s *session) quiet(m proto.Message) error {
	if m.Snapshot == nil {
		return fmt.Errorf("%w: quiet without a snapshot", ErrGuest)
	}
	used := ownCPU()
	received, err := s.arrived(m.Snapshot.Written)
	if err != nil {
		return fmt.Errorf("at the %s: %w", m.At, err)
	}
	counts, err := s.still()
	if err != nil {
		return fmt.Errorf("at the %s: %w", m.At, err)
	}
	s.pending = &point{guest: m.Snapshot, device: counts, received: received, cpu: used}
	return s.vm.send(proto.Message{Kind: proto.Seen})
}

// agreed makes the last quiet moment the one of the measurement.
func (s *session) agreed(m proto.Message) error {
	if s.pending == nil {
		return fmt.Errorf("%w: agreed to nothing", ErrGuest)
	}
	if m.At == proto.AtStart {
		s.pending.cpu = ownCPU()
		s.start, s.started, s.sampled = s.pending, time.Now(), s.pending.device
	} else {
		s.end = s.pending
	}
	s.pending = nil
	return nil
}

// arrived waits until the receiver has read what the guest's flows have
// written, and returns what it has read.
func (s *session) arrived(written []int64) ([]int64, error) {
	deadline := time.Now().Add(lostPatience)
	for {
		got := s.recv.received()
		missing := -1
		for i, n := range written {
			if i >= len(got) || got[i] != n {
				missing = i
				break
			}
		}
		if missing < 0 {
			return got, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: flow %d wrote %d, %d arrived", ErrLost, missing, written[missing], before(got, missing))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// still returns the device's counters once two looks at them agree.
func (s *session) still() ([]queueCount, error) {
	deadline := time.Now().Add(stillPatience)
	last := s.back.counters()
	for {
		time.Sleep(10 * time.Millisecond)
		now := s.back.counters()
		if slices.Equal(kicksOf(last), kicksOf(now)) {
			return now, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: the device's counters do not come to rest", ErrGuest)
		}
		last = now
	}
}

// ownCPU is the CPU time that this process has used, in user and kernel mode.
func ownCPU() time.Duration {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
