package vhost

import (
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// transportBits are feature bits that are the protocol's, not the device's.
const transportBits = wire.FeatureProtocol | wire.FeatureLogAll

func (s *Session) getFeatures(m wire.Message, _ []int) { s.reply(m, wire.U64(s.offer)) }

// setFeatures takes the acknowledged bits. QEMU sends the same set once for
// each queue pair, while the first pair runs already; a set that differs is
// refused while a ring runs, but for the bit that switches the dirty log. A
// front-end that does not acknowledge the
// protocol's bit will never enable a ring, so all of them are.
func (s *Session) setFeatures(m wire.Message, _ []int) {
	bits := virtio.Features(m.Payload.(wire.U64))
	if extra := bits &^ s.offer; extra != 0 {
		s.refuse(m, fmt.Errorf("%w: %v", ErrFeatures, extra))
		return
	}
	acked := bits &^ transportBits
	if s.have && acked == s.acked && s.applied {
		s.enableAll(bits)
		s.switchLog(bits.Has(wire.FeatureLogAll))
		s.startAll(m, s.ack)
		return
	}
	if i := s.firstRunning(); i >= 0 {
		s.refuse(m, fmt.Errorf("ring %d: %w: features change by %v", i, ErrRunning, acked^s.acked))
		return
	}
	s.acked, s.have, s.applied = acked, true, false
	s.logging = bits.Has(wire.FeatureLogAll)
	s.enableAll(bits)
	s.apply(func(err error) {
		if err != nil {
			s.have = false
			s.refuse(m, err)
			return
		}
		s.startAll(m, s.ack)
	})
}

// enableAll enables every ring if bits says that the front-end never will.
func (s *Session) enableAll(bits virtio.Features) {
	if bits.Has(wire.FeatureProtocol) {
		return
	}
	for i := range s.rings {
		s.enable(i, true)
	}
}

// apply gives the acknowledged features to the device, unless it has them.
func (s *Session) apply(then func(error)) {
	if s.applied {
		then(nil)
		return
	}
	t := s.pend(func(r Result) {
		s.applied = r.Err == nil
		then(r.Err)
	})
	s.emit(SetFeatures{Token: t, Acked: s.acked})
}

func (s *Session) getProtocolFeatures(m wire.Message, _ []int) {
	s.reply(m, wire.U64(s.cfg.Protocol))
}

// setProtocolFeatures takes the acknowledged protocol bits, whether or not they
// were asked for before on this connection: a front-end that reconnects may
// remember them.
func (s *Session) setProtocolFeatures(m wire.Message, _ []int) {
	bits := wire.ProtocolFeatures(m.Payload.(wire.U64))
	if extra := bits &^ s.cfg.Protocol; extra != 0 {
		s.refuse(m, fmt.Errorf("%w: protocol %v", ErrFeatures, extra))
		return
	}
	s.protocol = bits
	s.ack(m)
}

func (s *Session) getQueueNum(m wire.Message, _ []int) {
	n := s.cfg.QueuePairs
	mode := s.cfg.QueueNum
	if mode == QueueNumRings || mode == QueueNumAuto && s.protocol.Has(wire.ProtocolConfig) {
		n = len(s.rings)
	}
	s.reply(m, wire.U64(n))
}

func (s *Session) setBackendFD(m wire.Message, fds []int) {
	t := s.pend(func(r Result) { s.settle(m, r.Err) })
	s.emit(SetBackendFD{Token: t, FD: fds[0]})
}

// settle answers m with what came of it.
func (s *Session) settle(m wire.Message, err error) {
	if err != nil {
		s.refuse(m, err)
		return
	}
	s.ack(m)
}

func (s *Session) getStatus(m wire.Message, _ []int) {
	status := s.status
	if s.broken {
		status |= virtio.StatusNeedsReset
	}
	s.reply(m, wire.U64(status))
}

// setStatus takes the device status. 0 is a reset: every ring stops, but keeps
// its index, since QEMU 7.2 asks for it only afterwards (GET_VRING_BASE); the
// front-end's settings of rings and memory stay as well.
func (s *Session) setStatus(m wire.Message, _ []int) {
	v := m.Payload.(wire.U64)
	if v > 0xff {
		s.refuse(m, fmt.Errorf("%w: status %#x", ErrValue, uint64(v)))
		return
	}
	s.status = uint8(v)
	if v != 0 {
		s.ack(m)
		return
	}
	s.reset(func() { s.ack(m) })
}

// resetDevice stops and forgets all rings, but for their call and error
// descriptors, and resets the device. Connection, features of the protocol and
// memory stay.
func (s *Session) resetDevice(m wire.Message, _ []int) {
	s.reset(func() {
		for i := range s.rings {
			s.rings[i] = ringState{}
		}
		s.status = 0
		s.ack(m)
	})
}

// reset stops every ring, does not let any start again without a new kick
// descriptor, and resets the device.
func (s *Session) reset(then func()) {
	s.stopAll(func([]int) {
		for i := range s.rings {
			s.unkick(i)
		}
		s.broken, s.applied, s.loaded = false, false, false
		s.emit(ResetDevice{})
		then()
	})
}
