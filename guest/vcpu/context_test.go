package vcpu_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/vmtest"
)

// intruder counts when a CPU lets its kernel in, and runs a softirq then.
type intruder struct {
	reads, bottoms int
	seen           []vcpu.Class
}

func (i *intruder) ClockRead(c *vcpu.CPU) {
	i.reads++
	c.Within(vcpu.SoftIRQ, look{i})
}

func (i *intruder) BottomHalves(*vcpu.CPU) { i.bottoms++ }

type look struct{ *intruder }

func (l look) Run(c *vcpu.CPU) {
	l.seen = append(l.seen, c.Class())
	c.ReadClock() // costs nothing here, and lets nobody in
	l.intruder.seen = l.seen
}

// process reads the clock with and without bottom halves.
type process struct{ end int64 }

func (p *process) Run(c *vcpu.CPU) {
	c.ReadClock()
	c.DisableBH()
	c.DisableBH()
	c.ReadClock()
	c.EnableBH()
	c.EnableBH()
	p.end = int64(c.Now())
}

// A process can be interrupted at clock reads, and where it enables bottom halves
// again. With them off a clock read is free.
func TestPreempter(t *testing.T) {
	table, err := vmtest.GuestTable("uml")
	if err != nil {
		t.Fatal(err)
	}
	c, k, p := vcpu.New(0, table), &intruder{}, &process{}
	c.SetPreempter(k)
	c.Post(0, vcpu.Process, p)
	c.Step(0)
	if k.reads != 1 || k.bottoms != 1 {
		t.Errorf("the kernel got the CPU at %d readings and %d times at the end of BH-off; want 1 and 1", k.reads, k.bottoms)
	}
	if len(k.seen) != 1 || k.seen[0] != vcpu.SoftIRQ {
		t.Errorf("it ran in classes %v, want one softirq", k.seen)
	}
	if p.end != 256 {
		t.Errorf("the process took %d ns, want those of one reading", p.end)
	}
}

// PostFirst puts a process that has not given up the CPU before those that wait.
func TestPostFirst(t *testing.T) {
	c := vcpu.New(0, must(vmtest.GuestTable("uml")))
	var order []int
	c.Post(0, vcpu.Process, note{&order, 1})
	c.Post(0, vcpu.Process, note{&order, 2})
	c.PostFirst(vcpu.Process, note{&order, 0})
	if n := c.Waiting(vcpu.Process); n != 3 {
		t.Errorf("%d wait, want 3", n)
	}
	for c.Step(0) {
	}
	for i, n := range order {
		if i != n {
			t.Fatalf("order %v", order)
		}
	}
}

type note struct {
	to *[]int
	n  int
}

func (n note) Run(*vcpu.CPU) { *n.to = append(*n.to, n.n) }

func must(t *vcpu.Table, err error) *vcpu.Table {
	if err != nil {
		panic(err)
	}
	return t
}
