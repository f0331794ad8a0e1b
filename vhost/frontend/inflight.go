package frontend

import (
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
)

// Inflight is a record of chains in flight that a back-end has made, and that the
// next one is handed.
type Inflight struct {
	fd   int
	area wire.Inflight
}

// AskInflight has the back-end make a record for some rings of at most size
// entries.
func (g *Guest) AskInflight(rings, size uint16) (*Inflight, error) {
	m := wire.Message{Request: wire.GetInflightFD, Payload: wire.Inflight{NumQueues: rings, QueueSize: size}}
	if err := g.Send(m); err != nil {
		return nil, err
	}
	answer, fds, err := g.RecvFDs()
	if err != nil {
		return nil, err
	}
	area, ok := answer.Payload.(wire.Inflight)
	if !ok || len(fds) != 1 {
		osio.CloseAll(fds)
		return nil, fmt.Errorf("answer to %v is %v with %d descriptors", m.Request, answer, len(fds))
	}
	return &Inflight{fd: fds[0], area: area}, nil
}

// ShareInflight hands the record over.
func (g *Guest) ShareInflight(f *Inflight) error { return g.Tell(wire.SetInflightFD, f.area, f.fd) }

// Close lets the record go.
func (f *Inflight) Close() { osio.Close(f.fd) }
