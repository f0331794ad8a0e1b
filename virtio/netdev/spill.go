package netdev

import (
	"encoding/binary"

	"github.com/vnetbench/vnetbench/virtio"
)

// spillHdr is the length in bytes of what stands before each frame: its length
// and its net header.
const spillHdr = 4 + virtio.NetHdrLen

// spill keeps frames that wait for buffers, in order, in a ring of bytes that
// is allocated when it is first needed.
type spill struct {
	buf    []byte
	limit  int // length of buf
	head   int // offset of the first frame
	used   int // bytes in use
	frames int
}

// put appends a frame; false means that there is no room.
func (s *spill) put(h *virtio.NetHdr, f []byte) bool {
	n := spillHdr + len(f)
	if s.used+n > s.limit {
		return false
	}
	if s.buf == nil {
		s.buf = make([]byte, s.limit)
	}
	var rec [spillHdr]byte
	binary.LittleEndian.PutUint32(rec[:], uint32(len(f)))
	h.Encode(rec[4:])
	s.write(s.used, rec[:])
	s.write(s.used+spillHdr, f)
	s.used += n
	s.frames++
	return true
}

// write copies b to the offset from the first frame on, around the end.
func (s *spill) write(off int, b []byte) {
	at := (s.head + off) % len(s.buf)
	n := copy(s.buf[at:], b)
	copy(s.buf, b[n:])
}

func (s *spill) read(off int, b []byte) {
	at := (s.head + off) % len(s.buf)
	n := copy(b, s.buf[at:])
	copy(b[n:], s.buf)
}

// frontLen returns the length in bytes of the first frame. There is one.
func (s *spill) frontLen() int {
	var b [4]byte
	s.read(0, b[:])
	return int(binary.LittleEndian.Uint32(b[:]))
}

// pop moves the first frame to f, which has its length, and its header to h.
func (s *spill) pop(h *virtio.NetHdr, f []byte) {
	var rec [spillHdr]byte
	s.read(0, rec[:])
	h.Decode(rec[4:])
	s.read(spillHdr, f)
	n := spillHdr + len(f)
	s.head = (s.head + n) % len(s.buf)
	s.used -= n
	s.frames--
}

func (s *spill) clear() { s.head, s.used, s.frames = 0, 0, 0 }
