package vcpu

import (
	"math/bits"
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Class is the context that work runs in. A lower class goes first.
type Class uint8

// The classes, most urgent first.
const (
	IRQ Class = iota
	SoftIRQ
	Process
	NumClasses
)

// String is the class in one word.
func (c Class) String() string {
	return [...]string{"irq", "softirq", "process", "none"}[c&3]
}

// Task is work for a CPU. Run does it to the end, saying what it does with
// c.Charge; c.Now is the time at which the code would be there. A task must be
// short (a packet, a write, a poll), since nothing interrupts it; longer work
// posts its rest.
type Task interface {
	Run(c *CPU)
}

// Meter takes counts of work. A CPU is one.
type Meter interface {
	Charge(op Op, n int64)
}

// CPU runs one task at a time, the most urgent class first, tasks of a class in
// the order in which they were posted. Its time is that of the task that runs:
// the time at which it started plus the cost of what it has done. It is not
// safe for concurrent use.
//
// Deviation: a real interrupt breaks into process context at once; here it
// waits for the end of the running task, or for its next clock read if the CPU
// has a Preempter. Softirqs that are posted run in the order in which they were
// raised, not in that of their vectors.
type CPU struct {
	// ID is the CPU's number, for queue choice and traces.
	ID int

	table   *Table
	queues  [NumClasses]fifo
	ready   uint8      // classes that have a task, a bit each
	free    vtime.Time // when the last task ended, or the CPU was last woken from idleness
	now     vtime.Time // local time while a task runs
	class   Class      // of the task that runs
	running bool
	rest    int64 // picoseconds charged that did not make a nanosecond yet
	usage   Usage

	kernel Preempter // nil: nothing breaks into a process
	bhOff  int       // bottom halves are disabled so many times
}

// Usage is what a CPU did: counts and nanoseconds since it was made.
type Usage struct {
	Ops  [NumOps]int64             // units of work
	Busy [NumClasses]time.Duration // time in tasks, by class
	Runs [NumClasses]int64         // tasks that ran, by class
}

// Sub returns what was done since the earlier usage u.
func (a Usage) Sub(u Usage) Usage {
	for i := range a.Ops {
		a.Ops[i] -= u.Ops[i]
	}
	for i := range a.Busy {
		a.Busy[i] -= u.Busy[i]
		a.Runs[i] -= u.Runs[i]
	}
	return a
}

// Add returns the sum of two usages, for CPUs taken together.
func (a Usage) Add(u Usage) Usage {
	for i := range a.Ops {
		a.Ops[i] += u.Ops[i]
	}
	for i := range a.Busy {
		a.Busy[i] += u.Busy[i]
		a.Runs[i] += u.Runs[i]
	}
	return a
}

// Total returns the busy time of all classes.
func (a Usage) Total() time.Duration {
	var d time.Duration
	for _, b := range a.Busy {
		d += b
	}
	return d
}

// New returns an idle CPU that charges by table t.
func New(id int, t *Table) *CPU { return &CPU{ID: id, table: t, class: NumClasses} }

// Table returns the table that the CPU charges by.
func (c *CPU) Table() *Table { return c.table }

// Usage returns what the CPU did so far.
func (c *CPU) Usage() Usage { return c.usage }

// Post queues a task that becomes ready at now. From inside a task, now is
// ignored: what a task posts runs after it.
func (c *CPU) Post(now vtime.Time, class Class, t Task) {
	if !c.running && c.idle() {
		c.free = max(c.free, now)
	}
	c.ready |= 1 << class
	c.queues[class].push(t)
}

// Next returns when Step has something to do: the end of the last task if work
// waits, else vtime.Never.
func (c *CPU) Next() vtime.Time {
	if c.idle() {
		return vtime.Never
	}
	return c.free
}

// Step runs the most urgent task, if the CPU is free at now and has one, and
// returns whether it did. Call it from the simulator's loop only: it must not
// be called from inside a task.
func (c *CPU) Step(now vtime.Time) bool {
	if c.running || now < c.free {
		return false
	}
	class, ok := c.pick()
	if !ok {
		return false
	}
	c.running, c.class, c.now = true, class, now
	c.take(class).Run(c)
	if c.now != now {
		c.usage.Busy[class] += c.now.Sub(now)
	}
	c.usage.Runs[class]++
	c.running, c.class, c.free = false, NumClasses, c.now
	return true
}

// Now returns the time of the code that runs: the start of its task plus what
// it has charged. Between tasks it is the time at which the CPU became free.
func (c *CPU) Now() vtime.Time {
	if c.running {
		return c.now
	}
	return c.free
}

// Class returns the context of the task that runs, or NumClasses if none does.
func (c *CPU) Class() Class { return c.class }

// Running reports whether a task runs.
func (c *CPU) Running() bool { return c.running }

// Charge counts n units of work and moves the CPU's time by their cost.
// Fractions of a nanosecond are carried over to the next charge. Between tasks
// work is counted but takes no time: that is for setting a guest up.
func (c *CPU) Charge(op Op, n int64) {
	c.usage.Ops[op] += n
	p := c.table.entries[op].Picos
	if p == 0 || !c.running {
		return
	}
	p = p*n + c.rest
	c.now = c.now.Add(time.Duration(p / 1000))
	c.rest = p % 1000
}

// Spend moves the CPU's time by d for work that is no operation of the table: a
// program's own.
func (c *CPU) Spend(d time.Duration) { c.now = c.now.Add(d) }

// ReadClock charges a clock read and returns the time after it. With a table
// whose clock costs time in process context only, reads in interrupts and
// softirqs are not counted.
func (c *CPU) ReadClock() vtime.Time {
	if c.costly() {
		c.Charge(OpClockRead, 1)
		if c.kernel != nil && c.class == Process {
			c.kernel.ClockRead(c)
		}
	}
	return c.table.Reading(c.now)
}

// WaitUntil spends the time until t, if it is later than the CPU's, waiting
// for a lock of the transmit path, and returns how long that was.
func (c *CPU) WaitUntil(t vtime.Time) time.Duration {
	d := t.Sub(c.now)
	if d <= 0 {
		return 0
	}
	c.Charge(OpTxLock, int64(d))
	return d
}

// Idle reports whether no task runs or waits.
func (c *CPU) Idle() bool { return !c.running && c.idle() }

func (c *CPU) idle() bool { return c.ready == 0 }

// pick returns the most urgent class that has a task.
func (c *CPU) pick() (Class, bool) {
	if c.ready == 0 {
		return NumClasses, false
	}
	return Class(bits.TrailingZeros8(c.ready)), true
}

// take takes the first task of a class that has one.
func (c *CPU) take(class Class) Task {
	q := &c.queues[class]
	t := q.pop()
	if q.n == 0 {
		c.ready &^= 1 << class
	}
	return t
}

// fifo is a queue of tasks in a ring that grows by doubling.
type fifo struct {
	ring    []Task // its length is a power of two
	head, n int
}

func (f *fifo) push(t Task) {
	if f.n == len(f.ring) {
		f.grow()
	}
	f.ring[(f.head+f.n)&(len(f.ring)-1)] = t
	f.n++
}

func (f *fifo) pushFirst(t Task) {
	if f.n == len(f.ring) {
		f.grow()
	}
	f.head = (f.head - 1) & (len(f.ring) - 1)
	f.ring[f.head] = t
	f.n++
}

func (f *fifo) pop() Task {
	t := f.ring[f.head]
	f.head = (f.head + 1) & (len(f.ring) - 1)
	f.n--
	return t
}

func (f *fifo) grow() {
	ring := make([]Task, max(8, 2*len(f.ring)))
	for i := range f.n {
		ring[i] = f.ring[(f.head+i)&(len(f.ring)-1)]
	}
	f.ring, f.head = ring, 0
}
