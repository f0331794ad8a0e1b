package qemuguest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetbench/vnetbench/hostnet/pcap"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/qemuguest"
)

// TestCapture captures both sides of the device behind real kernels, once with a
// port that takes every offload and once with one that takes none, and has
// another implementation read the file: every checksum is right, what the port
// gets is what the guest sent, and for a port that cannot cut large packets they
// are cut.
func TestCapture(t *testing.T) {
	for _, kernel := range []string{"6.1", "6.12"} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s plain %v", kernel, plain), func(t *testing.T) {
				s := scenario(1, "kernel", kernel, "write", "16k", "warmup", "20ms", "duration", "100ms")
				needGuest(t, s.Kernel)
				var file bytes.Buffer
				w, err := pcap.NewWriter(&file, pcap.Config{Stamp: pcap.WallClock()})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
				defer cancel()
				g := qemuguest.New(qemuguest.Config{PlainPort: plain})
				if _, err := g.Run(ctx, s, vmtest.Options{Log: testLog{t}, Observer: w}); err != nil {
					t.Fatal(err)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				c := readCapture(t, file.Bytes())
				c.check(t, plain)
			})
		}
	}
}

// capture is what a file says of the two directions at the two sides.
type capture struct {
	sides [2][2]tally // by netdev.Point, and by netdev.Dir
}

// tally is the frames of one direction at one side.
type tally struct {
	frames, gso, partial int
	pieces               int   // that its frames become
	payload              int64 // TCP payload bytes
	longest              int
	headers              int // frames with a header that is not all zero, num_buffers aside
}

func (c *capture) check(t *testing.T, plain bool) {
	t.Helper()
	sent, out := &c.sides[netdev.AtGuest][netdev.DirTX], &c.sides[netdev.AtPort][netdev.DirTX]
	back, in := &c.sides[netdev.AtPort][netdev.DirRX], &c.sides[netdev.AtGuest][netdev.DirRX]
	t.Logf("guest sent %+v, port got %+v; port gave %+v, guest got %+v", *sent, *out, *back, *in)
	if sent.gso == 0 || sent.partial == 0 || in.frames == 0 {
		t.Error("no large packets, no partial checksums or nothing received: nothing was tested")
	}
	if sent.payload != out.payload {
		t.Errorf("the guest sent %d bytes of payload, the port got %d", sent.payload, out.payload)
	}
	if back.frames != in.frames || back.payload != in.payload {
		t.Errorf("the port gave %d frames of %d bytes, the guest got %d of %d", back.frames, back.payload, in.frames, in.payload)
	}
	if !plain {
		if *sent != *out {
			t.Error("a port that takes offloads got something else than the guest sent")
		}
		return
	}
	if out.gso != 0 || out.partial != 0 || out.headers != 0 || out.longest > 1514 || out.frames != sent.pieces {
		t.Errorf("the port got %d frames, want %d, and none that is large or lacks its checksum", out.frames, sent.pieces)
	}
}

// readCapture reads a file and verifies each packet in it.
func readCapture(t *testing.T, b []byte) *capture {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(b), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	var c capture
	for n := 0; ; n++ {
		data, ci, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return &c
		}
		if err != nil {
			t.Fatal(err)
		}
		h, ok := pcap.ParseHeader(opts.Comments[0])
		if !ok || ci.Length != len(data) {
			t.Fatalf("packet %d: comment %q, %d of %d bytes", n, opts.Comments, len(data), ci.Length)
		}
		dir := netdev.DirTX
		if opts.Flags.Direction == pcapgo.NgEpbFlagDirectionInbound {
			dir = netdev.DirRX
		}
		p := verify(t, n, data, h)
		c.sides[ci.InterfaceIndex][dir].add(p, data, h)
	}
}

// verify checks every checksum of a packet, one that is partial after it was
// completed in the plainest way.
func verify(t *testing.T, n int, data []byte, h virtio.NetHdr) gopacket.Packet {
	t.Helper()
	if h.Flags&virtio.HdrNeedsCSum != 0 {
		complete(data, int(h.CSumStart), int(h.CSumOffset))
	}
	p := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default)
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *layers.TCP:
			_ = l.SetNetworkLayerForChecksum(p.NetworkLayer())
		case *layers.UDP:
			_ = l.SetNetworkLayerForChecksum(p.NetworkLayer())
		case *layers.ICMPv6:
			_ = l.SetNetworkLayerForChecksum(p.NetworkLayer())
		}
	}
	if err, bad := p.VerifyChecksums(); err != nil || len(bad) > 0 {
		t.Fatalf("packet %d, header %+v: %v %+v\n%v", n, h, err, bad, p)
	}
	return p
}

func complete(b []byte, start, offset int) {
	sum := 0
	for i := start; i < len(b); i += 2 {
		sum += int(b[i]) << 8
		if i+1 < len(b) {
			sum += int(b[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	b[start+offset], b[start+offset+1] = byte(^sum>>8), byte(^sum)
}

func (c *tally) add(p gopacket.Packet, data []byte, h virtio.NetHdr) {
	c.frames++
	c.longest = max(c.longest, len(data))
	payload := 0
	if tcp, ok := p.Layer(layers.LayerTypeTCP).(*layers.TCP); ok {
		payload = len(tcp.Payload)
	}
	c.payload += int64(payload)
	pieces := 1
	if h.GSOType != virtio.GSONone {
		c.gso++
		pieces = (payload + int(h.GSOSize) - 1) / int(h.GSOSize)
	}
	c.pieces += pieces
	if h.Flags&virtio.HdrNeedsCSum != 0 {
		c.partial++
	}
	if h.NumBuffers = 0; h != (virtio.NetHdr{}) {
		c.headers++
	}
}
