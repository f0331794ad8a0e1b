package frame

import (
	"errors"
	"fmt"
)

// Causes for which a Segmenter refuses a frame.
var (
	ErrNotSegmentable = errors.New("frame is not unfragmented TCP or UDP")
	ErrSegmentSize    = errors.New("segment size is not between 1 and what an IP packet holds")
	ErrShortBuffer    = errors.New("buffer is too short for a segment")
)

// Segmenter cuts the payload of a large TCP or UDP frame into frames of at most
// Size payload bytes, as a network card does with TSO and USO. It is a value for
// the caller to keep and to reuse; it is not safe for concurrent use.
type Segmenter struct {
	frame []byte
	in    Info
	size  int
	next  int // offset in the payload of the next segment
	index int // of the next segment
	done  bool
}

// Reset starts over with the frame f, which Parse has filled in for and which
// must not change until the last Next. The payload reaches to the end of f,
// whatever the IP header says. It returns an error that wraps
// ErrNotSegmentable or ErrSegmentSize.
func (s *Segmenter) Reset(f []byte, in *Info, size int) error {
	*s = Segmenter{done: true}
	if in.Layer != LayerL4 || in.Fragment || in.Payload > len(f) {
		return ErrNotSegmentable
	}
	size = min(size, max(1, len(f)-in.Payload))
	if size <= 0 || in.Payload-in.L3+size > 0xffff {
		return fmt.Errorf("%d: %w", size, ErrSegmentSize)
	}
	s.frame, s.in, s.size, s.done = f, *in, size, false
	return nil
}

// Count returns the number of segments of the frame: 1 if it has no payload.
func (s *Segmenter) Count() int {
	if s.size == 0 {
		return 0
	}
	return max(1, (len(s.frame)-s.in.Payload+s.size-1)/s.size)
}

// Next writes the next segment, a whole frame with checksums, to dst, and
// returns its length in bytes; n is 0 after the last one. dst needs the length
// of the headers and the segment size; else the error wraps ErrShortBuffer. It
// must not overlap the frame.
func (s *Segmenter) Next(dst []byte) (n int, err error) {
	if s.done {
		return 0, nil
	}
	payload := s.frame[s.in.Payload:]
	end := min(len(payload), s.next+s.size)
	n = s.in.Payload + end - s.next
	if len(dst) < n {
		return 0, fmt.Errorf("%d of %d bytes: %w", len(dst), n, ErrShortBuffer)
	}
	dst = dst[:n]
	copy(dst, s.frame[:s.in.Payload])
	copy(dst[s.in.Payload:], payload[s.next:end])
	s.done = end == len(payload)
	s.fixIP(dst)
	s.fixL4(dst)
	s.next = end
	s.index++
	return n, nil
}

// fixIP sets length, and for IPv4 identification and checksum, of a segment.
func (s *Segmenter) fixIP(b []byte) {
	n := len(b) - s.in.L3
	if s.in.Version == 6 {
		IPv6(b[s.in.L3:]).SetPayloadLen(uint16(n - IPv6Len))
		return
	}
	ip := IPv4(b[s.in.L3:])
	ip.SetTotalLen(uint16(n))
	ip.SetID(ip.ID() + uint16(s.index))
	ip.UpdateCSum()
}

// fixL4 sets sequence number and flags of a TCP segment, or the length of a
// datagram, and the checksum. FIN and PSH stay on the last segment only, CWR on
// the first.
func (s *Segmenter) fixL4(b []byte) {
	l4 := b[s.in.L4:]
	if s.in.Proto == ProtoUDP {
		UDP(l4).SetLen(uint16(len(l4)))
		UDP(l4).SetCSum(0)
		c := ^Sum(l4, s.pseudo(b))
		if c == 0 {
			c = 0xffff
		}
		UDP(l4).SetCSum(c)
		return
	}
	t := TCP(l4)
	flags := s.in.Flags
	if !s.done {
		flags &^= TCPFin | TCPPsh
	}
	if s.index > 0 {
		flags &^= TCPCwr
	}
	t.SetFlags(flags)
	t.SetSeq(s.in.Seq.Add(uint32(s.next)))
	t.SetCSum(0)
	t.SetCSum(^Sum(l4, s.pseudo(b)))
}

func (s *Segmenter) pseudo(b []byte) uint16 {
	k, _ := s.in.Key(b)
	return PseudoSum(k.Src, k.Dst, s.in.Proto, uint32(len(b)-s.in.L4))
}
