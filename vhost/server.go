package vhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// Config describes a server. The zero value of a field is its default.
type Config struct {
	// SocketPath is where to listen, at most MaxSocketPath bytes. A stale
	// socket of our own user is replaced.
	SocketPath string
	// Client connects to the front-end that listens at SocketPath, as soon as
	// there is one, and again when it has gone, until Serve's context is done.
	Client bool
	// FD is used if SocketPath is empty: a UNIX stream socket, listening, or
	// connected to a front-end already, which is then the only one served. The
	// server takes it over.
	FD int
	// Device is the net device that each session gets anew: queue pairs,
	// features to offer, MAC, MTU, completion policy.
	Device netdev.Config
	// Ports are the host's side of the queue pairs, one for each. They outlive
	// the server, which does not close them.
	Ports []Port
	// Protocol is the offer of protocol features; 0 is ProtocolOffer. It has to be
	// a subset of that, of PostcopyOffer or of InbandOffer.
	Protocol wire.ProtocolFeatures
	// QueueNum says what GET_QUEUE_NUM counts.
	QueueNum QueueNumMode
	// LiteralBase starts split rings at the base that the front-end sends.
	// Without it they start at the used index that is in memory: a front-end
	// that reconnects may send 0 (DPDK's virtio-user) or its available index
	// (cloud-hypervisor), and what was in flight would be lost or done twice.
	LiteralBase bool
	// EnableGrace is how long a transmit ring that starts disabled is left
	// alone before its frames are discarded; 0 is the constant of that name.
	EnableGrace time.Duration
	// PollTime is how long a pair's worker that has nothing to do goes on looking
	// at its rings, without asking for kicks, before it sleeps. It is an upper
	// bound: a worker that polls in vain polls less, down to not at all, and more
	// again when kicks come soon after it went to sleep. 0 sleeps at once;
	// PollAlways never sleeps, and takes a CPU for each pair.
	PollTime time.Duration
	// SendCost is time that the workers are busy beside their work.
	SendCost SendCost
	// CPUs are what the threads of the pairs are bound to: pair i to element i,
	// from the front again when there are more pairs. Empty binds none. A CPU that
	// the process may not use ends the session with ErrConfig.
	CPUs []int
	// Once makes Serve return when the first session has ended.
	Once bool
	// Logger takes what happens to sessions; nil discards it. Nothing is
	// logged per packet.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	dev, err := netdev.New(c.Device)
	if err != nil {
		return c, err
	}
	c.Device = dev.Config()
	if n := dev.Pairs(); len(c.Ports) != n {
		return c, fmt.Errorf("%w: Ports: %d for %d queue pairs", ErrConfig, len(c.Ports), n)
	}
	if extra := c.Protocol &^ (ProtocolOffer | PostcopyOffer | InbandOffer); extra != 0 {
		return c, fmt.Errorf("%w: Protocol: %v is not implemented", ErrConfig, extra)
	}
	if c.QueueNum > QueueNumRings {
		return c, fmt.Errorf("%w: QueueNum %d is not in 0..%d", ErrConfig, c.QueueNum, QueueNumRings)
	}
	if c.Device.Policy.SharePairs > 1 {
		return c, fmt.Errorf("%w: Device.Policy: share-worker:pairs=%d: each queue pair has a thread of its own here", ErrConfig, c.Device.Policy.SharePairs)
	}
	if c.EnableGrace < 0 {
		return c, fmt.Errorf("%w: EnableGrace %v is negative", ErrConfig, c.EnableGrace)
	}
	if c.SendCost.Base < 0 || c.SendCost.PerKB < 0 {
		return c, fmt.Errorf("%w: SendCost %+v is negative", ErrConfig, c.SendCost)
	}
	if c.PollTime < 0 {
		return c, fmt.Errorf("%w: PollTime %v is negative", ErrConfig, c.PollTime)
	}
	for _, cpu := range c.CPUs {
		if !osio.HasCPU(cpu) {
			return c, fmt.Errorf("%w: CPUs: the process may not use CPU %d", ErrConfig, cpu)
		}
	}
	if c.EnableGrace == 0 {
		c.EnableGrace = EnableGrace
	}
	return c, nil
}

// Server serves one front-end after the other on one socket, which it listens
// on or, as a client, connects to. A front-end that
// connects while another one is served waits in the socket's backlog. What a
// front-end does wrong ends its session and nothing else. Stats may be called
// from any goroutine.
type Server struct {
	cfg  Config
	l    *net.UnixListener
	conn *net.UnixConn // of a connected FD, instead of l
	file *socketFile

	mu       sync.Mutex
	stats    Stats // of the sessions that have ended
	live     *runner
	linkDown bool
}

// Listen validates cfg and binds the socket, so that a front-end can connect
// from here on; it is served once Serve runs. The error says in one line what is
// wrong and what to do about it.
func Listen(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	s.stats.Pairs = make([]PairStats, cfg.Device.QueuePairs)
	switch {
	case cfg.Client:
		err = checkClient(cfg.SocketPath)
	case cfg.SocketPath != "":
		s.l, s.file, err = listen(cfg.SocketPath)
	default:
		s.l, s.conn, err = adopt(cfg.FD)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Serve serves front-ends until ctx is done, which is no error, or, if the
// server was given a connected socket, until that session has ended. The socket
// is gone when it returns. It is called once.
func (s *Server) Serve(ctx context.Context) error {
	defer s.Close()
	switch {
	case s.conn != nil:
		return s.serveConn(ctx, s.conn)
	case s.cfg.Client:
		return s.serveDialled(ctx)
	}
	return s.serveAccepted(ctx)
}

// serveAccepted serves who connects.
func (s *Server) serveAccepted(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.l.Close() })
	defer stop()
	for {
		c, err := s.l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if err != nil {
			if wait(ctx, err) {
				continue
			}
			return fmt.Errorf("accept on %s: %w", s.l.Addr(), err)
		}
		if err := s.serveConn(ctx, c); err != nil || s.cfg.Once {
			return err
		}
	}
}

// wait sleeps a little after an error of accept that may pass (too many open
// descriptors), and reports whether to try again.
func wait(ctx context.Context, err error) bool {
	var ne net.Error
	if errors.Is(err, net.ErrClosed) || !errors.As(err, &ne) {
		return false
	}
	pause(ctx, 100*time.Millisecond)
	return true
}

// Close stops listening and removes the socket, if it is still ours. It is for
// a server that never served; Serve does it by itself.
func (s *Server) Close() {
	if s.l != nil {
		s.l.Close()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	s.file.remove()
}

// errStopped is the reason of a session that the server itself ended.
var errStopped = errors.New("server stopped")

// serveConn serves one session. The error is one of ours, not of the
// front-end's doing.
func (s *Server) serveConn(ctx context.Context, c *net.UnixConn) error {
	ch, err := newChannel(c)
	if err != nil {
		c.Close()
		return err
	}
	dev, err := netdev.New(s.cfg.Device)
	if err != nil {
		c.Close()
		return err
	}
	cfg := s.cfg
	gen := s.nextGeneration()
	cfg.Logger = cfg.Logger.With("session", gen)
	r := newRunner(ch, dev, &cfg)
	r.report = SessionReport{Generation: gen, Start: time.Now()}
	s.setLive(r)
	cfg.Logger.Info("front-end connected")
	stop := context.AfterFunc(ctx, func() { r.interrupt(errStopped) })
	reason := r.run()
	stop()
	s.finish(r, reason)
	cfg.Logger.Info("session ended", "reason", reason)
	return nil
}

func (s *Server) nextGeneration() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Generation++
	return s.stats.Generation
}

func (s *Server) setLive(r *runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = r
	r.dev.SetLink(!s.linkDown)
}

// SetLink says whether the link is up, as the configuration space has it from
// here on, in later sessions too. The front-end of a present one is notified, if
// it negotiated CONFIG and BACKEND_REQ. Frames are moved in any case. It may be
// called from any goroutine.
func (s *Server) SetLink(up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.linkDown = !up
	if s.live != nil {
		s.live.post(event{kind: linkChanged, up: up})
	}
}

// finish moves the counters of a session that has ended to the server's own.
func (s *Server) finish(r *runner, reason error) {
	pairs, ctrl := r.snapshot()
	rep := r.reportNow()
	rep.End, rep.Err, rep.Reason = time.Now(), reason, reason.Error()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = nil
	s.stats.merge(pairs, ctrl)
	if len(s.stats.Sessions) == historyMax {
		s.stats.Sessions = s.stats.Sessions[1:]
	}
	s.stats.Sessions = append(s.stats.Sessions, rep)
}

// Stats returns a snapshot of all counters. It waits for the workers to come
// to a point where theirs can be read, which is no longer than one turn.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Pairs = slices.Clone(s.stats.Pairs)
	out.Sessions = slices.Clone(s.stats.Sessions)
	if s.live == nil {
		return out
	}
	out.Connected = true
	out.Sessions = append(out.Sessions, s.live.reportNow())
	out.Sessions = out.Sessions[max(0, len(out.Sessions)-historyMax):]
	out.merge(s.live.snapshot())
	return out
}
