package vcpu

import "time"

// With returns a copy of the table in which one operation costs d, as a
// scenario sets it.
func (t *Table) With(op Op, d time.Duration, note string) *Table {
	c := *t
	c.entries[op] = Entry{Name: op.String(), Picos: int64(d) * 1000, Source: Defined, Note: note}
	return &c
}
