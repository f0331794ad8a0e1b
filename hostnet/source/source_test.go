package source_test

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/hostnet/source"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

var _ vhost.Port = (*source.Port)(nil)

var guestMAC = frame.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56}

func TestLengths(t *testing.T) {
	for bytes, ok := range map[int]bool{
		source.MinBytes - 1: false, source.MinBytes: true, source.MaxPlain: true,
		source.MaxPlain + 1: true, source.MaxBytes: true, source.MaxBytes + 1: false,
	} {
		if _, err := source.New(bytes, guestMAC); errors.Is(err, source.ErrBytes) == ok {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}

// receiver starts a guest whose device is a source, with one receive ring.
func receiver(t *testing.T, bytes int, features virtio.Features) (*frontend.Ring, *vhost.Server) {
	t.Helper()
	port, err := source.New(bytes, guestMAC)
	check(t, err)
	path := filepath.Join(t.TempDir(), "s")
	srv, err := vhost.Listen(vhost.Config{SocketPath: path, Ports: []vhost.Port{port}, Device: netdev.Config{QueuePairs: 1}})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	t.Cleanup(func() { cancel(); check(t, <-done) })
	g, err := frontend.NewGuest(path, 8<<20)
	check(t, err)
	t.Cleanup(g.Close)
	check(t, g.Negotiate(features, vhost.ProtocolOffer))
	check(t, g.ShareMemory())
	rx, err := g.AddRing(0, 256, 4096)
	check(t, err)
	check(t, g.Start(rx, rx.Config.Base))
	return rx, srv
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// frames receives n frames, with their net headers, posting buffers as needed.
func frames(t *testing.T, rx *frontend.Ring, n int) [][]byte {
	t.Helper()
	var out [][]byte
	var part []byte
	parts := 0
	for end := time.Now().Add(10 * time.Second); len(out) < n; {
		rx.Post()
		rx.Notify()
		token, got, ok := rx.Done()
		if !ok {
			if time.Now().After(end) {
				t.Fatalf("%d of %d frames received", len(out), n)
			}
			rx.WaitCall(time.Millisecond)
			continue
		}
		b := rx.Buffer(token)[:got]
		if parts == 0 {
			parts = int(binary.LittleEndian.Uint16(b[10:]))
		}
		part = append(part, b...)
		if parts--; parts == 0 {
			out, part = append(out, part), nil
		}
	}
	return out
}

const plain = virtio.FeatureVersion1 | virtio.FeatureMrgRxBuf

// TestSmall receives more frames than the ring holds: none is lost on the way,
// and each is a valid datagram.
func TestSmall(t *testing.T) {
	rx, srv := receiver(t, 64, plain)
	for i, f := range frames(t, rx, 3000) {
		f = f[virtio.NetHdrLen:]
		var in frame.Info
		if len(f) != 64 || !frame.Parse(f, &in) || in.Proto != frame.ProtoUDP || in.PayloadLen() != 22 {
			t.Fatalf("frame %d of %d bytes is %+v", i, len(f), in)
		}
		if frame.Ethernet(f).Dst() != guestMAC || frame.Sum(f[frame.EthernetLen:][:frame.IPv4Len], 0) != 0xffff {
			t.Fatalf("frame %d: bad header % x", i, f)
		}
		if got := binary.BigEndian.Uint64(f[in.Payload:]); got != uint64(i) {
			t.Fatalf("frame %d has number %d", i, got)
		}
	}
	if drops := srv.Stats().Pairs[0].RX.Drops.Total(); drops != 0 {
		t.Errorf("%d frames dropped", drops)
	}
}

// TestLarge receives GSO frames in several buffers each.
func TestLarge(t *testing.T) {
	const bytes = 65226
	rx, _ := receiver(t, bytes, plain|virtio.FeatureGuestCSum|virtio.FeatureGuestTSO4)
	for i, f := range frames(t, rx, 100) {
		var h virtio.NetHdr
		h.Decode(f)
		f = f[virtio.NetHdrLen:]
		want := virtio.NetHdr{
			Flags: virtio.HdrNeedsCSum, GSOType: virtio.GSOTCPv4, HdrLen: 66, GSOSize: source.MSS,
			CSumStart: 34, CSumOffset: 16, NumBuffers: 16,
		}
		if h != want || len(f) != bytes {
			t.Fatalf("frame %d: %d bytes, header %+v", i, len(f), h)
		}
		var in frame.Info
		if !frame.Parse(f, &in) || in.Seq != frame.Seq(i*(bytes-66)) {
			t.Fatalf("frame %d: %+v", i, in)
		}
	}
}

// TestLargeWithoutTSO has the device cut for a guest that takes no GSO frames.
func TestLargeWithoutTSO(t *testing.T) {
	rx, _ := receiver(t, 4000, plain)
	for i, f := range frames(t, rx, 9) {
		if n, want := len(f)-virtio.NetHdrLen, [3]int{1514, 1514, 66 + 3934 - 2*source.MSS}[i%3]; n != want {
			t.Fatalf("segment %d has %d bytes, want %d", i, n, want)
		}
	}
}
