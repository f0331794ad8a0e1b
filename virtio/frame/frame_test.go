package frame_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/virtio/frame"
)

var (
	macA  = frame.MAC{2, 0, 0, 0, 0, 1}
	macB  = frame.MAC{2, 0, 0, 0, 0, 2}
	addrA = frame.V4([4]byte{10, 0, 0, 1})
	addrB = frame.V4([4]byte{10, 0, 0, 2})
	addr6 = frame.Addr{0: 0xfd, 15: 1}
	addr7 = frame.Addr{0: 0xfd, 15: 2}
)

// spec is a data segment over IPv4 with timestamps.
func spec() frame.TCPSpec {
	return frame.TCPSpec{
		SrcMAC: macA, DstMAC: macB, Src: addrA, Dst: addrB, SrcPort: 40000, DstPort: 5001,
		Seq: 1000, Ack: 2000, Flags: frame.TCPAck | frame.TCPPsh, Window: 502,
		Timestamps: true, TSVal: 7, TSEcr: 8,
	}
}

// unhex reads hex with comments: everything after a # is one.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	var b []byte
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		part, err := hex.DecodeString(strings.Join(strings.Fields(line), ""))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, part...)
	}
	return b
}

func TestAppendTCPWire(t *testing.T) {
	s := spec()
	s.Payload = []byte("hi")
	s.Partial = true
	want := unhex(t, `
		02 00 00 00 00 02  02 00 00 00 00 01  08 00  # to, from, IPv4
		45 00 00 36  00 00 40 00                     # 54 bytes, DF
		40 06 26 c0                                  # TTL 64, TCP, checksum
		0a 00 00 01  0a 00 00 02
		9c 40 13 89                                  # ports
		00 00 03 e8  00 00 07 d0                     # seq, ack
		80 18 01 f6                                  # 32 bytes, PSH ACK, window
		14 2b 00 00                                  # sum of the pseudo-header
		01 01 08 0a  00 00 00 07  00 00 00 08        # timestamps
		68 69`)
	if got := frame.AppendTCP(nil, &s); !bytes.Equal(got, want) {
		t.Errorf("got\n%swant\n%s", hex.Dump(got), hex.Dump(want))
	}
	if s.L4() != 34 || s.HeaderLen() != 66 {
		t.Errorf("L4 at %d, %d header bytes", s.L4(), s.HeaderLen())
	}
}

func TestParseDepth(t *testing.T) {
	s := spec()
	s.Payload = make([]byte, 10)
	f := frame.AppendTCP(nil, &s)
	for n := range len(f) + 1 {
		var in frame.Info
		ok := frame.Parse(f[:n], &in)
		want := frame.LayerNone
		switch {
		case n >= 66:
			want = frame.LayerL4
		case n >= 34:
			want = frame.LayerIP
		case n >= 14:
			want = frame.LayerLink
		}
		if in.Layer != want || ok != (want == frame.LayerL4) {
			t.Errorf("%d bytes: layer %d, want %d", n, in.Layer, want)
		}
		if ok && in.PayloadLen() != n-66 {
			t.Errorf("%d bytes: payload %d", n, in.PayloadLen())
		}
	}
}

// parseKinds are frames changed in one respect, and how far they parse.
var parseKinds = map[string]struct {
	mutate func(*frame.TCPSpec) func([]byte) []byte
	layer  frame.Layer
	l4     int
	vlans  uint8
	frag   bool
}{
	"vlan": {func(s *frame.TCPSpec) func([]byte) []byte { s.VLAN = 5; return nil }, frame.LayerL4, 38, 1, false},
	"q in q": {func(s *frame.TCPSpec) func([]byte) []byte {
		s.VLAN = 5
		return func(f []byte) []byte { return insert(f, 12, 0x88, 0xa8, 0, 9) }
	}, frame.LayerL4, 42, 2, false},
	"three tags": {func(s *frame.TCPSpec) func([]byte) []byte {
		s.VLAN = 5
		return func(f []byte) []byte { return insert(f, 12, 0x88, 0xa8, 0, 9, 0x88, 0xa8, 0, 9) }
	}, frame.LayerLink, 0, 2, false},
	"ipv6": {ipv6(nil), frame.LayerL4, 54, 0, false},
	"hop by hop": {ipv6(func(f []byte) []byte {
		f[20] = 0
		return insert(f, 54, 6, 0, 1, 4, 0, 0, 0, 0)
	}), frame.LayerL4, 62, 0, false},
	"first fragment": {ipv6(func(f []byte) []byte {
		f[20] = 44
		return insert(f, 54, 6, 0, 0, 1, 0, 0, 0, 1)
	}), frame.LayerL4, 62, 0, true},
	"later fragment": {ipv6(func(f []byte) []byte {
		f[20] = 44
		return insert(f, 54, 6, 0, 5, 1, 0, 0, 0, 1)
	}), frame.LayerIP, 62, 0, true},
	"atomic fragment": {ipv6(func(f []byte) []byte {
		f[20] = 44
		return insert(f, 54, 6, 0, 0, 0, 0, 0, 0, 1)
	}), frame.LayerL4, 62, 0, false},
	"endless extensions": {ipv6(func(f []byte) []byte {
		f[20] = 60
		for range 9 {
			f = insert(f, 54, 60, 0, 1, 4, 0, 0, 0, 0)
		}
		return f
	}), frame.LayerLink, 118, 0, false},
	"ipv4 fragment": {func(*frame.TCPSpec) func([]byte) []byte {
		return func(f []byte) []byte { f[21] = 1; return f }
	}, frame.LayerIP, 34, 0, true},
	"header length beyond": {func(*frame.TCPSpec) func([]byte) []byte {
		return func(f []byte) []byte { f[46] = 0xf0; return f }
	}, frame.LayerIP, 34, 0, false},
	"header length below": {func(*frame.TCPSpec) func([]byte) []byte {
		return func(f []byte) []byte { f[46] = 0x40; return f }
	}, frame.LayerIP, 34, 0, false},
	"total length below": {func(*frame.TCPSpec) func([]byte) []byte {
		return func(f []byte) []byte { f[17] = 19; return f }
	}, frame.LayerLink, 0, 0, false},
	"version": {func(*frame.TCPSpec) func([]byte) []byte {
		return func(f []byte) []byte { f[14] = 0x55; return f }
	}, frame.LayerLink, 0, 0, false},
}

func TestParseKinds(t *testing.T) {
	for name, tc := range parseKinds {
		t.Run(name, func(t *testing.T) {
			s := spec()
			s.Payload = []byte("x")
			change := tc.mutate(&s)
			f := frame.AppendTCP(nil, &s)
			if change != nil {
				f = change(f)
			}
			var in frame.Info
			frame.Parse(f, &in)
			if in.Layer != tc.layer || in.L4 != tc.l4 || in.VLANs != tc.vlans || in.Fragment != tc.frag {
				t.Errorf("%+v, want %+v", in, tc)
			}
		})
	}
}

// ipv6 makes the frame one of IPv6 and then changes it; the payload length
// grows with the frame.
func ipv6(change func([]byte) []byte) func(*frame.TCPSpec) func([]byte) []byte {
	return func(s *frame.TCPSpec) func([]byte) []byte {
		s.Src, s.Dst = addr6, addr7
		if change == nil {
			return nil
		}
		return func(f []byte) []byte {
			f = change(f)
			binary.BigEndian.PutUint16(f[18:], uint16(len(f)-54))
			return f
		}
	}
}

func insert(f []byte, at int, b ...byte) []byte {
	return append(bytes.Clone(f[:at]), append(b, f[at:]...)...)
}

func TestParsePadding(t *testing.T) {
	s := spec()
	f := append(frame.AppendTCP(nil, &s), make([]byte, 20)...)
	var in frame.Info
	if !frame.Parse(f, &in) || in.PayloadLen() != 0 {
		t.Errorf("padding counted as payload: %+v", in)
	}
}

func TestFlowKey(t *testing.T) {
	s := spec()
	var in frame.Info
	f := frame.AppendTCP(nil, &s)
	frame.Parse(f, &in)
	k, ok := in.Key(f)
	want := frame.FlowKey{Src: addrA, Dst: addrB, SrcPort: 40000, DstPort: 5001, Proto: frame.ProtoTCP}
	if !ok || k != want {
		t.Fatalf("key %+v", k)
	}
	s.Src, s.Dst, s.SrcPort, s.DstPort = s.Dst, s.Src, s.DstPort, s.SrcPort
	f = frame.AppendTCP(nil, &s)
	frame.Parse(f, &in)
	if back, _ := in.Key(f); back.Reverse() != k {
		t.Errorf("reverse of the answer's key is %+v", back.Reverse())
	}
	if in.Layer = frame.LayerLink; frame.FlowHash(f, &in) != 0 {
		t.Error("hash without an IP header")
	}
}

// TestFlowHashSpread puts flows that differ in one port only into buckets, by the
// high bits as steering does: no bucket may be far from the mean.
func TestFlowHashSpread(t *testing.T) {
	const flows, buckets = 8192, 16
	for _, base := range []frame.FlowKey{
		{Src: addrA, Dst: addrB, DstPort: 5001, Proto: frame.ProtoTCP},
		{Src: addr6, Dst: addr7, DstPort: 5001, Proto: frame.ProtoUDP},
	} {
		var n [buckets]int
		for i := range flows {
			k := base
			k.SrcPort = uint16(32768 + i)
			n[uint64(k.Hash())*buckets>>32]++
		}
		for i, v := range n {
			if v < flows/buckets*8/10 || v > flows/buckets*12/10 {
				t.Errorf("bucket %d has %d of %d flows", i, v, flows)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	s := spec()
	s.SACK = []frame.SACKBlock{{1, 2}, {3, 4}, {5, 6}, {7, 8}}
	f := frame.AppendTCP(nil, &s)
	var o frame.Options
	if !frame.ParseOptions(frame.TCP(f[34:]).Options(), &o) {
		t.Fatal("options refused")
	}
	if !o.Timestamps || o.TSVal != 7 || o.TSEcr != 8 || o.NSACK != 3 || o.SACK[2] != s.SACK[2] {
		t.Errorf("options %+v", o)
	}
	s = spec()
	s.MSS, s.SACKPermitted, s.HasWScale, s.WScale, s.Flags = 1460, true, true, 7, frame.TCPSyn
	f = frame.AppendTCP(nil, &s)
	frame.ParseOptions(frame.TCP(f[34:]).Options(), &o)
	if o.MSS != 1460 || !o.SACKPermitted || !o.HasWScale || o.WScale != 7 || len(f) != 34+20+20 {
		t.Errorf("SYN of %d bytes: %+v", len(f), o)
	}
	for _, bad := range []string{"02", "0204", "020305", "0200", "08020000", "050a00", "0501", "0303"} {
		b, _ := hex.DecodeString(bad)
		if frame.ParseOptions(b, &o) {
			t.Errorf("options %s accepted", bad)
		}
	}
}

func TestBigLength(t *testing.T) {
	for _, s := range []frame.TCPSpec{{Src: addrA, Dst: addrB}, {Src: addr6, Dst: addr7}} {
		s.Absent = 100000
		var in frame.Info
		if f := frame.AppendTCP(nil, &s); !frame.Parse(f, &in) || in.End != len(f) {
			t.Errorf("frame of more than 64 KiB: %+v", in)
		}
	}
}

func TestSegmenterRefuses(t *testing.T) {
	s := spec()
	s.Payload = make([]byte, 3000)
	f := frame.AppendTCP(nil, &s)
	var in frame.Info
	frame.Parse(f, &in)
	var g frame.Segmenter
	for _, size := range []int{0, -1} {
		if err := g.Reset(f, &in, size); !errors.Is(err, frame.ErrSegmentSize) {
			t.Errorf("size %d: %v", size, err)
		}
	}
	if n, err := g.Next(nil); n != 0 || err != nil || g.Count() != 0 {
		t.Errorf("Next after a refusal: %d, %v", n, err)
	}
	if err := g.Reset(f, &in, 1000); err != nil || g.Count() != 3 {
		t.Fatalf("%v, %d segments", err, g.Count())
	}
	if _, err := g.Next(make([]byte, 1000)); !errors.Is(err, frame.ErrShortBuffer) {
		t.Errorf("short buffer: %v", err)
	}
	in.Fragment = true
	if err := g.Reset(f, &in, 1000); !errors.Is(err, frame.ErrNotSegmentable) {
		t.Errorf("fragment: %v", err)
	}
	big := spec()
	big.Payload = make([]byte, 70000)
	f = frame.AppendTCP(nil, &big)
	frame.Parse(f, &in)
	if err := g.Reset(f, &in, 65535); !errors.Is(err, frame.ErrSegmentSize) {
		t.Errorf("segment of more than an IP packet: %v", err)
	}
}

func TestNoAllocs(t *testing.T) {
	s := spec()
	s.Payload = make([]byte, 4000)
	buf, seg := make([]byte, 0, 8192), make([]byte, 2048)
	var in frame.Info
	var g frame.Segmenter
	n := testing.AllocsPerRun(100, func() {
		f := frame.AppendTCP(buf[:0], &s)
		frame.Parse(f, &in)
		frame.FlowHash(f, &in)
		if g.Reset(f, &in, 1448) != nil {
			t.Fatal("refused")
		}
		for {
			if n, _ := g.Next(seg); n == 0 {
				break
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per frame", n)
	}
}
