package vhost

import (
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/wire"
)

// Answers to SET_DEVICE_STATE_FD: the low byte is 0 for success, and bit 8 says
// that no descriptor comes back, so that the front-end's own is used.
const (
	stateBegun  = wire.U64(0x100)
	stateFailed = wire.U64(0x101)
)

// Directions of a transfer of device state.
const (
	stateSave = 0
	stateLoad = 1
)

// setDeviceState begins to save or load the state of the device. Only one whose
// rings are all stopped has a state that stands still.
func (s *Session) setDeviceState(m wire.Message, fds []int) {
	v := m.Payload.(wire.StateTransfer)
	err := s.checkTransfer(v)
	if err != nil {
		s.close(fds)
		s.note(m, err)
		s.reply(m, stateFailed)
		return
	}
	t := s.pend(func(r Result) {
		if r.Err != nil {
			s.note(m, fmt.Errorf("%w: %w", ErrState, r.Err))
			s.reply(m, stateFailed)
			return
		}
		s.loading = v.Direction == stateLoad
		s.reply(m, stateBegun)
	})
	s.emit(TransferState{Token: t, Load: v.Direction == stateLoad, FD: fds[0]})
}

func (s *Session) checkTransfer(v wire.StateTransfer) error {
	if v.Direction > stateLoad || v.Phase != 0 {
		return fmt.Errorf("%w: direction %d in phase %d: want %d or %d in phase 0", ErrValue, v.Direction, v.Phase, stateSave, stateLoad)
	}
	if i := s.firstRunning(); i >= 0 {
		return fmt.Errorf("%w: ring %d: %w", ErrState, i, ErrRunning)
	}
	return nil
}

// checkDeviceState answers whether the transfer has come to a good end. The
// guest whose state was loaded may wait for interrupts that another device owes
// it: it gets them when the rings start.
func (s *Session) checkDeviceState(m wire.Message, _ []int) {
	t := s.pend(func(r Result) {
		if r.Err != nil {
			s.note(m, fmt.Errorf("%w: %w", ErrState, r.Err))
			s.reply(m, wire.U64(1))
			return
		}
		s.loaded = s.loading
		s.reply(m, wire.U64(0))
	})
	s.emit(CheckState{Token: t})
}
