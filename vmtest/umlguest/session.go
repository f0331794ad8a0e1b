package umlguest

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// session carries the vhost-user session of one guest out, between its messages
// and the device. All of it is on the calendar's thread.
type session struct {
	c       *client
	sess    *vhost.Session
	dev     *netdev.Device
	workers []*host.Worker // by pair
	fd      int            // -1 before the guest has connected and after its end
	door    *door          // that the guest is to connect to; nil after that
	backend int            // for calls, -1 for none

	maps map[vhost.RegionID]*osio.Mapping
	mem  *shm.Memory

	buf     []byte
	fds     []int
	out     []byte
	ended   bool
	cause   error // why it ended
	fdsOf   [2]unix.PollFd
	kicking bool // a data ring was kicked by the message that is handled
}

func newSession(c *client, dev *netdev.Device) *session {
	s := &session{c: c, dev: dev, fd: -1, backend: -1, maps: map[vhost.RegionID]*osio.Mapping{}}
	s.sess = vhost.NewSession(vhost.SessionConfig{
		QueuePairs: dev.Pairs(), Features: dev.Features(), ConfigSpace: dev.ConfigSpace,
		// MQ is for front-ends that ask for the number of queues.
		Protocol: vhost.InbandOffer,
	})
	return s
}

// read handles what has come on the session's socket: at first, the connection.
func (s *session) read() error {
	if s.door != nil {
		fd, err := s.door.take()
		s.door.close()
		s.fd, s.door = fd, nil
		return err
	}
	var chunk [wire.HeaderLen + wire.MaxPayload]byte
	n, fds, err := osio.Recv(s.fd, chunk[:], s.fds)
	s.fds = fds
	if err != nil {
		s.lost(err)
		return nil
	}
	s.buf = append(s.buf, chunk[:n]...)
	for len(s.buf) >= wire.HeaderLen && !s.ended {
		h, err := wire.ParseHeader(s.buf)
		if err != nil {
			return s.c.fail(ErrProtocol, "its device: %v", err)
		}
		end := wire.HeaderLen + int(h.Size)
		if len(s.buf) < end {
			return nil
		}
		if err := s.message(s.buf[:end]); err != nil {
			return err
		}
		s.buf = append(s.buf[:0], s.buf[end:]...)
	}
	return nil
}

// lost is the end of the socket. A guest that switches itself off closes it
// before it ends; one that goes on without its device is found by the calendar.
func (s *session) lost(cause error) {
	osio.Close(s.fd)
	s.fd, s.ended = -1, true
	s.cause = cause
}

// switchedOff is the end of a guest that is done, while others go on: what its
// device has taken goes its way, and its memory is not looked at any more.
func (s *session) switchedOff(now vtime.Time) {
	s.ended = true
	if s.dev == nil {
		return
	}
	for i := range s.dev.Pairs() {
		for _, dir := range []netdev.Dir{netdev.DirTX, netdev.DirRX} {
			s.detach(now, vhost.Role{Pair: i, Dir: dir})
		}
	}
	s.detach(now, vhost.Role{Dir: netdev.DirCtrl})
}

func (s *session) message(b []byte) error {
	m, bad := wire.Decode(b)
	var fds []int
	if least, _ := m.FDs(); least > 0 || bad != nil {
		fds, s.fds = s.fds, nil
	}
	s.kicking = false
	actions := s.sess.Handle(m, fds, bad)
	for len(actions) > 0 {
		a := actions[0]
		more, err := s.do(a)
		if err != nil {
			return err
		}
		actions = append(actions[1:], more...)
	}
	return nil
}

// do carries one action out and returns what follows from its result.
func (s *session) do(a vhost.Action) ([]vhost.Action, error) {
	switch a := a.(type) {
	case vhost.Reply:
		return nil, s.reply(a.Message)
	case vhost.CloseFDs:
		osio.CloseAll(a.FDs)
	case vhost.MapRegions:
		return s.sess.Done(a.Token, vhost.Result{Err: s.mapRegions(a)}), nil
	case vhost.SetMemory:
		return nil, s.setMemory(a)
	case vhost.SetFeatures:
		return s.sess.Done(a.Token, vhost.Result{Err: s.dev.SetFeatures(a.Acked)}), nil
	case vhost.StartRing:
		return s.sess.Done(a.Token, vhost.Result{Err: s.start(a)}), nil
	case vhost.StopRing:
		return s.sess.Done(a.Token, vhost.Result{Base: s.stop(a)}), nil
	case vhost.KickRing:
		return nil, s.kick(a.Role)
	case vhost.EnableRing:
		s.enable(a)
	case vhost.SetFD:
		osio.Close(a.FD)
		if a.Token != 0 {
			return s.sess.Done(a.Token, vhost.Result{}), nil
		}
	case vhost.SetBackendFD:
		osio.Close(s.backend)
		s.backend = a.FD
		return s.sess.Done(a.Token, vhost.Result{Err: bounded(a.FD)}), nil
	case vhost.ResetDevice:
		s.dev.Reset()
	case vhost.End:
		return nil, s.c.fail(ErrProtocol, "its device: %v", a.Reason)
	}
	return nil, nil
}

// reply answers the guest. What its kick set in motion has bounded what it may
// do before that.
func (s *session) reply(m wire.Message) error {
	if s.kicking {
		if err := s.c.limit(s.c.cal.horizon(s.c)); err != nil {
			return err
		}
	}
	return s.send(s.fd, m)
}

func (s *session) send(fd int, m wire.Message) error {
	s.out = m.Append(s.out[:0])
	for b := s.out; len(b) > 0; {
		n, err := unix.Write(fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			s.c.vm.wait()
			return s.c.fail(ErrEnded, "its device: %v; %s", err, s.c.vm.state())
		default:
			b = b[n:]
		}
	}
	return nil
}

func (s *session) mapRegions(a vhost.MapRegions) error {
	defer osio.CloseAll(a.FDs)
	for i, r := range a.Regions {
		m, err := osio.Map(a.FDs[i], r.Offset, r.Size)
		if err != nil {
			return fmt.Errorf("%v: %w", r, err)
		}
		s.maps[a.IDs[i]] = m
	}
	return nil
}

func (s *session) setMemory(a vhost.SetMemory) error {
	keep := map[vhost.RegionID]*osio.Mapping{}
	var regions []shm.Region
	for i, id := range a.IDs {
		keep[id] = s.maps[id]
		delete(s.maps, id)
		regions = append(regions, shm.Region{GPA: a.Regions[i].GPA, UVA: a.Regions[i].UVA, Mem: keep[id].Bytes()})
	}
	s.unmap()
	s.maps, s.mem = keep, nil
	if len(regions) == 0 {
		return nil
	}
	var err error
	s.mem, err = shm.NewMemory(regions)
	return err
}

func (s *session) unmap() {
	for _, m := range s.maps {
		_ = m.Unmap()
	}
	s.maps = nil
}

func (s *session) start(a vhost.StartRing) error {
	q, err := ring.NewDevice(s.mem, a.Config)
	if err != nil {
		return err
	}
	now := s.c.now
	switch a.Role.Dir {
	case netdev.DirCtrl:
		s.dev.Ctrl().Attach(now, q)
		return nil
	case netdev.DirRX:
		s.dev.Pair(a.Role.Pair).AttachRX(now, q)
	default:
		s.dev.Pair(a.Role.Pair).AttachTX(now, q)
		s.workers[a.Role.Pair].Kick(now, netdev.DirTX)
	}
	return nil
}

func (s *session) stop(a vhost.StopRing) uint32 { return s.detach(s.c.now, a.Role) }

// detach takes a ring off the device and returns where the driver would go on.
func (s *session) detach(now vtime.Time, r vhost.Role) uint32 {
	var q *ring.Device
	switch r.Dir {
	case netdev.DirCtrl:
		q = s.dev.Ctrl().Detach(now)
	case netdev.DirRX:
		q, _ = s.dev.Pair(r.Pair).DetachRX(now)
	default:
		q, _ = s.dev.Pair(r.Pair).DetachTX(now)
	}
	if q == nil {
		return 0
	}
	q.Close()
	return q.Base()
}

func (s *session) enable(a vhost.EnableRing) {
	if a.Role.Dir == netdev.DirCtrl {
		return
	}
	p := s.dev.Pair(a.Role.Pair)
	rx, tx := p.RX.Attached(), p.TX.Attached()
	if a.Role.Dir == netdev.DirRX {
		rx = a.On
	} else {
		tx = a.On
	}
	p.SetEnabled(rx, tx)
}

// kick carries a kick to the pair's worker. The control queue is served at once:
// the driver waits for its answer.
func (s *session) kick(r vhost.Role) error {
	if err := s.c.kicks(); err != nil {
		return err
	}
	now := s.c.now
	if r.Dir != netdev.DirCtrl {
		s.kicking = true
		s.workers[r.Pair].Kick(now, r.Dir)
		return nil
	}
	ctrl := s.dev.Ctrl()
	ctrl.Kick(now, 1)
	for {
		_, call, _, err := ctrl.Poll(now, netdev.Budget{})
		if err != nil {
			return s.c.fail(ErrProtocol, "control queue: %v", err)
		}
		if call.Needed {
			ctrl.CallResult(now, nil) // nobody listens: the driver spins
		}
		if !ctrl.Rearm() {
			return nil
		}
	}
}

// call interrupts the guest, which waits: it notes when it wants to run, and
// answers.
func (s *session) call(ring int) error {
	if s.ended || s.backend < 0 {
		return nil
	}
	if s.c.shared {
		s.c.sched.setNow(s.c.cal.at)
	}
	m := wire.BackendMessage(wire.BackendVringCall, wire.VringState{Index: uint32(ring)})
	m.Flags = wire.FlagNeedReply
	s.c.calling = true
	if err := s.send(s.backend, m); err != nil {
		return err
	}
	var err error
	if s.c.shared {
		err = s.readReply(ring)
	} else {
		err = s.awaitReply(ring)
	}
	if err != nil || !s.c.shared {
		return err
	}
	return s.c.reread()
}

// awaitReply serves the guest's clock until the answer to a call has come.
func (s *session) awaitReply(ring int) error {
	s.fdsOf[0] = unix.PollFd{Fd: int32(s.c.time), Events: unix.POLLIN}
	s.fdsOf[1] = unix.PollFd{Fd: int32(s.backend), Events: unix.POLLIN}
	for {
		if err := s.c.poll(s.fdsOf[:]); err != nil {
			return err
		}
		if s.fdsOf[0].Revents == 0 {
			return s.readReply(ring)
		}
		if err := s.c.readTime(); err != nil {
			return err
		}
	}
}

// replySlice is how long a read of an answer waits before it looks at the
// watchdog.
const replySlice = 200 * time.Millisecond

// bounded lets no read of a socket wait for longer than that.
func bounded(fd int) error {
	t := unix.NsecToTimeval(int64(replySlice))
	return os.NewSyscallError("setsockopt", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &t))
}

func (s *session) readReply(ring int) error {
	var b [64]byte
	n, err := unix.Read(s.backend, b[:])
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return s.awaitReply(ring)
	}
	if err != nil || n == 0 {
		return s.c.fail(ErrEnded, "its device: reply to a call: %v", err)
	}
	m, err := wire.Decode(b[:n])
	if v, ok := m.Payload.(wire.U64); err != nil && !errors.Is(err, wire.ErrPayloadSize) || ok && v != 0 {
		return s.c.fail(ErrProtocol, "call of ring %d: answer %v, %v", ring, m, err)
	}
	s.c.calling = false
	return nil
}

// close gives everything back.
func (s *session) close() {
	s.unmap()
	osio.Close(s.fd)
	osio.Close(s.backend)
	osio.CloseAll(s.fds)
	s.fd, s.backend, s.fds = -1, -1, nil
}
