package vcpu_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"pgregory.net/rapid"
)

// job is a task that notes when it ran and charges some kicks.
type job struct {
	name  string
	kicks int64
	notes *[]string
	times *[]vtime.Time
	then  func(c *vcpu.CPU)
}

func (j *job) Run(c *vcpu.CPU) {
	*j.notes = append(*j.notes, j.name+"/"+c.Class().String())
	*j.times = append(*j.times, c.Now())
	c.Charge(vcpu.OpKick, j.kicks)
	if j.then != nil {
		j.then(c)
	}
}

// bench is a CPU with a notebook.
type bench struct {
	*vcpu.CPU
	notes []string
	times []vtime.Time
}

func newBench(t testing.TB, name string) *bench { return &bench{CPU: vcpu.New(0, table(t, name))} }

func (b *bench) post(now vtime.Time, class vcpu.Class, name string, kicks int64) *job {
	j := &job{name: name, kicks: kicks, notes: &b.notes, times: &b.times}
	b.Post(now, class, j)
	return j
}

func TestUrgentClassesFirstAndNothingBeforeItsTurn(t *testing.T) {
	b := newBench(t, "kvm") // a kick is 960 ns
	b.post(100, vcpu.Process, "a", 1)
	b.post(100, vcpu.SoftIRQ, "b", 1)
	b.post(100, vcpu.SoftIRQ, "c", 0)
	b.post(150, vcpu.IRQ, "d", 2)
	if b.Next() != 100 {
		t.Fatalf("first at %d", b.Next())
	}
	for b.Next() != vtime.Never {
		if b.Step(b.Next() - 1) {
			t.Fatal("ran before the CPU was free")
		}
		if !b.Step(b.Next()) {
			t.Fatal("did not run when it was due")
		}
	}
	if d := cmp.Diff([]string{"d/irq", "b/softirq", "c/softirq", "a/process"}, b.notes); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]vtime.Time{100, 2020, 2980, 2980}, b.times); d != "" {
		t.Error(d)
	}
	u := b.Usage()
	if u.Busy != [vcpu.NumClasses]time.Duration{1920, 960, 960} || u.Ops[vcpu.OpKick] != 4 || u.Runs[vcpu.SoftIRQ] != 2 {
		t.Errorf("usage %+v", u)
	}
	if b.Now() != 3940 || b.Running() || b.Class() != vcpu.NumClasses {
		t.Errorf("ended at %d", b.Now())
	}
}

func TestWorkPostedByATaskRunsAfterIt(t *testing.T) {
	b := newBench(t, "kvm")
	j := b.post(5, vcpu.Process, "writer", 1)
	j.then = func(c *vcpu.CPU) {
		b.post(0, vcpu.Process, "rest", 0)
		b.post(0, vcpu.IRQ, "irq", 0)
	}
	for b.Step(b.Next()) {
	}
	if d := cmp.Diff([]string{"writer/process", "irq/irq", "rest/process"}, b.notes); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]vtime.Time{5, 965, 965}, b.times); d != "" {
		t.Error(d)
	}
}

func TestClockOfUMLTicksInProcessContextOnly(t *testing.T) {
	b := newBench(t, "uml")
	var got [vcpu.NumClasses]vtime.Time
	for class := range vcpu.NumClasses {
		b.post(1000, class, "read", 0).then = func(c *vcpu.CPU) {
			c.ReadClock()
			got[c.Class()] = c.ReadClock()
		}
	}
	for b.Step(b.Next()) {
	}
	if d := cmp.Diff([vcpu.NumClasses]vtime.Time{768, 768, 1280}, got); d != "" {
		t.Error(d)
	}
	if n := b.Usage().Ops[vcpu.OpClockRead]; n != 2 {
		t.Errorf("%d clock reads counted, want 2", n)
	}
}

// A timer of a UML guest goes off at the programmed difference and one
// nanosecond, never below 500, and again if its clock's reading is short.
func TestExpiryOfUMLTimers(t *testing.T) {
	uml, free := table(t, "uml"), table(t, "free")
	for _, c := range []struct{ now, at, want vtime.Time }{
		{0, 2560, 2561},       // on the grid: the reading is 2560
		{0, 2570, 2571 + 501}, // reads 2560 at first, which is short of it
		{250, 2570, 2821},     // the raw offset carries the reading over 2570
		{0, 100, 501},         // the least difference
		{1000, 900, 1501},     // already due
		{0, vtime.Never, vtime.Never},
	} {
		if got := uml.Expiry(c.now, c.at); got != c.want {
			t.Errorf("armed at %d for %d: goes off at %d, want %d", c.now, c.at, got, c.want)
		}
		if got := free.Expiry(c.now, c.at); got != c.at {
			t.Errorf("a clock of single nanoseconds: %d, want %d", got, c.at)
		}
	}
}

func TestFractionsAreCarriedOver(t *testing.T) {
	b := newBench(t, "kvm") // a byte is 11 ps
	b.post(0, vcpu.Process, "copy", 0).then = func(c *vcpu.CPU) {
		for range 1000 {
			c.Charge(vcpu.OpCopyByte, 1)
		}
	}
	b.Step(0)
	if want := vtime.Time(table(t, "kvm").Cost(vcpu.OpCopyByte, 1000)); b.Now() != want || want == 0 {
		t.Errorf("1000 single bytes took %d ns, at once they take %d", b.Now(), want)
	}
}

func TestWaitingForALock(t *testing.T) {
	b := newBench(t, "free")
	b.post(10, vcpu.Process, "wait", 0).then = func(c *vcpu.CPU) {
		if c.WaitUntil(70) != 60 || c.WaitUntil(30) != 0 || c.Now() != 70 {
			t.Errorf("waited until %d", c.Now())
		}
	}
	b.Step(10)
	if u := b.Usage(); u.Ops[vcpu.OpTxLock] != 60 || u.Total() != 60 {
		t.Errorf("usage %+v", u)
	}
}

func TestSettingUpCostsNothing(t *testing.T) {
	b := newBench(t, "kvm")
	b.Charge(vcpu.OpKick, 3)
	if u := b.Usage(); b.Now() != 0 || u.Ops[vcpu.OpKick] != 3 || u.Total() != 0 {
		t.Errorf("now %d, usage %+v", b.Now(), u)
	}
}

// TestTimeIsTheSumOfCosts posts random work and checks that no two tasks
// overlap and that busy time is the cost of the counted work.
func TestTimeIsTheSumOfCosts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, "kvm-2013")
		now := vtime.Time(0)
		var last vtime.Time
		for range rapid.IntRange(1, 40).Draw(rt, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "gap")))
			for b.Next() <= now {
				at := b.Next()
				if at < last {
					rt.Fatalf("a task at %d, the one before it ended at %d", at, last)
				}
				b.Step(at)
				last = b.Now()
			}
			class := vcpu.Class(rapid.IntRange(0, 2).Draw(rt, "class"))
			b.post(now, class, "t", rapid.Int64Range(0, 3).Draw(rt, "kicks"))
		}
		for b.Step(b.Next()) {
		}
		u := b.Usage()
		if want := table(t, "kvm-2013").Cost(vcpu.OpKick, u.Ops[vcpu.OpKick]); u.Total() != want {
			rt.Fatalf("busy %v for work of %v", u.Total(), want)
		}
		if d := cmp.Diff(u, u.Add(u).Sub(u)); d != "" {
			rt.Fatal(d)
		}
	})
}

// loop is a task that posts itself.
type loop struct{ n int }

func (l *loop) Run(c *vcpu.CPU) {
	l.n++
	c.Charge(vcpu.OpTCPXmit, 1)
	c.Post(0, vcpu.SoftIRQ, l)
}

func TestTasksAllocateNothing(t *testing.T) {
	c := vcpu.New(0, table(t, "kvm"))
	l := new(loop)
	c.Post(0, vcpu.Process, l)
	c.Step(0)
	if n := testing.AllocsPerRun(1000, func() { c.Step(c.Next()) }); n != 0 || l.n < 1000 {
		t.Fatalf("%v allocations per task, %d ran", n, l.n)
	}
}

// BenchmarkSimCPU is the cost of a task: post, pick, run, charge.
func BenchmarkSimCPU(b *testing.B) {
	c := vcpu.New(0, table(b, "kvm"))
	c.Post(0, vcpu.Process, new(loop))
	b.ReportAllocs()
	for b.Loop() {
		c.Step(c.Next())
	}
}
