package simguest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
)

// vethWorld is a world of a real kernel's UML guest, with no flow under way.
func vethWorld(t *testing.T, kernel string) *world {
	t.Helper()
	s := vmtest.Default()
	for _, set := range [][2]string{
		{"kernel", kernel}, {"topology", "veth"}, {"vcpus", "1"}, {"queue_pairs", "1"}, {"flows", "1"},
		{"guest_cpu", "uml"}, {"bytes", "1M"}, {"duration", "0s"}, {"warmup", "0s"}, {"qdisc", "noqueue"},
		{"router.fwd", "noqueue"}, {"router.rev", "netem:delay=1ms"},
	} {
		if err := s.Set(set[0], set[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(s, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.conns[0].start.Stop()
	return w
}

// diary notes what happened and when.
type diary struct {
	w     *world
	lines []string
}

func (d *diary) Run(now vtime.Time, arg uint64) {
	d.lines = append(d.lines, fmt.Sprintf("%d: %d in %s at reading %d", d.w.now(), arg, d.w.cur.Class(), now))
}

// wants fails unless the diary has these lines.
func (d *diary) wants(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(d.lines, want) {
		t.Errorf("got\n%q\nwant\n%q", d.lines, want)
	}
}

// A timer that is due soon after another is served by the same interrupt if the
// clock's step has passed it; one that is due later takes at least 501 ns more.
func TestTimersShareInterrupts(t *testing.T) {
	w := vethWorld(t, "6.12")
	d := &diary{w: w}
	for i, at := range []vtime.Time{10_000, 10_100, 10_300} {
		w.ce.newTimer(d, uint64(i)).set(at, at)
	}
	w.loop.RunUntil(1_000_000)
	d.wants(t,
		"10502: 0 in irq at reading 10496", // 10001 reads 9984, which is too early
		"10502: 1 in irq at reading 10496",
		"10502: 2 in irq at reading 10496",
	)
}

// A timer that expires late does so in a softirq; a window of expiry lets a timer
// go early with another's interrupt.
func TestTimersLateAndEarly(t *testing.T) {
	w := vethWorld(t, "6.12")
	d := &diary{w: w}
	late := w.ce.newTimer(d, 1)
	late.late = true
	late.set(25_600, 25_600)
	w.ce.newTimer(d, 2).set(25_000, 99_000)
	w.ce.newTimer(d, 3).set(25_601, 99_500)
	w.loop.RunUntil(80_000)
	d.wants(t,
		"25601: 2 in irq at reading 25600",
		"25601: 1 in softirq at reading 25600",
	)
}

// reader is a process that reads the clock so many times.
type reader struct {
	d *diary
	n int
}

func (r *reader) Run(c *vcpu.CPU) {
	for range r.n {
		r.d.lines = append(r.d.lines, fmt.Sprintf("read %d", c.ReadClock()))
	}
}

// A process is interrupted at the first clock read that passes a timer.
func TestInterruptAtClockRead(t *testing.T) {
	w := vethWorld(t, "6.12")
	d := &diary{w: w}
	w.ce.newTimer(d, 7).set(300, 300)
	w.wake(w.cpus[0], &reader{d, 4})
	w.loop.RunUntil(10_000)
	d.wants(t, "read 256", "512: 7 in irq at reading 512", "read 512", "read 768", "read 1024")
}
