package simguest

import "github.com/vnetbench/vnetbench/guest/vcpu"

// sink is the program at the receiving end of TopologyVeth: one process that
// waits for any of its connections to become readable (epoll_wait), and reads
// each of those once. It shares the CPU with the senders.
type sink struct {
	w     *world
	ready []*endpoint
	awake bool
}

// wake says that a connection has something for the program.
func (s *sink) wake(e *endpoint) {
	if !e.ready {
		e.ready = true
		s.ready = append(s.ready, e)
	}
	if !s.awake {
		s.awake = true
		s.w.wake(s.w.cpus[0], s)
	}
}

// Run reads what is readable until nothing is.
func (s *sink) Run(c *vcpu.CPU) {
	c.Charge(vcpu.OpWake, 1)
	for len(s.ready) > 0 {
		e := s.ready[0]
		s.ready = s.ready[:copy(s.ready, s.ready[1:])]
		e.ready = false
		if !e.accepted {
			e.accepted = true
			c.ReadClock() // the program notes when a connection came
		}
		if e.readable() {
			e.read(c)
		}
	}
	s.awake = false
}

// read is one read(2) of all there is (tcp_recvmsg, v6.1 and v6.12). Every packet
// that it copies costs a clock read (tcp_rcv_space_adjust), and so does every one
// of the backlog (tcp_rcv_established).
func (e *endpoint) read(c *vcpu.CPU) {
	r := e.rcv
	r.Lock()
	c.DisableBH() // what waits runs now, and finds the socket in use
	c.EnableBH()
	for taken := false; ; taken = true {
		for r.Take() {
			r.Eat(c.ReadClock())
			taken = true
		}
		if !taken || !r.Backlogged() {
			break
		}
		e.backlog(c)
		if e.c.w.deferAck {
			c.DisableBH()
			r.Callback(e.c.w.Local())
			e.drain(e.c.w.Local())
			c.EnableBH()
		}
	}
	r.CleanUp(e.c.w.Local())
	e.drain(e.c.w.Local())
	e.backlog(c)
	c.DisableBH()
	r.Callback(e.c.w.Local())
	e.drain(e.c.w.Local())
	r.Unlock()
	c.EnableBH()
	e.eof = e.eof || r.Finished()
	if e.readable() {
		e.c.w.sink.wake(e)
	}
}

func (e *endpoint) readable() bool { return !e.eof && e.rcv.Readable() }

// backlog processes what came during the read.
func (e *endpoint) backlog(c *vcpu.CPU) {
	for e.rcv.Backlogged() {
		now := c.ReadClock()
		e.rcv.Backlog(now)
		e.drain(now)
	}
}
