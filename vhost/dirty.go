package vhost

import (
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/wire"
)

// vringLog is the flag of SET_VRING_ADDR that has writes to the ring logged.
const vringLog = 1

// logAlign is the alignment in bytes of a dirty log, whose bits are set by atomic
// operations on words of that length.
const logAlign = 4

// setLogBase takes the memory of the dirty log, also while rings run and log to
// another one. The answer is a number. A front-end that does not look at it
// (QEMU) would take a guest to another machine with pages missing, so a log that
// cannot be used ends the session, unless an acknowledgement was asked for.
func (s *Session) setLogBase(m wire.Message, fds []int) {
	v := m.Payload.(wire.LogArea)
	if v.Size == 0 || v.Offset+v.Size < v.Offset || v.Offset%logAlign != 0 {
		s.close(fds)
		s.refuseLog(m, fmt.Errorf("%w: log of %#x bytes at %#x", ErrValue, v.Size, v.Offset))
		return
	}
	t := s.pend(func(r Result) {
		if r.Err != nil {
			s.refuseLog(m, r.Err)
			return
		}
		s.logged = true
		s.relogAll()
		s.reply(m, wire.U64(0))
	})
	s.emit(MapLog{Token: t, FD: fds[0], Offset: v.Offset, Size: v.Size})
}

func (s *Session) refuseLog(m wire.Message, err error) {
	if m.NeedReply() {
		s.note(m, err)
		s.reply(m, wire.U64(1))
		return
	}
	s.refuse(m, err)
}

func (s *Session) setLogFD(m wire.Message, fds []int) {
	t := s.pend(func(r Result) { s.settle(m, r.Err) })
	s.emit(SetLogFD{Token: t, FD: fds[0]})
}

// switchLog begins or ends logging on every ring that runs.
func (s *Session) switchLog(on bool) {
	if s.logging != on {
		s.logging = on
		s.relogAll()
	}
}

func (s *Session) relogAll() {
	for i := range s.rings {
		s.relog(i)
	}
}

// relog tells a ring that runs what to log, if that changed.
func (s *Session) relog(i int) {
	r := &s.rings[i]
	if want := s.ringLog(r); r.running && r.log != want {
		r.log = want
		s.emit(LogRing{Ring: i, Role: s.role(i), Log: want})
	}
}

// ringLog is what is to be logged of a ring now.
func (s *Session) ringLog(r *ringState) RingLog {
	on := s.logging && s.logged
	if !on {
		return RingLog{}
	}
	return RingLog{On: true, Ring: r.addr.Flags&vringLog != 0, RingAddr: r.addr.Log}
}
