package vhost_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
)

// frontDoor is a front-end that listens.
type frontDoor struct {
	*net.UnixListener
	w *world
}

func openFrontDoor(w *world) frontDoor {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: w.path, Net: "unix"})
	w.ok(err)
	w.ok(l.SetDeadline(time.Now().Add(20 * time.Second)))
	return frontDoor{l, w}
}

// guest accepts the back-end and negotiates with it.
func (d frontDoor) guest() *frontend.Guest {
	d.w.t.Helper()
	c, err := d.AcceptUnix()
	d.w.ok(err)
	conn, err := frontend.NewConn(c)
	d.w.ok(err)
	g, err := frontend.NewGuestOn(conn, 16<<20)
	d.w.ok(err)
	d.w.t.Cleanup(g.Close)
	d.w.ok(g.Negotiate(everything, vhost.ProtocolOffer))
	d.w.ok(g.ShareMemory())
	return g
}

// newClient starts a back-end that connects to where the test listens, sooner
// or later.
func newClient(t *testing.T, once bool) (w *world, served chan error) {
	p := newTestPort(t)
	w = &world{t: t, path: filepath.Join(socketDir(t), "s"), ports: []*testPort{p}}
	var err error
	w.srv, err = vhost.Listen(vhost.Config{SocketPath: w.path, Client: true, Once: once, Ports: []vhost.Port{p}})
	w.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	served = make(chan error, 1)
	go func() { served <- w.srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return w, served
}

// TestClient has the back-end connect to a front-end that comes late, hangs up,
// and comes again at another time.
func TestClient(t *testing.T) {
	w, _ := newClient(t, false)
	time.Sleep(50 * time.Millisecond) // nobody listens yet
	for gen := range 3 {
		d := openFrontDoor(w)
		g := d.guest()
		w.send(w.start(g, 1), 10)
		g.Close()
		d.Close()
		w.eventually("the session ends", func() bool { return !w.srv.Stats().Connected })
		if got := w.srv.Stats().Generation; got != uint64(gen+1) {
			t.Errorf("generation %d, want %d", got, gen+1)
		}
	}
	if got := w.ports[0].frames.Load(); got != 30 {
		t.Errorf("port got %d frames, want 30", got)
	}
}

func TestClientOnce(t *testing.T) {
	w, served := newClient(t, true)
	d := openFrontDoor(w)
	defer d.Close()
	d.guest().Close()
	err := <-served
	served <- err
	if err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestClientErrors(t *testing.T) {
	port := []vhost.Port{newTestPort(t)}
	for _, tt := range []struct {
		path string
		want error
	}{{"", vhost.ErrConfig}, {strings.Repeat("x", 108), vhost.ErrPathTooLong}} {
		if _, err := vhost.Listen(vhost.Config{SocketPath: tt.path, Client: true, Ports: port}); !errors.Is(err, tt.want) {
			t.Errorf("%d bytes: got %v, want %v", len(tt.path), err, tt.want)
		}
	}
}
