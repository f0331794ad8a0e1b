package vhost

import (
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// inflight is the record of chains in flight that a session has, if it has one.
type inflight struct {
	rings  int    // that have a part in it; 0 is no record
	size   uint16 // most entries of such a ring
	stride uint64 // bytes of a part
}

// inflightStride is the length in bytes of a ring's part: that which a packed
// ring needs, which is the longer one, since a front-end may ask before it has
// decided on features. Parts begin on cache lines of their own.
func inflightStride(size uint16) uint64 {
	return (ring.InflightBytes(size, virtio.FeatureRingPacked) + 63) &^ 63
}

// getInflight makes the memory of a record, all zero, which the front-end keeps
// and hands back (SET_INFLIGHT_FD), to this back-end and to the one after it. An
// answer of zeroes says that there is none.
func (s *Session) getInflight(m wire.Message, _ []int) {
	v := m.Payload.(wire.Inflight)
	if err := s.checkInflight(v); err != nil {
		s.note(m, err)
		s.reply(m, wire.Inflight{})
		return
	}
	v.MapSize, v.MapOffset = uint64(v.NumQueues)*inflightStride(v.QueueSize), 0
	t := s.pend(func(r Result) {
		if r.Err != nil {
			s.note(m, r.Err)
			s.reply(m, wire.Inflight{})
			return
		}
		s.emit(Reply{Message: m.Reply(v), FDs: []int{r.FD}})
	})
	s.emit(MakeInflight{Token: t, Size: v.MapSize})
}

// checkInflight validates the number of rings and of their entries.
func (s *Session) checkInflight(v wire.Inflight) error {
	if n := int(v.NumQueues); n < 1 || n > len(s.rings) {
		return fmt.Errorf("%w: record for %d rings, there are %d", ErrValue, n, len(s.rings))
	}
	if v.QueueSize == 0 || v.QueueSize > ring.MaxSize {
		return fmt.Errorf("%w: record for rings of %d entries, want 1 to %d", ErrValue, v.QueueSize, ring.MaxSize)
	}
	return nil
}

// setInflight takes a record, which may be new or that of a back-end that died.
func (s *Session) setInflight(m wire.Message, fds []int) {
	v := m.Payload.(wire.Inflight)
	err := s.checkInflight(v)
	stride := inflightStride(v.QueueSize)
	if need := uint64(v.NumQueues) * stride; err == nil && v.MapSize < need {
		err = fmt.Errorf("%w: record of %d bytes, want %d", ErrValue, v.MapSize, need)
	}
	if v.MapOffset%8 != 0 && err == nil {
		err = fmt.Errorf("%w: record at offset %#x is not aligned to 8 bytes", ErrValue, v.MapOffset)
	}
	if i := s.firstRunning(); i >= 0 && err == nil {
		err = fmt.Errorf("ring %d: %w", i, ErrRunning)
	}
	if err != nil {
		s.close(fds)
		s.refuse(m, err)
		return
	}
	t := s.pend(func(r Result) {
		if r.Err == nil {
			s.inflight = inflight{int(v.NumQueues), v.QueueSize, stride}
		}
		s.settle(m, r.Err)
	})
	s.emit(MapInflight{Token: t, FD: fds[0], Offset: v.MapOffset, Rings: int(v.NumQueues), Stride: stride})
}

// recorded reports whether ring i has a part in the record, which must have room
// for it.
func (s *Session) recorded(i int) (bool, error) {
	f := &s.inflight
	if i >= f.rings {
		return false, nil
	}
	if n := s.rings[i].size; n > f.size {
		return false, fmt.Errorf("%w: ring of %d entries, the record has room for %d", ErrRingSize, n, f.size)
	}
	return true, nil
}

// leaves reports whether a ring that stops for m may leave chains in flight.
func (s *Session) leaves(m wire.Message, i int) bool {
	if i >= s.inflight.rings {
		return false
	}
	return m.Request == wire.GetVringBaseSkipDrain || s.protocol.Has(wire.ProtocolVringBaseInflight|wire.ProtocolInflightSHMFD)
}
