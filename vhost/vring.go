package vhost

import (
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// ringState is what a session knows of a ring. Whether it is started (kicked)
// and whether it is enabled are independent of each other and of running, which
// is that the device has it.
type ringState struct {
	size    uint16         // 0 until SET_VRING_NUM
	addr    wire.VringAddr // as addresses of the front-end
	placed  bool           // addr is set
	gpa     ring.Config    // Desc, Avail and Used as guest physical addresses
	located bool           // gpa is what addr once translated to
	base    uint32         // as ring.Config.Base has it, from SET_VRING_BASE or the last stop
	kicked  bool           // SET_VRING_KICK, or with in-band notifications the first enable, came since the last stop
	enabled bool
	running bool
	started bool    // it has run on this connection
	log     RingLog // while it runs
}

// complete reports whether everything that a start needs from the front-end's
// ring messages is there.
func (r *ringState) complete() bool { return r.kicked && r.placed && r.size != 0 }

// at returns the ring that a message is about, or refuses the message.
func (s *Session) at(m wire.Message, index uint32) (*ringState, int, bool) {
	if uint64(index) >= uint64(len(s.rings)) {
		s.refuse(m, fmt.Errorf("%w: %d, there are %d", ErrRing, index, len(s.rings)))
		return nil, 0, false
	}
	return &s.rings[index], int(index), true
}

// role returns what ring i is. The control queue comes after the last pair that
// the driver can use: without MQ that is the first (virtio 1.3 §5.1.2).
func (s *Session) role(i int) Role {
	ctrl := 2 * s.cfg.QueuePairs
	if !s.acked.Has(virtio.FeatureMQ) {
		ctrl = 2
	}
	if i == ctrl && s.acked.Has(virtio.FeatureCtrlVQ) {
		return Role{Dir: netdev.DirCtrl}
	}
	if i%2 == 0 {
		return Role{Dir: netdev.DirRX, Pair: i / 2}
	}
	return Role{Dir: netdev.DirTX, Pair: i / 2}
}

// packed reports whether the rings are packed ones.
func (s *Session) packed() bool { return s.acked.Has(virtio.FeatureRingPacked) }

// firstRunning returns a ring that runs, or -1.
func (s *Session) firstRunning() int {
	for i := range s.rings {
		if s.rings[i].running {
			return i
		}
	}
	return -1
}

// idle refuses m if the ring runs.
func (s *Session) idle(m wire.Message, r *ringState, i int) bool {
	if r.running {
		s.refuse(m, fmt.Errorf("ring %d: %w", i, ErrRunning))
		return false
	}
	return true
}

func (s *Session) setVringNum(m wire.Message, _ []int) {
	v := m.Payload.(wire.VringState)
	r, i, ok := s.at(m, v.Index)
	if !ok {
		return
	}
	if v.Num > ring.MaxSize || ring.ValidSize(int(v.Num), s.acked) != nil {
		s.refuse(m, fmt.Errorf("ring %d: %w: %d", i, ErrRingSize, v.Num))
		return
	}
	if r.size == uint16(v.Num) {
		s.ack(m)
		return
	}
	s.quiesce(m, i, func() {
		r.size = uint16(v.Num)
		s.startRing(m, i, s.ack)
	})
}

// setVringAddr places a ring. It may come again while the ring runs, with the
// same addresses (to switch logging) or with others: then the ring is stopped
// and started at its new place.
func (s *Session) setVringAddr(m wire.Message, _ []int) {
	v := m.Payload.(wire.VringAddr)
	r, i, ok := s.at(m, v.Index)
	if !ok {
		return
	}
	if v.Desc%ring.DescAlign != 0 || v.Avail%ring.AvailAlign != 0 || v.Used%ring.UsedAlign != 0 {
		s.refuse(m, fmt.Errorf("%w: %v", ErrAlignment, v))
		return
	}
	same := r.placed && r.addr.Desc == v.Desc && r.addr.Avail == v.Avail && r.addr.Used == v.Used
	place := func() {
		r.addr, r.placed, r.located = v, true, same && r.located
		s.relog(i)
		s.startRing(m, i, s.ack)
	}
	if same || !r.running {
		place()
		return
	}
	s.stopRing(i, place)
}

func (s *Session) setVringBase(m wire.Message, _ []int) {
	v := m.Payload.(wire.VringState)
	r, i, ok := s.at(m, v.Index)
	if !ok {
		return
	}
	s.quiesce(m, i, func() {
		r.base = v.Num
		if !s.packed() {
			r.base &= 0xffff
		}
		s.ack(m)
	})
}

// quiesce stops ring i if it runs disabled: a front-end that never asks for a
// base (User Mode Linux) has no other word for "I am about to set it up anew". A
// ring that runs enabled is left alone, and m is refused.
func (s *Session) quiesce(m wire.Message, i int, then func()) {
	r := &s.rings[i]
	if !r.running || r.enabled {
		if s.idle(m, r, i) {
			then()
		}
		return
	}
	s.stopRing(i, func() {
		s.unkick(i)
		then()
	})
}

// getVringBase stops a ring and answers with the index of the available entry
// that is next. A ring that never ran, or that a reset has stopped before,
// answers with the index that it has.
func (s *Session) getVringBase(m wire.Message, _ []int) {
	v := m.Payload.(wire.VringState)
	r, i, ok := s.at(m, v.Index)
	if !ok {
		return
	}
	answer := func() {
		s.unkick(i)
		s.reply(m, wire.VringState{Index: v.Index, Num: r.base})
	}
	if !r.running {
		answer()
		return
	}
	s.leaveRing(i, s.leaves(m, i), answer)
}

// unkick takes the kick descriptor from a ring that does not run; it starts
// again when it gets a new one.
func (s *Session) unkick(i int) {
	if r := &s.rings[i]; r.kicked {
		r.kicked = false
		s.emit(SetFD{Ring: i, Kind: KickFD, FD: -1})
	}
}

// setVringFD takes a kick, call or error descriptor, whatever else is known of
// the ring. A kick descriptor, or the word that there is none, starts the ring.
func (s *Session) setVringFD(m wire.Message, fds []int) {
	v := m.Payload.(wire.VringFD)
	r, i, ok := s.at(m, uint32(v.Index))
	if !ok {
		s.close(fds)
		return
	}
	set := SetFD{Ring: i, FD: -1}
	if len(fds) > 0 {
		set.FD = fds[0]
	}
	switch m.Request {
	case wire.SetVringCall:
		set.Kind = CallFD
	case wire.SetVringErr:
		set.Kind = ErrFD
	}
	set.Token = s.pend(func(res Result) {
		if res.Err != nil {
			s.refuse(m, fmt.Errorf("ring %d: %w", i, res.Err))
			return
		}
		if set.Kind == KickFD {
			r.kicked = true
		}
		s.startRing(m, i, s.ack)
	})
	s.emit(set)
}

// setVringEnable enables or disables a ring, which is independent of whether it
// is started: QEMU does so long before it sends anything else of the ring.
func (s *Session) setVringEnable(m wire.Message, _ []int) {
	v := m.Payload.(wire.VringState)
	r, i, ok := s.at(m, v.Index)
	if !ok {
		return
	}
	if v.Num > 1 {
		s.refuse(m, fmt.Errorf("ring %d: %w: enable %d, want 0 or 1", i, ErrValue, v.Num))
		return
	}
	s.enable(i, v.Num == 1)
	if v.Num == 1 && s.protocol.Has(wire.ProtocolInband) {
		r.kicked = true // nothing else says that the front-end is done with the ring
		s.startRing(m, i, s.ack)
		return
	}
	s.ack(m)
}

// vringKick is a kick as a message. It starts a ring that is complete otherwise.
// The acknowledgement comes after KickRing has been carried out.
func (s *Session) vringKick(m wire.Message, _ []int) {
	v := m.Payload.(wire.VringState)
	r, i, ok := s.at(m, v.Index)
	if !ok {
		return
	}
	r.kicked = true
	s.startRing(m, i, func(m wire.Message) {
		if r.running {
			s.emit(KickRing{Ring: i, Role: s.role(i)})
		}
		s.ack(m)
	})
}

func (s *Session) enable(i int, on bool) {
	r := &s.rings[i]
	if r.enabled != on && r.running {
		s.emit(EnableRing{Ring: i, Role: s.role(i), On: on})
	}
	r.enabled = on
}
