package fifo_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/vnetbench/vnetbench/hostnet/internal/fifo"
	"github.com/vnetbench/vnetbench/virtio"
)

// TestAgainstSlice holds a queue against a slice of frames.
func TestAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const room = 500
		q := fifo.New(room)
		var model [][]byte
		var scratch []byte
		used := 0
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if f := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "frame"); rapid.Bool().Draw(t, "put") {
				fits := used+16+len(f) <= room
				if q.Fits(len(f)) != fits {
					t.Fatalf("%d bytes with %d used: fits %v", len(f), used, !fits)
				}
				if !fits {
					continue
				}
				cut := rapid.IntRange(0, len(f)).Draw(t, "cut")
				q.Put(&virtio.NetHdr{GSOSize: uint16(len(f))}, [][]byte{f[:cut], f[cut:]}, len(f))
				model = append(model, f)
				used += 16 + len(f)
				continue
			}
			if q.Len() != len(model) || q.Used() != used {
				t.Fatalf("%d frames of %d bytes, want %d of %d", q.Len(), q.Used(), len(model), used)
			}
			if len(model) == 0 {
				continue
			}
			var h virtio.NetHdr
			got := q.Pop(&h, &scratch)
			if !bytes.Equal(got, model[0]) || int(h.GSOSize) != len(got) {
				t.Fatalf("popped % x with %+v, want % x", got, h, model[0])
			}
			used -= 16 + len(model[0])
			model = model[1:]
		}
		if n := q.Clear(); n != len(model) || q.Len() != 0 || !q.Fits(room-16) {
			t.Fatalf("cleared %d of %d", n, len(model))
		}
	})
}
