package reflect_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/hostnet/reflect"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

var _ vhost.Port = (*reflect.Port)(nil)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ready reports whether a descriptor has one of the events now.
func ready(fd int, events int16) bool {
	p := osio.NewPoller(1)
	p.Set(0, fd, events)
	_ = p.Wait(0)
	return p.Events(0) != 0
}

func newPort(t *testing.T) *reflect.Port {
	p, err := reflect.New()
	check(t, err)
	t.Cleanup(func() { check(t, p.Close()) })
	return p
}

// TestFull fills a port whose guest takes nothing, and then gives the guest up.
func TestFull(t *testing.T) {
	p := newPort(t)
	check(t, p.Enable(true))
	f := [][]byte{make([]byte, 14), make([]byte, 10_000)}
	sent := 0
	for ; sent < 1000; sent++ {
		if _, r := p.Send(0, &virtio.NetHdr{}, f, 0); r == netdev.Full {
			break
		}
	}
	p.Flush(0)
	if want := reflect.DefaultRoom / (10_014 + 16); sent != want {
		t.Errorf("took %d frames, want %d", sent, want)
	}
	if ready(p.TxFD(), unix.POLLOUT) || !ready(p.RxFD(), unix.POLLIN) {
		t.Error("a full port is writable, or not readable")
	}
	check(t, p.Enable(false))
	if !ready(p.TxFD(), unix.POLLOUT) || ready(p.RxFD(), unix.POLLIN) {
		t.Error("an empty port is not writable, or readable")
	}
	if got := p.Stats(); got.Lost != int64(sent) || got.Full != 1 {
		t.Errorf("%+v", got)
	}
}

// TestRoundTrip sends many frames through a device and receives them all, in
// order, with their addresses exchanged, though the port fills up on the way.
func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	p := newPort(t)
	srv, err := vhost.Listen(vhost.Config{SocketPath: path, Ports: []vhost.Port{p}, Device: netdev.Config{QueuePairs: 1}})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	g, err := frontend.NewGuest(path, 64<<20)
	check(t, err)
	defer g.Close()
	check(t, g.Negotiate(virtio.FeatureVersion1|virtio.FeatureMrgRxBuf, vhost.ProtocolOffer))
	check(t, g.ShareMemory())
	rx, err := g.AddRing(0, 256, 16<<10)
	check(t, err)
	tx, err := g.AddRing(1, 256, 16<<10)
	check(t, err)
	check(t, g.Start(rx, rx.Config.Base))
	check(t, g.Start(tx, tx.Config.Base))

	const total = 4000
	sent, got := 0, 0
	for end := time.Now().Add(20 * time.Second); got < total; {
		if time.Now().After(end) {
			t.Fatalf("%d of %d frames came back; %+v", got, total, srv.Stats().Pairs[0])
		}
		for sent < total && tx.Transmit(&virtio.NetHdr{}, numbered(sent, 2, 3)) {
			sent++
		}
		tx.Notify()
		for {
			if _, _, ok := tx.Done(); !ok {
				break
			}
		}
		if got == 0 && srv.Stats().Pairs[0].TX.FullStops == 0 {
			continue // let the port fill up
		}
		for {
			token, n, ok := rx.Done()
			if !ok {
				break
			}
			if f := rx.Buffer(token)[virtio.NetHdrLen:n]; !bytes.Equal(f, numbered(got, 3, 2)) {
				t.Fatalf("frame %d came back as %d bytes % x...", got, len(f), f[:24])
			}
			got++
		}
		rx.Post()
		rx.Notify()
	}
	cancel()
	check(t, <-done)
	if s := p.Stats(); s.Taken != total || s.Returned != total || s.Lost != 0 || s.Full == 0 {
		t.Errorf("%+v", s)
	}
}

// numbered is frame i, of a length that depends on i, from station src to dst.
func numbered(i int, dst, src byte) []byte {
	f := make([]byte, 64+i*37%9000)
	f[0], f[5], f[6], f[11], f[12], f[13] = 2, dst, 2, src, 0x88, 0xb5
	binary.BigEndian.PutUint32(f[14:], uint32(i))
	for j := 18; j < len(f); j++ {
		f[j] = byte(i + j)
	}
	return f
}
