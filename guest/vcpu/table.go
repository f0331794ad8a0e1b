package vcpu

import (
	"errors"
	"fmt"
	"time"
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
}

// ErrUnknownTable is returned for a name that no table has.
var ErrUnknownTable = errors.New("unknown guest cost table")

// TableByName returns the table called name, or an error that wraps
// ErrUnknownTable and lists those that exist.
func TableByName(name string) (*Table, error) {
	for _, t := range tables {
		if t.name == name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("%w %q: there are %v", ErrUnknownTable, name, TableNames())
}

// TableNames returns the names of the built-in tables, cheapest guest first.
func TableNames() []string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.name
	}
	return names
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
