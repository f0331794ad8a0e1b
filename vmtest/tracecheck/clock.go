package tracecheck

import (
	"context"
	"fmt"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/trace"
)

// clockStep is the step of a UML guest's clock in nanoseconds: how far its time is
// past a step when the trace begins has so many values.
const clockStep = 256

// Rounds of fitClock: the part of the run that is looked at, and how many phases
// may be left after it.
var clockRounds = []struct{ part, keep int }{{16, clockStep}, {4, 16}, {1, 1}}

// fitClock tries every phase of the guest's clock, which comes from what the guest
// did while it booted and which no header tells. It compares the beginning of the
// run first, keeps what agrees most, and then looks at more.
// best is the report of the usual phase, which stays if no other is better.
func fitClock(ctx context.Context, h *trace.Header, truth *trace.Trace, best *trace.Report) (*trace.Report, error) {
	s, x, err := trace.ScenarioOf(h)
	if err != nil || x == nil {
		return best, err
	}
	s = x.Complete(s)
	s.Trace.Rules = true
	phases := make([]int, clockStep)
	for i := range phases {
		phases[i] = i
	}
	var reports []*trace.Report
	for _, round := range clockRounds {
		if phases, reports, err = clockRound(ctx, s, h.Name, truth, phases, round.part); err != nil {
			return nil, err
		}
		phases = phases[:min(len(phases), round.keep)]
	}
	if r := reports[0]; r.EqualLen > best.EqualLen {
		r.Variant = fmt.Sprintf("clock %d ns", phases[0])
		return r, nil
	}
	return best, nil
}

// agreement grows with every packet of equal length, at nearly and at just the same
// time.
func agreement(r *trace.Report) int { return r.EqualLen + r.Within + r.EqualTime }

// clockRound runs a part of the scenario with each phase. It returns the phases
// that agree most, and their reports.
func clockRound(ctx context.Context, s vmtest.Scenario, name string, truth *trace.Trace, phases []int, part int) (kept []int, reports []*trace.Report, err error) {
	s.Duration /= time.Duration(part)
	for _, phase := range phases {
		s.ClockPhase = phase
		m, err := run(ctx, s, name)
		if err != nil {
			return nil, nil, err
		}
		r := trace.Compare(truth, m)
		if len(reports) > 0 && agreement(r) < agreement(reports[0]) {
			continue
		}
		if len(reports) > 0 && agreement(r) > agreement(reports[0]) {
			kept, reports = kept[:0], reports[:0]
		}
		kept, reports = append(kept, phase), append(reports, r)
	}
	return kept, reports, nil
}
