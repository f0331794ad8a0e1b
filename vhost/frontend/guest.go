package frontend

import (
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// Guest is a connection, a memory and the rings in it.
type Guest struct {
	*Conn
	Memory   *Memory
	Rings    map[int]*Ring
	Features virtio.Features       // acknowledged, without the transport's bit
	Protocol wire.ProtocolFeatures // acknowledged
}

// NewGuest connects to the back-end at path with a memory of size bytes.
func NewGuest(path string, size uint64) (*Guest, error) {
	c, err := Dial(path)
	if err != nil {
		return nil, err
	}
	return NewGuestOn(c, size)
}

// NewGuestOn makes a guest of a connection, which it takes over, and a memory of
// size bytes.
func NewGuestOn(c *Conn, size uint64) (*Guest, error) {
	m, err := NewMemory(0x1000000, size)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return &Guest{Conn: c, Memory: m, Rings: make(map[int]*Ring)}, nil
}

// Close closes everything that the guest has. A second call does nothing.
func (g *Guest) Close() {
	_ = g.Conn.Close()
	for _, r := range g.Rings {
		r.Close()
	}
	g.Memory.Close()
}

// Negotiate acknowledges those of the wanted features that the back-end offers.
func (g *Guest) Negotiate(want virtio.Features, protocol wire.ProtocolFeatures) error {
	offer, err := g.AskNumber(wire.GetFeatures)
	if err != nil {
		return err
	}
	if !virtio.Features(offer).Has(wire.FeatureProtocol) {
		return fmt.Errorf("back-end offers no protocol features: %#x", offer)
	}
	has, err := g.AskNumber(wire.GetProtocolFeatures)
	if err != nil {
		return err
	}
	g.Protocol = protocol & wire.ProtocolFeatures(has)
	if err := g.Send(wire.Message{Request: wire.SetProtocolFeatures, Payload: wire.U64(g.Protocol)}); err != nil {
		return err
	}
	g.Acks = g.Protocol.Has(wire.ProtocolReplyAck)
	if err := g.Tell(wire.SetOwner, wire.Empty{}); err != nil {
		return err
	}
	g.Features = want & virtio.Features(offer) &^ wire.FeatureProtocol
	return g.Tell(wire.SetFeatures, wire.U64(g.Features|wire.FeatureProtocol))
}

// ShareMemory sends the memory table.
func (g *Guest) ShareMemory() error {
	t, fds := g.Memory.Table()
	return g.Tell(wire.SetMemTable, t, fds...)
}

// AddRing lays ring i into memory; the back-end is told by Start.
func (g *Guest) AddRing(i int, size uint16, bufBytes uint64) (*Ring, error) {
	r, err := NewRing(g.Memory, i, size, g.Features, bufBytes)
	if err == nil {
		g.Rings[i] = r
	}
	return r, err
}

// Start tells the back-end everything about a ring, in QEMU's order, with the
// base (r.Config.Base for a new ring), and enables it.
func (g *Guest) Start(r *Ring, base uint32) error {
	i := uint32(r.Index)
	fd := wire.VringFD{Index: uint8(r.Index)}
	for _, m := range []struct {
		r   wire.Request
		p   wire.Payload
		fds []int
	}{
		{wire.SetVringNum, wire.VringState{Index: i, Num: uint32(r.Config.Size)}, nil},
		{wire.SetVringBase, wire.VringState{Index: i, Num: base}, nil},
		{wire.SetVringAddr, r.Addr(), nil},
		{wire.SetVringErr, fd, []int{r.Err}},
		{wire.SetVringKick, fd, []int{r.Kick}},
		{wire.SetVringCall, fd, []int{r.Call}},
	} {
		if err := g.Tell(m.r, m.p, m.fds...); err != nil {
			return err
		}
	}
	return g.Enable(r.Index, true)
}

// Enable enables or disables ring i.
func (g *Guest) Enable(i int, on bool) error {
	v := wire.VringState{Index: uint32(i)}
	if on {
		v.Num = 1
	}
	return g.Tell(wire.SetVringEnable, v)
}

// Stop stops ring i and returns the base to go on from.
func (g *Guest) Stop(i int) (base uint32, err error) {
	p, err := g.Ask(wire.GetVringBase, wire.VringState{Index: uint32(i)})
	if err != nil {
		return 0, err
	}
	return p.(wire.VringState).Num, nil
}

// Resume takes the guest to another connection, after the back-end that it had
// has gone: the memory and the rings are the same, and so is what they hold. What
// was negotiated is acknowledged again; memory and rings are the caller's to
// share and start anew, the latter at their Ring.ResumeBase.
func (g *Guest) Resume(c *Conn) error {
	_ = g.Conn.Close()
	c.EmptyRights = g.EmptyRights
	g.Conn = c
	return g.Negotiate(g.Features, g.Protocol)
}
