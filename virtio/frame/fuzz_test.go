package frame_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/virtio/frame"
)

// FuzzParse parses any bytes, and cuts what has an L4 header into segments:
// nothing panics, and every offset lies within the frame, in order.
func FuzzParse(f *testing.F) {
	s := spec()
	s.Payload = make([]byte, 100)
	f.Add(frame.AppendTCP(nil, &s), uint16(30))
	s.Src, s.Dst, s.VLAN = addr6, addr7, 3
	f.Add(frame.AppendTCP(nil, &s), uint16(0))
	seg := make([]byte, 1<<16)
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		b = b[:len(b):len(b)]
		var in frame.Info
		if !frame.Parse(b, &in) {
			frame.FlowHash(b, &in)
			return
		}
		if in.L3 < frame.EthernetLen || in.L4 <= in.L3 || in.Payload <= in.L4 || in.End < in.Payload || in.End > len(b) {
			t.Fatalf("offsets out of order: %+v", in)
		}
		if in.Proto == frame.ProtoTCP {
			var o frame.Options
			frame.ParseOptions(frame.TCP(b[in.L4:]).Options(), &o)
		}
		if size >= 64 {
			fuzzSegments(t, b, &in, int(size), seg)
		}
	})
}

func fuzzSegments(t *testing.T, b []byte, in *frame.Info, size int, seg []byte) {
	var g frame.Segmenter
	if g.Reset(b, in, size) != nil {
		return
	}
	total := 0
	for {
		n, err := g.Next(seg)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		var out frame.Info
		if !frame.Parse(seg[:n], &out) || out.Payload != in.Payload || out.End != n {
			t.Fatalf("segment %+v of %+v", out, in)
		}
		total += n - in.Payload
	}
	if total != len(b)-in.Payload {
		t.Fatalf("segments hold %d bytes of %d", total, len(b)-in.Payload)
	}
}
