// Package fifo is a queue of frames with their net headers in a ring of bytes. It
// is without file descriptors, clock, goroutines and locks, and allocates when it
// is made and for the longest frame only.
package fifo

import (
	"encoding/binary"

	"github.com/vnetbench/vnetbench/virtio"
)

// record is what stands before each frame: its length and its net header.
const record = 4 + virtio.NetHdrLen

// Queue holds frames in order. It is not safe for concurrent use.
type Queue struct {
	buf    []byte
	head   int // offset of the first record
	used   int // bytes in use
	frames int
}

// New makes a queue with room for some bytes of frames and 16 more for each.
func New(bytes int) *Queue { return &Queue{buf: make([]byte, bytes)} }

// Len returns the number of frames.
func (q *Queue) Len() int { return q.frames }

// Used returns the bytes that they take, of the Cap that there are.
func (q *Queue) Used() int { return q.used }

// Cap returns the bytes that there are for frames and 16 more for each.
func (q *Queue) Cap() int { return len(q.buf) }

// Fits reports whether a frame of n bytes can be put now.
func (q *Queue) Fits(n int) bool { return q.used+record+n <= len(q.buf) }

// Ever reports whether a frame of n bytes could be put if the queue were empty.
func (q *Queue) Ever(n int) bool { return record+n <= len(q.buf) }

// Put copies a frame of n bytes to the end. It must fit.
func (q *Queue) Put(h *virtio.NetHdr, iov [][]byte, n int) {
	var rec [record]byte
	binary.LittleEndian.PutUint32(rec[:], uint32(n))
	h.Encode(rec[4:])
	q.append(rec[:])
	for _, b := range iov {
		q.append(b)
	}
	q.frames++
}

func (q *Queue) append(b []byte) {
	at := (q.head + q.used) % len(q.buf)
	n := copy(q.buf[at:], b)
	copy(q.buf, b[n:])
	q.used += len(b)
}

// Pop removes the first frame, of which there is one, and returns it in scratch,
// which grows to what was needed once.
func (q *Queue) Pop(h *virtio.NetHdr, scratch *[]byte) []byte {
	var rec [record]byte
	q.read(rec[:])
	h.Decode(rec[4:])
	n := int(binary.LittleEndian.Uint32(rec[:]))
	if len(*scratch) < n {
		*scratch = make([]byte, n)
	}
	f := (*scratch)[:n]
	q.read(f)
	q.frames--
	return f
}

func (q *Queue) read(b []byte) {
	n := copy(b, q.buf[q.head:])
	copy(b[n:], q.buf)
	q.head = (q.head + len(b)) % len(q.buf)
	q.used -= len(b)
}

// Clear removes all frames and returns how many there were.
func (q *Queue) Clear() (n int) {
	n = q.frames
	q.head, q.used, q.frames = 0, 0, 0
	return n
}
