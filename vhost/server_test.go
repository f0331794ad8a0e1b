package vhost_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

func TestTrafficBothWays(t *testing.T) {
	w := newWorld(t, 2)
	g := w.connect()
	var tx, rx [2]*frontend.Ring
	for i := range 2 {
		rx[i], tx[i] = w.start(g, 2*i), w.start(g, 2*i+1)
		if n := rx[i].Post(); n != 256 {
			t.Fatalf("posted %d buffers", n)
		}
		rx[i].Notify()
	}
	for i := range 2 {
		w.send(tx[i], 1000+i)
		if got := w.ports[i].frames.Load(); got != int64(1000+i) {
			t.Errorf("port %d got %d frames", i, got)
		}
		f := frameOf(200, byte(i))
		w.ports[i].deliver(f)
		got := w.receive(rx[i])
		if len(got) != virtio.NetHdrLen+200 || !bytes.Equal(got[virtio.NetHdrLen:], f) {
			t.Errorf("received %d bytes: % x", len(got), got[:min(len(got), 40)])
		}
	}
	s := w.srv.Stats()
	for i, p := range s.Pairs {
		if p.TX.Packets != uint64(1000+i) || p.TX.Bytes != uint64(100*(1000+i)) || p.RX.Packets != 1 {
			t.Errorf("pair %d: TX %d packets, %d bytes, RX %d", i, p.TX.Packets, p.TX.Bytes, p.RX.Packets)
		}
		if p.TX.Kicks != tx[i].Kicks || p.RX.Kicks != rx[i].Kicks {
			t.Errorf("pair %d: TX kicks %d of %d, RX kicks %d of %d", i, p.TX.Kicks, tx[i].Kicks, p.RX.Kicks, rx[i].Kicks)
		}
		if p.TX.Drops.Total() != 0 {
			t.Errorf("pair %d: drops %v", i, p.TX.Drops)
		}
	}
	if got := virtio.Features(w.ports[0].acked.Load()); got != g.Features {
		t.Errorf("port was told %v, acknowledged were %v", got, g.Features)
	}
}

func TestReceiveWaitsForBuffers(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	rx := w.start(g, 0)
	for i := range 300 {
		w.ports[0].deliver(frameOf(100, byte(i)))
	}
	time.Sleep(20 * time.Millisecond) // no buffer is there: nothing may be lost
	rx.Post()
	rx.Notify()
	for i := range 300 {
		f := w.receive(rx)
		if f[virtio.NetHdrLen+14] != byte(i) {
			t.Fatalf("frame %d has tag %d", i, f[virtio.NetHdrLen+14])
		}
		rx.Post()
		rx.Notify()
	}
	if d := w.srv.Stats().Pairs[0].RX.Drops.Total(); d != 0 {
		t.Errorf("%d frames dropped", d)
	}
}

// TestReconnect has front-ends come and go: the counters go on, the generation
// counts, and what one session negotiated is not the next one's.
func TestReconnect(t *testing.T) {
	w := newWorld(t, 1)
	for gen := 1; gen <= 3; gen++ {
		g := w.dial()
		want := everything
		if gen == 2 {
			want &^= virtio.FeatureEventIdx | virtio.FeatureMrgRxBuf
		}
		w.ok(g.Negotiate(want, vhost.ProtocolOffer))
		w.ok(g.ShareMemory())
		tx := w.start(g, 1)
		w.send(tx, 100)
		s := w.srv.Stats()
		if s.Generation != uint64(gen) || !s.Connected || s.Pairs[0].TX.Packets != uint64(100*gen) {
			t.Errorf("generation %d, connected %v, %d packets; want %d", s.Generation, s.Connected, s.Pairs[0].TX.Packets, gen)
		}
		if got := w.lastSession().Acked; got != g.Features {
			t.Errorf("session %d acknowledged %v, want %v", gen, got, g.Features)
		}
		g.Conn.Close()
		w.eventually("the session ends", func() bool { return !w.srv.Stats().Connected })
		if !errors.Is(w.lastSession().Err, vhost.ErrHangup) {
			t.Errorf("session ended with %v", w.lastSession().Err)
		}
	}
}

// TestMemoryChangeUnderTraffic sends while the memory table is sent again and
// again, with other descriptors of the same file, and while a region comes and
// goes.
func TestMemoryChangeUnderTraffic(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	extra, err := frontend.NewMemory(1<<40, 1<<20)
	w.ok(err)
	t.Cleanup(extra.Close)
	reg := wire.MemRegion{Region: extra.Region(0)}
	for i := range 100 {
		for range 64 {
			if !tx.Transmit(&virtio.NetHdr{}, frameOf(100, 1)) {
				break
			}
		}
		tx.Notify()
		switch i % 3 {
		case 0:
			w.ok(g.ShareMemory())
		case 1:
			w.ok(g.Tell(wire.AddMemReg, reg, extra.FD(0)))
		case 2:
			w.ok(g.Tell(wire.RemMemReg, reg))
		}
		if got := tx.Drain(tx.Outstanding(), 5*time.Second); tx.Outstanding() != 0 {
			t.Fatalf("round %d: %d buffers came back, %d did not", i, got, tx.Outstanding())
		}
	}
	if got := w.ports[0].frames.Load(); got != 6400 {
		t.Errorf("port got %d frames, want 6400", got)
	}
	w.ok(g.Barrier()) // the report is that of the last message but one
	if got := w.lastSession().Stats; got.MemoryChanges != 101 || got.Refused != 0 {
		t.Errorf("%+v", got)
	}
}

// TestTruncatedMemory truncates the file behind guest memory while the rings
// run. The session ends and says why; the server and another server live on.
func TestTruncatedMemory(t *testing.T) {
	w, other := newWorld(t, 1), newWorld(t, 1)
	og := other.connect()
	otx := other.start(og, 1)
	for range 3 {
		g := w.connect()
		tx := w.start(g, 1)
		w.send(tx, 10)
		// The guest's own mapping is gone as well, so it kicks blindly.
		w.ok(os.Truncate(procFD(g.Memory.FD(0)), 0))
		tx.ForceKick()
		w.endsWith(g, vhost.ErrTruncated)
		g.Close()
	}
	other.send(otx, 10)
	g := w.connect()
	w.send(w.start(g, 1), 10)
}

// TestTruncatedMemoryAtStart truncates the file before the ring starts, so that
// the first look at it faults.
func TestTruncatedMemoryAtStart(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.ring(g, 1)
	w.place(g, tx, 0)
	w.ok(os.Truncate(procFD(g.Memory.FD(0)), 4096))
	w.ok(g.Send(wire.Message{Request: wire.SetVringKick, Payload: wire.VringFD{Index: 1}}, tx.Kick))
	w.endsWith(g, vhost.ErrTruncated)
	g.Close()
	g = w.connect()
	w.send(w.start(g, 1), 10)
}

// TestTruncatedMemoryOnReceive truncates the file and lets a frame come in.
func TestTruncatedMemoryOnReceive(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	rx := w.start(g, 0)
	rx.Post()
	rx.Notify()
	w.ok(os.Truncate(procFD(g.Memory.FD(0)), 4096))
	w.ports[0].deliver(frameOf(100, 1))
	w.endsWith(g, vhost.ErrTruncated)
}

func procFD(fd int) string { return filepath.Join("/proc/self/fd", itoa(fd)) }

func countFDs(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// countMaps counts the mappings of memory files in this process.
func countMaps(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "memfd:")
}

func TestListenErrors(t *testing.T) {
	dir := socketDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("unix", filepath.Join(dir, "busy"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { busy.Close() })
	port := newTestPort(t)
	tests := []struct {
		name string
		cfg  vhost.Config
		want error
		say  string
	}{
		{"path of 108 bytes", vhost.Config{SocketPath: filepath.Join(dir, strings.Repeat("x", 107-len(dir)))}, vhost.ErrPathTooLong, "limit 107"},
		{"busy", vhost.Config{SocketPath: filepath.Join(dir, "busy")}, vhost.ErrBusy, "stop the process"},
		{"a file", vhost.Config{SocketPath: file}, vhost.ErrNotSocket, "is not a socket"},
		{"no directory", vhost.Config{SocketPath: filepath.Join(dir, "a", "b")}, nil, "mkdir -p"},
		{"descriptor closed", vhost.Config{FD: 999999}, vhost.ErrConfig, "FD 999999"},
		{"too few ports", vhost.Config{SocketPath: file, Device: netdev.Config{QueuePairs: 2}}, vhost.ErrConfig, "1 for 2 queue pairs"},
		{"protocol", vhost.Config{SocketPath: file, Protocol: wire.ProtocolSharedObject}, vhost.ErrConfig, "SHARED_OBJECT"},
		{"device", vhost.Config{SocketPath: file, Device: netdev.Config{MTU: 10}}, netdev.ErrConfig, "MTU 10"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Ports = []vhost.Port{port}
			s, err := vhost.Listen(tt.cfg)
			if err == nil {
				s.Close()
				t.Fatal("no error")
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if msg := err.Error(); !strings.Contains(msg, tt.say) || strings.Contains(msg, "\n") {
				t.Errorf("got %q, want one line with %q", msg, tt.say)
			}
		})
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the file in the way is gone: %v", err)
	}
}

// TestStaleSocket leaves a socket behind as a killed process does.
func TestStaleSocket(t *testing.T) {
	dir := socketDir(t)
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	cfg := vhost.Config{SocketPath: path, Ports: []vhost.Port{newTestPort(t)}}
	s, err := vhost.Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// Somebody puts another socket in the place of ours: it is not removed.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l2, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l2.Close()
	s.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("a socket that is not the server's was removed: %v", err)
	}
}

// TestGivenDescriptors serves a connected and a listening socket that somebody
// else made.
func TestGivenDescriptors(t *testing.T) {
	dir := socketDir(t)
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, listening := range []bool{true, false} {
		g, err := frontend.NewGuest(path, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		var f *os.File
		if listening {
			f, err = l.File()
		} else {
			c, aerr := l.AcceptUnix()
			if aerr != nil {
				t.Fatal(aerr)
			}
			f, err = c.File()
			c.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		srv, err := vhost.Listen(vhost.Config{FD: dupOf(t, f), Ports: []vhost.Port{newTestPort(t)}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- srv.Serve(ctx) }()
		if err := g.Negotiate(everything, vhost.ProtocolOffer); err != nil {
			t.Errorf("listening %v: %v", listening, err)
		}
		g.Close()
		if listening {
			cancel() // a connected one ends by itself
		}
		if err := <-done; err != nil {
			t.Errorf("listening %v: %v", listening, err)
		}
		cancel()
	}
}
