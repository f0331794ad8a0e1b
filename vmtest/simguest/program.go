package simguest

import (
	"time"

	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/vcpu"
)

// The start of a program with a pregap: introWrites writes of introBytes.
const (
	introWrites = 10
	introBytes  = 1448
)

// sleepSlack is the timer slack of the program's sleeps: it asks for the least that
// there is (PR_SET_TIMERSLACK), and the hardware is programmed for the end of it.
const sleepSlack = time.Nanosecond

// Run is one pass of the program: the test for the end, one write, and what
// follows it.
func (k *appTask) Run(c *vcpu.CPU) {
	if k.slept {
		c.Charge(vcpu.OpWake, 1)
		k.slept = false
	}
	k.w.writing = k.conn
	if k.ask.answered {
		k.readAnswer(c)
	} else {
		k.pass(c)
	}
	k.w.writing = nil
}

// pass is the pass proper.
func (k *conn) pass(c *vcpu.CPU) {
	if !k.resume && k.ended(c) {
		k.finish(c)
		return
	}
	k.work(c)
	k.write()
	switch {
	case k.left > 0: // the write sleeps, or goes on
		k.space = k.space || k.w.soft != nil && k.sock.HasSpace()
		k.asleep = !k.space
		if k.space {
			k.again(c)
		}
	case k.unanswered(c):
	default:
		k.pause(c)
	}
	k.settle()
}

// ended is the program's test for its end: the bytes it has to write, or a
// reading of the clock. The intro has no such test.
func (k *conn) ended(c *vcpu.CPU) bool {
	if k.intro < k.introLen() {
		k.left = introBytes
		return false
	}
	if k.w.ce != nil && !k.timed {
		k.timed = true
		c.ReadClock() // the program times itself
	}
	if k.f.Total > 0 {
		bulk := k.written - int64(k.introLen()*introBytes) // the intro does not count
		k.left = int(min(int64(k.f.Write), int64(k.f.Total)-bulk))
		return k.left == 0
	}
	if now := c.ReadClock(); k.until == 0 {
		k.until = now.Add(k.w.s.WarmUp + k.w.s.Duration)
	} else if now >= k.until {
		return true
	}
	k.left = int(k.f.Write)
	k.begin(c)
	return false
}

func (k *conn) introLen() int {
	if k.w.s.PreGap > 0 {
		return introWrites
	}
	return 0
}

// work is the program's own time before a write. That no two passes take the
// same keeps the guest from falling into step with the host.
func (k *conn) work(c *vcpu.CPU) {
	if d := k.w.cost.work; d > 0 && !k.resume {
		c.Spend(d/2 + k.chance.Duration(d))
	}
}

func (k *conn) write() {
	var fl tcp.WriteFlags
	if k.resume {
		fl |= tcp.Continue
	}
	if k.w.s.More {
		fl |= tcp.More
	}
	k.space = false
	n := k.sock.Write(k.left, fl)
	k.left -= n
	k.written += int64(n)
	k.resume = k.left > 0
}

// pause is what the program does between two writes: it sleeps to an absolute
// time after a reading of the clock, or not at all.
func (k *conn) pause(c *vcpu.CPU) {
	d := k.f.Think
	if k.intro < k.introLen() {
		d = k.introGap()
		k.intro++
	}
	if d == 0 {
		k.again(c)
		return
	}
	at := c.ReadClock().Add(d)
	k.alarm.Window(at, at.Add(sleepSlack))
}

// introGap is the pause after the intro's current write.
func (k *conn) introGap() time.Duration {
	gap2 := k.w.s.PreGap2
	switch {
	case k.intro == 0 && gap2 > 0:
		return gap2
	case k.intro == 0 || k.intro == 1 && gap2 > 0:
		return k.w.s.PreGap
	}
	return 0
}

func (k *conn) again(c *vcpu.CPU) {
	if k.w.soft != nil {
		k.w.keep(k.cpu, &k.app)
		return
	}
	k.cpu.post(c.Now(), vcpu.Process, &k.app)
}

// finish is the program's end: where the program times itself it reads the clock
// once more.
func (k *conn) finish(c *vcpu.CPU) {
	if k.w.ce != nil {
		c.ReadClock()
	}
	k.close()
}

func (k *conn) close() {
	k.closed = true
	k.sock.Close()
	k.settle()
}

// wakeWriter lets a program that slept for space go on.
func (k *conn) wakeWriter() {
	if !k.asleep {
		k.space = true
		return
	}
	k.asleep, k.slept = false, true
	k.w.wake(k.cpu, &k.app)
}

// drained reports whether the flow has ended and everything arrived.
func (k *conn) drained() bool {
	return k.closed && k.w.cable.received(k) == k.written
}
