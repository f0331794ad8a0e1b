package vhost_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(backendVariable); path != "" {
		os.Exit(beBackend(path))
	}
	goleak.VerifyTestMain(m)
}

// testPort is a port that counts what it is sent, and hands out what a test
// puts into it.
type testPort struct {
	frames atomic.Int64 // sent by the guest
	bytes  atomic.Int64
	acked  atomic.Uint64
	on     atomic.Bool
	opens  atomic.Int64
	failed atomic.Pointer[error]

	mu    sync.Mutex
	last  []byte // of the frame that the guest sent last
	queue [][]byte
	ready int // eventfd, readable while queue is not empty
}

func newTestPort(t testing.TB) *testPort {
	fd, err := osio.Eventfd(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { osio.Close(fd) })
	return &testPort{ready: fd}
}

func (p *testPort) Send(now vtime.Time, _ *virtio.NetHdr, iov [][]byte, _ netdev.Token) (vtime.Time, netdev.SendResult) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = p.last[:0]
	for _, b := range iov {
		p.last = append(p.last, b...)
	}
	p.bytes.Add(int64(len(p.last)))
	p.frames.Add(1)
	return now, netdev.Sent
}

func (p *testPort) Flush(vtime.Time) {}

func (p *testPort) Negotiated(f virtio.Features) error {
	p.acked.Store(uint64(f))
	p.failed.Store(nil)
	return nil
}

func (p *testPort) Enable(on bool) error {
	p.on.Store(on)
	if on {
		p.opens.Add(1)
	}
	return nil
}

func (p *testPort) RxFD() int    { return p.ready }
func (p *testPort) TxFD() int    { return -1 }
func (p *testPort) Close() error { return nil }

func (p *testPort) Err() error {
	if e := p.failed.Load(); e != nil {
		return *e
	}
	return nil
}

func (p *testPort) Receive(now vtime.Time, rx *netdev.RX, budget int) (n int, more bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n < budget && len(p.queue) > 0 {
		f := p.queue[0]
		iov, ok := rx.Reserve(len(f))
		if !ok {
			return n, false, nil
		}
		for rest := f; len(rest) > 0; iov = iov[1:] {
			rest = rest[copy(iov[0], rest):]
		}
		rx.Commit(len(f), &virtio.NetHdr{})
		p.queue = p.queue[1:]
		n++
	}
	if len(p.queue) > 0 {
		return n, true, nil
	}
	var buf [8]byte
	_, err = osio.ReadEvent(p.ready, &buf)
	return n, false, err
}

// deliver puts a frame where the guest will receive it from.
func (p *testPort) deliver(f []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, f)
	_ = osio.WriteEvent(p.ready)
}

// lastFrame is a copy of the frame that the guest sent last.
func (p *testPort) lastFrame() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]byte(nil), p.last...)
}

// world is a server and its ports.
type world struct {
	t     testing.TB
	path  string
	srv   *vhost.Server
	ports []*testPort
}

// newWorld starts a server of some queue pairs, which the test's end stops.
func newWorld(t testing.TB, pairs int, change ...func(*vhost.Config)) *world {
	t.Helper()
	dir := socketDir(t)
	w := &world{t: t, path: filepath.Join(dir, "s")}
	cfg := vhost.Config{SocketPath: w.path, Device: netdev.Config{QueuePairs: pairs}}
	for range pairs {
		p := newTestPort(t)
		w.ports = append(w.ports, p)
		cfg.Ports = append(cfg.Ports, p)
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if w.srv, err = vhost.Listen(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := os.Lstat(w.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("socket is still there: %v", err)
		}
	})
	return w
}

// everything is what the guests of these tests acknowledge: split rings, unless a
// test is about others.
const everything = netdev.DefaultFeatures &^ (virtio.FeatureRingPacked | virtio.FeatureInOrder)

// connect connects a guest that has negotiated, and shared its memory.
func (w *world) connect() *frontend.Guest {
	w.t.Helper()
	g := w.dial()
	w.ok(g.Negotiate(everything, vhost.ProtocolOffer))
	w.ok(g.ShareMemory())
	return g
}

// dial connects a guest that has said nothing yet.
func (w *world) dial() *frontend.Guest {
	w.t.Helper()
	g, err := frontend.NewGuest(w.path, 64<<20)
	w.ok(err)
	w.t.Cleanup(g.Close)
	return g
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// ring adds ring i to the guest without telling the back-end.
func (w *world) ring(g *frontend.Guest, i int) *frontend.Ring {
	w.t.Helper()
	r, err := g.AddRing(i, 256, 4096)
	w.ok(err)
	return r
}

// start adds ring i and starts it.
func (w *world) start(g *frontend.Guest, i int) *frontend.Ring {
	w.t.Helper()
	r := w.ring(g, i)
	w.ok(g.Start(r, r.Config.Base))
	return r
}

// frameOf is a UDP-less Ethernet frame of n bytes, told apart by its tag.
func frameOf(n int, tag byte) []byte {
	f := make([]byte, n)
	copy(f, []byte{0x52, 0x54, 0, 0x12, 0x34, 0x56, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, tag})
	for i := 15; i < n; i++ {
		f[i] = tag
	}
	return f
}

// send transmits n frames and waits until the device has given them back.
func (w *world) send(r *frontend.Ring, n int) {
	w.t.Helper()
	f := frameOf(100, 1)
	for sent := 0; sent < n; {
		batch := 0
		for batch < 32 && sent+batch < n && r.Transmit(&virtio.NetHdr{}, f) {
			batch++
		}
		r.Notify()
		if got := r.Drain(batch, 5*time.Second); got != batch {
			w.t.Fatalf("sent %d frames, %d came back; ring %d, session %+v", batch, got, r.Index, w.lastSession())
		}
		sent += batch
	}
}

// eventually waits for a condition, 5 seconds at most.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	w.t.Fatalf("not in time: %s; session %+v", what, w.lastSession())
}

// receive waits for the next frame on a receive ring.
func (w *world) receive(r *frontend.Ring) []byte {
	w.t.Helper()
	var f []byte
	w.eventually("a frame is received", func() bool {
		token, n, ok := r.Done()
		if ok {
			f = append(f, r.Buffer(token)[:n]...)
		}
		return ok
	})
	return f
}

// lastSession is the report of the newest session.
func (w *world) lastSession() vhost.SessionReport {
	s := w.srv.Stats().Sessions
	if len(s) == 0 {
		return vhost.SessionReport{}
	}
	return s[len(s)-1]
}

// lastStats are the counters of the newest session.
func (w *world) lastStats() vhost.SessionStats { return w.lastSession().Stats }

// endsWith waits for the session to end, for the reason.
func (w *world) endsWith(g *frontend.Guest, reason error) {
	w.t.Helper()
	w.ok(g.Ended())
	w.eventually("the session is in the history", func() bool { return !w.srv.Stats().Connected })
	if got := w.lastSession().Err; !errors.Is(got, reason) {
		w.t.Errorf("session ended with %v, want %v", got, reason)
	}
}

// refused checks that a request is refused and that the session lives on.
func (w *world) refused(g *frontend.Guest, r wire.Request, p wire.Payload, fds ...int) {
	w.t.Helper()
	if err := g.Demand(r, p, fds...); !errors.Is(err, frontend.ErrRefused) {
		w.t.Errorf("%v %v: got %v, want a refusal", r, p, err)
	}
	w.ok(g.Barrier())
}
