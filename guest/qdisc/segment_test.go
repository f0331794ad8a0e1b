package qdisc_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"pgregory.net/rapid"
)

// keeper is a driver that keeps what it is given.
type keeper struct{ got []*skb.SKB }

func (k *keeper) Stopped() bool    { return false }
func (k *keeper) BulkBytes() int64 { return 0 }
func (k *keeper) Xmit(_ vtime.Time, p *skb.SKB, _ bool) qdisc.Verdict {
	k.got = append(k.got, p)
	return qdisc.Verdict{}
}

// owner adds up what it is told is free.
type owner struct {
	bytes int32
	calls int
}

func (o *owner) Freed(p *skb.SKB) { o.bytes += p.TrueSize; o.calls++ }

func addr(v6 bool, last byte) frame.Addr {
	if v6 {
		return frame.Addr{0: 0xfd, 15: last}
	}
	return frame.V4([4]byte{10, 0, 0, last})
}

// build makes the packet of spec with its payload in fragments of 1000 bytes.
func build(pool *skb.Pool, spec *frame.TCPSpec, mss int) *skb.SKB {
	p := pool.Get()
	p.Len, p.GSOSize = int32(spec.Absent), int32(mss)
	p.Segs = (p.Len + p.GSOSize - 1) / p.GSOSize
	p.Seq, p.Flags = uint32(spec.Seq), spec.Flags
	p.TrueSize = p.Len + 777
	p.HdrLen = int32(len(frame.AppendTCP(p.Hdr[:0], spec)))
	for left, at := uint32(p.Len), uint64(5000); left > 0; at += 2000 {
		n := min(left, 1000)
		p.Frags[p.NFrags] = skb.Frag{Addr: at, Len: n}
		p.NFrags++
		left -= n
	}
	return p
}

// TestSegmentsAreThoseOfTheFrameLibrary cuts a packet and compares the headers
// of every segment with those built from scratch.
func TestSegmentsAreThoseOfTheFrameLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v6 := rapid.Bool().Draw(t, "v6")
		mss := rapid.IntRange(88, 1448).Draw(t, "mss")
		spec := frame.TCPSpec{
			Src: addr(v6, 1), Dst: addr(v6, 2), ID: rapid.Uint16().Draw(t, "id"),
			SrcPort: 4000, DstPort: 5001, Seq: frame.Seq(rapid.Uint32().Draw(t, "seq")),
			Ack: 9, Window: 500, Timestamps: rapid.Bool().Draw(t, "ts"), TSVal: 7, TSEcr: 8,
			Flags:  skb.ACK | rapid.SampledFrom([]uint8{0, skb.PSH, skb.PSH | skb.FIN, skb.CWR}).Draw(t, "flags"),
			Absent: rapid.IntRange(mss+1, 16000).Draw(t, "len"), Partial: true,
		}
		var pool skb.Pool
		var dev keeper
		var own owner
		q := qdisc.New(&dev, new(counts), &pool, qdisc.Config{SoftGSO: true, Bulk: true})
		p := build(&pool, &spec, mss)
		p.Owner = &own
		truesize, segs := p.TrueSize, int(p.Segs)
		q.Xmit(0, 0, p)
		if len(dev.got) != segs || pool.Live != segs || own.calls != 0 {
			t.Fatalf("%d segments, want %d; %d buffers live, %d freed", len(dev.got), segs, pool.Live, own.calls)
		}
		payload := checkSegments(t, dev.got, spec, mss)
		for _, s := range dev.got {
			s.Free()
		}
		if payload != spec.Absent || own.bytes != truesize || own.calls != segs || pool.Live != 0 {
			t.Fatalf("payload %d of %d, charge %d of %d, %d live", payload, spec.Absent, own.bytes, truesize, pool.Live)
		}
	})
}

// checkSegments compares segments with what spec would have been cut into, and
// returns their payload bytes.
func checkSegments(t *rapid.T, got []*skb.SKB, spec frame.TCPSpec, mss int) (payload int) {
	total, flags, seq, id := spec.Absent, spec.Flags, spec.Seq, spec.ID
	at := uint32(0) // payload offset; fragments of 1000 bytes lie 2000 apart
	for i, s := range got {
		spec.Absent = min(mss, total-i*mss)
		spec.Seq, spec.ID, spec.Flags = seq.Add(uint32(i*mss)), id+uint16(i), flags
		if i > 0 {
			spec.Flags &^= skb.CWR
		}
		if i < len(got)-1 {
			spec.Flags &^= skb.PSH | skb.FIN
		}
		if d := cmp.Diff(frame.AppendTCP(nil, &spec), s.Hdr[:s.HdrLen]); d != "" {
			t.Fatalf("segment %d of %d (-want +got):\n%s", i, len(got), d)
		}
		if s.Seq != uint32(spec.Seq) || s.Flags != spec.Flags || int(s.Len) != spec.Absent || s.Segs != 1 {
			t.Fatalf("segment %d: seq %d len %d flags %#x", i, s.Seq, s.Len, s.Flags)
		}
		for _, f := range s.Frags[:s.NFrags] {
			if want := 5000 + uint64(at/1000)*2000 + uint64(at%1000); f.Addr != want {
				t.Fatalf("segment %d: payload at %d, want %d", i, f.Addr, want)
			}
			at += f.Len
		}
		payload += spec.Absent
	}
	if int(at) != payload {
		t.Fatalf("fragments of %d bytes, payload of %d", at, payload)
	}
	return payload
}

func TestHeadersThatAreNotTCPAreLeftAlone(t *testing.T) {
	for _, hdr := range [][]byte{
		make([]byte, 20),
		append([]byte{12: 0x08, 13: 0x06}, make([]byte, 40)...),
		{12: 0x08, 13: 0x00, 14: 0x4f, 60: 0}, // IPv4 header of 60 bytes, cut off
		{12: 0x86, 13: 0xdd, 60: 0},
	} {
		var pool skb.Pool
		var dev keeper
		q := qdisc.New(&dev, new(counts), &pool, qdisc.Config{SoftGSO: true})
		p := pool.Get()
		p.Len, p.Segs, p.GSOSize = 200, 2, 100
		p.HdrLen = int32(copy(p.Hdr[:], hdr))
		q.Xmit(0, 0, p)
		for len(dev.got) < 2 {
			q.Run(0)
		}
		for _, s := range dev.got {
			if d := cmp.Diff(hdr, s.Hdr[:s.HdrLen]); d != "" {
				t.Errorf("%x changed:\n%s", hdr, d)
			}
		}
	}
}
