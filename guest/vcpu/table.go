package vcpu

import (
	"errors"
	"fmt"
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Kind says how far a cost can be trusted.
type Kind uint8

// The kinds of evidence behind a cost.
const (
	Assumed  Kind = iota // an estimate; conclusions must survive halving and doubling it
	Sourced              // a published figure, or plain arithmetic on one
	Measured             // measured by us: the note names machine, date and command
	Defined              // true by construction, such as a free operation
)

// String is the kind in one word.
func (k Kind) String() string {
	return [...]string{"assumed", "sourced", "measured", "defined"}[k&3]
}

// Entry is the cost of one operation and where it comes from.
type Entry struct {
	Name   string // of the operation
	Picos  int64  // picoseconds of CPU time per unit; the unit is the operation's
	Source Kind
	Note   string // which publication, which measurement, or why this estimate
}

// Table says what every operation costs. It is immutable once made; Scaled
// returns a changed copy. Any number of CPUs may share it.
type Table struct {
	name    string
	about   string
	entries [NumOps]Entry
	// clockInProcess limits OpClockRead to process context, as the virtual
	// clock of a UML guest in time-travel mode does.
	clockInProcess bool
	// quantum is the step of the guest's clock: a reading is rounded down to it.
	// 0 is a clock of single nanoseconds.
	quantum vtime.Time
}

// ErrNoCost is returned for a table that says nothing about an operation.
var ErrNoCost = errors.New("no cost")

// NewTable returns a table called name, about being one sentence on what it stands
// for. Every operation needs an entry; the first without is named by the error,
// which wraps ErrNoCost. clockStep is the step of the guest's clock: 0 is a clock of
// single nanoseconds, and with another a reading costs OpClockRead in process
// context only, as the virtual clock of a UML guest in time-travel mode does.
func NewTable(name, about string, clockStep time.Duration, entries map[Op]Entry) (*Table, error) {
	t := &Table{name: name, about: about, quantum: vtime.Time(clockStep), clockInProcess: clockStep > 0}
	for op := range NumOps {
		e, ok := entries[op]
		if !ok {
			return nil, fmt.Errorf("table %s: %w for %v", name, ErrNoCost, op)
		}
		e.Name = op.String()
		t.entries[op] = e
	}
	return t, nil
}

// Name returns what scenarios call the table; a scaled table's name says so.
func (t *Table) Name() string { return t.name }

// About returns one sentence on what the table stands for.
func (t *Table) About() string { return t.about }

// Picos returns the cost of one unit of op in picoseconds.
func (t *Table) Picos(op Op) int64 { return t.entries[op].Picos }

// Cost returns what n units of op cost, rounded down to a nanosecond.
func (t *Table) Cost(op Op, n int64) time.Duration {
	return time.Duration(t.entries[op].Picos * n / 1000)
}

// Entries returns a copy of the table's rows, in the order of the operations.
func (t *Table) Entries() []Entry { return append([]Entry(nil), t.entries[:]...) }

// Assumed returns the operations whose cost is an estimate and not zero: those
// that a sensitivity run halves and doubles.
func (t *Table) Assumed() []Op {
	var ops []Op
	for op := range NumOps {
		if e := &t.entries[op]; e.Source == Assumed && e.Picos != 0 {
			ops = append(ops, op)
		}
	}
	return ops
}

// Reading returns what the guest's clock shows at t.
func (t *Table) Reading(now vtime.Time) vtime.Time {
	if t.quantum == 0 {
		return now
	}
	return now - now%t.quantum
}

// Expiry returns when a timer of the guest that is armed at now for the reading
// at goes off. A guest whose clock has steps programs the difference to its
// clock's reading, at least timerMin and one nanosecond more than that, and
// arms anew if the reading is still short of at when the interrupt comes
// (clockevents_program_event and hrtimer_interrupt, and the timer of ARCH=um,
// v6.1 and v6.12).
func (t *Table) Expiry(now, at vtime.Time) vtime.Time {
	if t.quantum == 0 || at == vtime.Never {
		return at
	}
	for {
		now = t.Programmed(now, at)
		if t.Reading(now) >= at {
			return now
		}
	}
}

// Programmed returns when the interrupt comes of a timer that the guest programs
// at now for the reading at. With a clock that has steps the reading may be short
// of it then.
func (t *Table) Programmed(now, at vtime.Time) vtime.Time {
	if t.quantum == 0 || at == vtime.Never {
		return at
	}
	return now.Add(time.Duration(max(at-t.Reading(now), timerMin)) + 1)
}

// ClockStep returns the step of the guest's clock, 0 for one of single nanoseconds.
func (t *Table) ClockStep() time.Duration { return time.Duration(t.quantum) }

// ClockInProcess reports whether reading the clock takes time in process context,
// and there only.
func (t *Table) ClockInProcess() bool { return t.clockInProcess }

// timerMin is the least time that a timer of ARCH=um is programmed for, in
// nanoseconds (TIMER_MIN_DELTA, arch/um/kernel/time.c, v6.1 and v6.12).
const timerMin = 500

// Scaled returns a copy in which one operation costs num/den of what it does
// here. It panics if den is not positive or num negative: factors are the
// program's own.
func (t *Table) Scaled(op Op, num, den int64) *Table {
	if den <= 0 || num < 0 {
		panic(fmt.Sprintf("vcpu: cost factor %d/%d is not a positive number", num, den))
	}
	c := *t
	e := &c.entries[op]
	e.Picos = e.Picos * num / den
	c.name = fmt.Sprintf("%s, %s x%d/%d", t.name, e.Name, num, den)
	return &c
}
