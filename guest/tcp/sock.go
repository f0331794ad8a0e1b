// Package tcp is a model of the sending half of a Linux TCP connection: what
// it hands to the queueing discipline, when, and how long each packet is. It
// follows the kernel decision by decision, from v3.8 to v6.18, and every
// decision that changed over the years is a switch.
//
// It is without clock, timer, goroutine, lock and input or output. An Env gives
// it the time and takes its packets; the composer calls Write for the
// application, Input for acknowledgements, TSQ for the tasklet, and Timer when
// Next says so. It knows no rings and no payload bytes: payload is lengths and
// addresses. A socket must not be used concurrently.
package tcp

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Sock is the sending half of one established connection. It implements
// skb.Owner.
type Sock struct {
	flow int32
	cfg  Config
	env  Env
	pool *skb.Pool
}

// NewSock returns a socket that is not yet connected. The pool gives the
// packets that the socket transmits and may be shared by the sockets of one
// composer. The error wraps ErrConfig, or cc.ErrUnknown.
func NewSock(flow int32, cfg Config, env Env, pool *skb.Pool) (*Sock, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Sock{flow: flow, cfg: cfg, env: env, pool: pool}, nil
}

// Flow returns the index that every packet of the socket carries.
func (s *Sock) Flow() int32 { return s.flow }

// Established starts the connection when its handshake is complete. It sends
// nothing. It reads the clock once.
func (s *Sock) Established(hs Handshake) {}

// Write is one sendmsg of n bytes in process context. It returns how many the
// socket accepted. If that is less than n the writer sleeps until
// Env.WriteSpace and then calls Write for the rest with Continue.
func (s *Sock) Write(n int, fl WriteFlags) int { return n }

// Close queues a FIN after the data that was written, and pushes it.
func (s *Sock) Close() {}

// Input processes one incoming acknowledgement in softirq context. While a
// Write is under way further up the stack it is kept for the end of it.
func (s *Sock) Input(a Ack) {}

// TSQ is the body of the TSQ tasklet for this socket (tcp_tsq_handler).
func (s *Sock) TSQ() {}

// Freed takes a packet's charge off the socket (tcp_wfree). It implements
// skb.Owner.
func (s *Sock) Freed(p *skb.SKB) {}

// Next returns when Timer wants to be called, or vtime.Never. It may change
// with every call of another method.
func (s *Sock) Next() vtime.Time { return vtime.Never }

// Timer runs what is due at now, in softirq context: retransmission, tail loss
// probe, window probe, pacing.
func (s *Sock) Timer(now vtime.Time) {}

// Done reports whether everything written, and the FIN if Close was called, is
// acknowledged.
func (s *Sock) Done() bool { return true }

// Info returns a snapshot of the socket.
func (s *Sock) Info() Info { return Info{} }
