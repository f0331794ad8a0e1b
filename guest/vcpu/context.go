package vcpu

// Preempter is the kernel of a guest, as far as it gets the CPU while a process
// runs: at a clock read, because a UML guest's virtual time moves there, and when
// bottom halves are enabled again.
type Preempter interface {
	// ClockRead is called when a clock read in process context has moved the CPU's
	// time. Interrupts that came due are handled now.
	ClockRead(c *CPU)
	// BottomHalves is called when a process enables bottom halves: softirqs that
	// were raised meanwhile run now (local_bh_enable, kernel/softirq.c, v6.1).
	BottomHalves(c *CPU)
}

// SetPreempter makes k the kernel that may interrupt the CPU's processes. A CPU
// without one runs every task undisturbed.
func (c *CPU) SetPreempter(k Preempter) { c.kernel = k }

// DisableBH keeps softirqs off, and makes clock reads free for a guest whose
// clock costs time in process context only, until EnableBH. Calls nest.
func (c *CPU) DisableBH() { c.bhOff++ }

// EnableBH ends one DisableBH. In process context the last one lets the softirqs
// run that were raised meanwhile.
func (c *CPU) EnableBH() {
	c.bhOff--
	if c.bhOff == 0 && c.class == Process && c.kernel != nil {
		c.kernel.BottomHalves(c)
	}
}

// Within runs a task inside the one that runs, in another class: an interrupt or
// a softirq that breaks into a process, or follows an interrupt.
func (c *CPU) Within(class Class, t Task) {
	was, off := c.class, c.bhOff
	c.class, c.bhOff = class, 0
	c.usage.Runs[class]++
	t.Run(c)
	c.class, c.bhOff = was, off
}

// Break runs all interrupts and softirqs that wait inside the process that runs,
// the most urgent first.
func (c *CPU) Break() {
	for class, ok := c.pick(); ok && class < Process; class, ok = c.pick() {
		c.Within(class, c.take(class))
	}
}

// PostFirst queues a task in front of all others of its class: a process that has
// not given up the CPU.
func (c *CPU) PostFirst(class Class, t Task) {
	c.ready |= 1 << class
	c.queues[class].pushFirst(t)
}

// Waiting returns how many tasks of a class wait.
func (c *CPU) Waiting(class Class) int { return c.queues[class].n }

// costly reports whether a clock read takes time here.
func (c *CPU) costly() bool {
	return !c.table.clockInProcess || (c.class == Process && c.bhOff == 0)
}
