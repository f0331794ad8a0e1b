package frame

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestPlainAgainstAny changes bytes of a plain frame, and its length, and
// compares the short way of parsing and hashing it with the long one.
func TestPlainAgainstAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := TCPSpec{
			Src: V4([4]byte{192, 0, 2, 1}), Dst: V4([4]byte{198, 51, 100, 7}), SrcPort: 4711, DstPort: 80,
			Seq: Seq(rapid.Uint32().Draw(t, "seq")), Ack: 9, Flags: TCPAck | TCPPsh, Window: 77, TOS: 0x12,
			Timestamps: rapid.Bool().Draw(t, "timestamps"), Absent: rapid.IntRange(0, 70000).Draw(t, "payload"),
		}
		b := append(AppendTCP(nil, &spec), make([]byte, rapid.IntRange(0, 40).Draw(t, "more"))...)
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			b[rapid.IntRange(12, 53).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		b = b[:rapid.IntRange(0, len(b)).Draw(t, "len")]
		var plain, any Info
		ok := parseAny(b, &any)
		if Parse(b, &plain) != ok || plain != any {
			t.Fatalf("%x:\n%+v, want %v %+v", b, plain, ok, any)
		}
		k, _ := any.Key(b)
		if want := k.Hash(); any.Layer >= LayerIP && FlowHash(b, &any) != want {
			t.Fatalf("%x: hash %#x, want %#x", b, FlowHash(b, &any), want)
		}
	})
}

// TestPutPlain compares the headers of a plain frame with those that the long
// way writes, which a frame without room goes.
func TestPutPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u32 := func(name string) uint32 { return rapid.Uint32().Draw(t, name) }
		spec := TCPSpec{
			SrcMAC: MAC{2, 3, 4, 5, 6, byte(u32("mac"))}, DstMAC: MAC{byte(u32("mac"))},
			Src: V4([4]byte{byte(u32("src")), 2, 3, 4}), Dst: V4([4]byte{byte(u32("dst")), 8, 9, 10}),
			TOS: uint8(u32("tos")), TTL: uint8(u32("ttl")), ID: uint16(u32("id")),
			SrcPort: uint16(u32("port")), DstPort: uint16(u32("port")), Seq: Seq(u32("seq")), Ack: Seq(u32("ack")),
			Flags: uint8(u32("flags")), Window: uint16(u32("window")), Timestamps: true, TSVal: u32("ts"), TSEcr: u32("ts"),
			Absent: rapid.IntRange(0, 600000).Draw(t, "payload"), Partial: rapid.Bool().Draw(t, "partial"),
		}
		want := AppendTCP([]byte{1, 2, 3}, &spec)
		got := AppendTCP(append(make([]byte, 0, 100), 1, 2, 3), &spec)
		if !bytes.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
	})
}
