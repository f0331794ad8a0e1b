package vhost_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// TestInband has kicks and calls that are messages, and no descriptors for them.
func TestInband(t *testing.T) {
	w := newWorld(t, 1, func(c *vhost.Config) { c.Protocol = vhost.InbandOffer })
	g := w.dial()
	w.ok(g.Negotiate(everything, vhost.InbandOffer))
	w.ok(g.ShareMemory())
	sock, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	w.ok(err)
	channel, err := frontend.ConnOf(sock[0])
	w.ok(err)
	t.Cleanup(func() { channel.Close() })
	tx := w.ring(g, 1)
	w.ok(g.Tell(wire.SetVringNum, wire.VringState{Index: 1, Num: 256}))
	w.ok(g.Tell(wire.SetVringBase, wire.VringState{Index: 1}))
	w.ok(g.Tell(wire.SetVringAddr, tx.Addr()))
	w.ok(g.Enable(1, true))
	for round := range 3 {
		tx.EnableCalls()
		tx.Transmit(&virtio.NetHdr{}, frameOf(100, byte(round)))
		w.ok(g.Demand(wire.VringKick, wire.VringState{Index: 1}))
		if round == 0 { // the call is made when there is a channel for it
			w.eventually("the frame is sent", func() bool { return w.ports[0].frames.Load() == 1 })
			w.ok(g.Tell(wire.SetBackendReqFD, wire.Empty{}, sock[1]))
			osio.Close(sock[1])
		}
		if !channel.Waits(5 * time.Second) {
			t.Fatalf("round %d: no call", round)
		}
		m, err := channel.RecvBackend()
		w.ok(err)
		if m.Request != wire.Request(wire.BackendVringCall) || m.Payload != (wire.VringState{Index: 1}) {
			t.Errorf("round %d: %v %v", round, m.Request, m.Payload)
		}
		if _, _, ok := tx.Done(); !ok {
			t.Errorf("round %d: called for nothing", round)
		}
	}
	breakRing(tx)
	w.ok(g.Send(wire.Message{Request: wire.VringKick, Payload: wire.VringState{Index: 1}}))
	w.eventually("the error is told", func() bool {
		m, err := channel.RecvBackend()
		w.ok(err)
		return m.Request == wire.Request(wire.BackendVringErr)
	})
}
