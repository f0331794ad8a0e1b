package vhost_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// TestFault007LogBaseAnswer looks at the answer to SET_LOG_BASE as it is on the
// wire: the request's number, the reply flag and the version, and a number. What
// others answer is understood as well (wire's goldens).
func TestFault007LogBaseAnswer(t *testing.T) {
	w := newWorld(t, 1)
	g := newLoggedGuest(w, everything)
	for _, flags := range []uint32{0, wire.FlagNeedReply} {
		b := wire.Message{Request: wire.SetLogBase, Flags: flags, Payload: wire.LogArea{Size: 4096}}.Append(nil)
		w.ok(g.SendBytes(b, g.Memory.FD(0)))
		m, err := g.Recv()
		w.ok(err)
		if raw := m.Append(nil); binary.LittleEndian.Uint32(raw) != 6 || binary.LittleEndian.Uint32(raw[4:]) != 5 || m.Payload != wire.U64(0) {
			t.Errorf("answer % x", raw)
		}
		w.ok(g.Barrier()) // one answer, and no other
	}
	for _, p := range []wire.Payload{wire.Empty{}, wire.U64(0), wire.LogArea{Size: 1}} {
		b := wire.Message{Request: wire.SetLogBase, Flags: wire.FlagReply, Payload: p}.Append(nil)
		if m, err := wire.Decode(b); err != nil || m.Payload != p {
			t.Errorf("%v is understood as %v, %v", p, m.Payload, err)
		}
	}
}

// TestFault163InflightBounds hands over records that are smaller than what they
// are said to be for.
func TestFault163InflightBounds(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	w.leaks(func() {
		for _, v := range []wire.Inflight{
			{NumQueues: 65535, QueueSize: 65535, MapSize: 4096}, {NumQueues: 65535, QueueSize: 65535, MapSize: 1<<64 - 1},
			{NumQueues: 2, QueueSize: 0, MapSize: 4096}, {NumQueues: 0, QueueSize: 256, MapSize: 4096},
			{NumQueues: 2, QueueSize: 256, MapSize: 4096}, {NumQueues: 2, QueueSize: 256, MapSize: 1 << 20, MapOffset: 1<<64 - 8},
			{NumQueues: 2, QueueSize: 256, MapSize: 1 << 20, MapOffset: 63 << 20}, {NumQueues: 2, QueueSize: 256, MapSize: 1 << 30, MapOffset: 64 << 20},
		} {
			if v.MapOffset == 63<<20 { // it lies in the file to the byte
				w.ok(g.Demand(wire.SetInflightFD, v, g.Memory.FD(0)))
				continue
			}
			w.refused(g, wire.SetInflightFD, v, g.Memory.FD(0))
		}
	})
	w.send(w.start(g, 1), 10)
}

// laterPort is a port that keeps what it is sent.
type laterPort struct {
	testPort
	heads []byte // the tags of the frames, as they came
}

func (p *laterPort) Send(now vtime.Time, _ *virtio.NetHdr, iov [][]byte, _ netdev.Token) (vtime.Time, netdev.SendResult) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range iov {
		if len(b) > 14 {
			p.heads = append(p.heads, b[14])
		}
	}
	return now, netdev.Later
}

func (p *laterPort) Settle(vtime.Time, *netdev.TX) int { return 0 }
func (p *laterPort) DoneFD() int                       { return p.ready }

func (p *laterPort) tags() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]byte(nil), p.heads...)
}

// TestFault166ResubmittedInOrder leaves ten chains in flight, and has the device
// after it send them again: in the order in which they were taken, each once, and
// before what the guest made available later.
func TestFault166ResubmittedInOrder(t *testing.T) {
	for name, f := range ringKinds() {
		t.Run(name, func(t *testing.T) {
			p := &laterPort{testPort: *newTestPort(t)}
			w := newWorld(t, 1, func(c *vhost.Config) { c.Ports = []vhost.Port{p} })
			g := w.dial()
			// With the bit every GET_VRING_BASE would leave chains in flight.
			w.ok(g.Negotiate(f, vhost.ProtocolOffer&^wire.ProtocolVringBaseInflight))
			w.ok(g.ShareMemory())
			record, err := g.AskInflight(2, 256)
			w.ok(err)
			t.Cleanup(record.Close)
			w.ok(g.ShareInflight(record))
			tx := w.start(g, 1)
			for i := range 10 {
				tx.Transmit(&virtio.NetHdr{}, frameOf(100, byte(i)))
			}
			tx.ForceKick()
			w.eventually("the port has them", func() bool { return len(p.tags()) == 10 })
			_, err = g.Ask(wire.GetVringBaseSkipDrain, wire.VringState{Index: 1})
			w.ok(err)
			if _, _, ok := tx.Done(); ok {
				t.Error("a chain in flight came back")
			}
			for i := range 5 {
				tx.Transmit(&virtio.NetHdr{}, frameOf(100, byte(10+i)))
			}
			w.ok(g.Resume(reconnect(w)))
			w.ok(g.ShareMemory())
			w.ok(g.ShareInflight(record))
			w.ok(g.Start(tx, tx.ResumeBase()))
			w.eventually("they are sent again", func() bool { return len(p.tags()) >= 25 })
			want := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}
			if got := p.tags(); string(got) != string(want) {
				t.Errorf("sent %v, want %v", got, want)
			}
			_, err = g.Stop(1) // which completes them
			w.ok(err)
			if got := tx.Drain(15, 5*time.Second); got != 15 || tx.Driver.Err() != nil {
				t.Errorf("%d of 15 chains came back, %v", got, tx.Driver.Err())
			}
		})
	}
}

// reconnect connects once more, as soon as the session before has ended.
func reconnect(w *world) *frontend.Conn {
	w.t.Helper()
	c, err := frontend.Dial(w.path)
	w.ok(err)
	return c
}

// TestFault164PackedReconnect connects anew to a packed ring: with a record it
// goes on where it was; without one the driver makes the ring anew, and starts it
// as virtio-user does, with the used half of the base zero, or as QEMU does.
func TestFault164PackedReconnect(t *testing.T) {
	packed, ok := ringKinds()["packed"]
	if !ok {
		t.Fatal("the device offers no packed rings")
	}
	t.Run("recorded", func(t *testing.T) {
		w := newWorld(t, 1)
		g := w.dial()
		w.ok(g.Negotiate(packed, vhost.ProtocolOffer))
		w.ok(g.ShareMemory())
		record, err := g.AskInflight(2, 256)
		w.ok(err)
		t.Cleanup(record.Close)
		w.ok(g.ShareInflight(record))
		tx := w.start(g, 1)
		for range 3 {
			w.send(tx, 100)
			w.ok(g.Resume(reconnect(w)))
			w.ok(g.ShareMemory())
			w.ok(g.ShareInflight(record))
			w.ok(g.Start(tx, tx.ResumeBase()))
		}
		w.send(tx, 1000)
		if got := w.ports[0].frames.Load(); got != 1300 {
			t.Errorf("port got %d frames, want 1300", got)
		}
	})
	for name, base := range map[string]uint32{"virtio-user": 0x8000, "QEMU": ring.StartBase(packed)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			for range 3 {
				g := w.dial()
				w.ok(g.Negotiate(packed, vhost.ProtocolOffer))
				w.ok(g.ShareMemory())
				tx := w.ring(g, 1)
				w.ok(g.Start(tx, base))
				w.send(tx, 500) // around the ring, so that wrap counters change
				g.Close()
			}
			w.eventually("all have come", func() bool { return w.ports[0].frames.Load() == 1500 })
		})
	}
}
