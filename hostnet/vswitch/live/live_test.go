package live_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/hostnet/vswitch"
	"github.com/vnetbench/vnetbench/hostnet/vswitch/live"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

var _ vhost.Port = (*live.Port)(nil)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// guest is a guest with a port of the switch.
type guest struct {
	t      *testing.T
	mac    byte
	rx, tx *frontend.Ring
}

func newGuest(t *testing.T, sw *live.Switch, mac byte) *guest {
	t.Helper()
	queues, err := sw.AddPort(1)
	check(t, err)
	path := filepath.Join(t.TempDir(), "s")
	srv, err := vhost.Listen(vhost.Config{
		SocketPath: path, Ports: []vhost.Port{queues[0]}, Device: netdev.Config{QueuePairs: 1}, PollTime: 20 * time.Microsecond,
	})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		check(t, <-done)
		check(t, queues[0].Close())
	})
	g, err := frontend.NewGuest(path, 8<<20)
	check(t, err)
	t.Cleanup(g.Close)
	check(t, g.Negotiate(virtio.FeatureVersion1|virtio.FeatureMrgRxBuf, vhost.ProtocolOffer))
	check(t, g.ShareMemory())
	rx, err := g.AddRing(0, 256, 4096)
	check(t, err)
	tx, err := g.AddRing(1, 256, 4096)
	check(t, err)
	check(t, g.Start(rx, 0))
	check(t, g.Start(tx, 0))
	rx.Post()
	rx.Notify()
	check(t, g.Barrier())
	return &guest{t, mac, rx, tx}
}

// frame is the guest's frame number i to a station; 0 is all of them.
func (g *guest) frame(to byte, i int) []byte {
	f := make([]byte, 100)
	copy(f, []byte{2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, g.mac, 0x88, 0xb5, byte(i), byte(i >> 8)})
	if to == 0 {
		copy(f, []byte{255, 255, 255, 255, 255, 255})
	}
	return f
}

func (g *guest) send(to byte, i int) {
	g.t.Helper()
	for end := time.Now().Add(5 * time.Second); !g.tx.Transmit(&virtio.NetHdr{}, g.frame(to, i)); {
		if _, _, ok := g.tx.Done(); !ok && time.Now().After(end) {
			g.t.Fatal("the ring stays full")
		}
	}
	g.tx.Notify()
}

// expect receives a frame of another guest's.
func (g *guest) expect(want []byte) {
	g.t.Helper()
	for end := time.Now().Add(5 * time.Second); ; {
		if token, n, ok := g.rx.Done(); ok {
			if got := g.rx.Buffer(token)[virtio.NetHdrLen:n]; !bytes.Equal(got, want) {
				g.t.Fatalf("received % x, want % x", got[:16], want[:16])
			}
			g.rx.Post()
			g.rx.Notify()
			return
		}
		if time.Now().After(end) {
			g.t.Fatalf("guest %d: nothing received, want % x", g.mac, want[:16])
		}
		g.rx.WaitCall(time.Millisecond)
	}
}

// TestThreeGuests has guests find each other and talk in pairs: what is for one
// station comes to it alone, in order, and nothing is lost while the rings have
// room.
func TestThreeGuests(t *testing.T) {
	sw, err := live.New(vswitch.Config{})
	check(t, err)
	a, b, c := newGuest(t, sw, 1), newGuest(t, sw, 2), newGuest(t, sw, 3)
	for i, g := range []*guest{a, b, c} {
		g.send(0, i)
		for _, other := range []*guest{a, b, c} {
			if other != g {
				other.expect(g.frame(0, i))
			}
		}
	}
	for i := range 2000 {
		a.send(2, i)
		b.send(1, i)
		b.expect(a.frame(2, i))
		a.expect(b.frame(1, i))
	}
	c.send(1, 7)
	a.expect(c.frame(1, 7))
	want := vswitch.Stats{Known: 4001, Flooded: 3, Learned: 3}
	if got := sw.Stats(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := sw.PortStats(2); got.Out != 2 || got.Full != 0 {
		t.Errorf("the third port: %+v", got)
	}
}
