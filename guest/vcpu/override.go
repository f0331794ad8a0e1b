package vcpu

import (
	"maps"
	"time"
)

// With returns a copy of the table in which one operation costs d, as a
// scenario sets it.
func (t *Table) With(op Op, d time.Duration, note string) *Table {
	c := *t
	c.entries[op] = Entry{Name: op.String(), Picos: int64(d) * 1000, Source: Defined, Note: note}
	return &c
}

// Based returns a copy of the table under another name in which some operations
// cost what entries say, such as those that were measured on a machine.
func (t *Table) Based(name, about string, entries map[Op]Entry) *Table {
	c := *t
	c.name, c.about = name, about
	for op, e := range maps.All(entries) {
		e.Name = op.String()
		c.entries[op] = e
	}
	return &c
}
