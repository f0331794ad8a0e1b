package simguest

import "testing"

// Buffers that follow each other in a page are one fragment of a packet; the last one
// of a page is longer by what is left there, and a packet that goes on in the next page
// has one fragment more (receive_mergeable, drivers/net/virtio_net.c, v6.1).
func TestRxBuffersMakeFragments(t *testing.T) {
	b := newRxBuffers(0)
	for i, c := range []struct{ frame, truesize, frags int32 }{
		{1514, headSize + 1536, 1},
		{600, headSize, 0},                               // fits the head
		{12 * 1536, headSize + 13*1536, 1},               // 15 of 21 are used
		{9 * 1500, headSize + 5*1536 + 2048 + 3*1536, 2}, // over the end of the page
	} {
		truesize, frags := b.take(c.frame)
		if truesize != c.truesize || frags != c.frags {
			t.Errorf("packet %d: %d bytes in %d fragments, want %d in %d", i, truesize, frags, c.truesize, c.frags)
		}
	}
}
