package vcpu

// The built-in tables. A new one is a new row here; the tests hold every table
// to an entry, a kind and a note per operation.
var tables = []*Table{freeTable(), umlTable(), kvmTable(), kvm2013Table(), tcgTable()}

// row is an entry under construction.
type row struct {
	op    Op
	picos int64
	kind  Kind
	note  string
}

const ns = 1000 // picoseconds

// build makes a table of rows, which must name every operation once. Waiting
// for a lock costs the time waited in every table.
func build(name, about string, rows []row) *Table {
	t := &Table{name: name, about: about}
	rows = append(rows, row{OpTxLock, 1 * ns, Defined, "a nanosecond waited is a nanosecond"})
	for _, r := range rows {
		if t.entries[r.op].Note != "" {
			panic("vcpu: table " + name + " has two costs for " + r.op.String())
		}
		t.entries[r.op] = Entry{Name: r.op.String(), Picos: r.picos, Source: r.kind, Note: r.note}
	}
	for op := range NumOps {
		if t.entries[op].Note == "" {
			panic("vcpu: table " + name + " has no cost for " + op.String())
		}
	}
	return t
}

// freeRows charge nothing for anything but what is in except.
func freeRows(except Op, note string) []row {
	var rows []row
	for op := range NumOps {
		if op != OpTxLock && op != except {
			rows = append(rows, row{op, 0, Defined, note})
		}
	}
	return rows
}

func freeTable() *Table {
	return build("free", "a guest whose CPU work takes no time",
		freeRows(NumOps, "free by construction"))
}

func umlTable() *Table {
	rows := freeRows(OpClockRead, "free, as CPU work is for a UML guest in time-travel mode")
	rows = append(rows, row{OpClockRead, 256 * ns, Measured,
		"UML 6.1.192 and 6.12.117 with time-travel=ext: every clock read in process context moves virtual time by 256 ns (x86_64, 2026, traces of real kernels)"})
	t := build("uml", "the guest of a UML kernel in virtual time: free but for reading the clock", rows)
	t.clockInProcess, t.quantum = true, 256
	return t
}
