package netdev

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
)

// Lengths in bytes around the Ethernet header.
const (
	ethHdrLen = frame.EthernetLen
	maxL2Len  = frame.EthernetLen + 2*frame.VLANLen
	frontLen  = 256 // bytes from the start of a frame that hold its headers
)

// frameView is a frame in pieces, its net header and what was found in it. One
// is reused for all frames of a queue.
type frameView struct {
	hdr     virtio.NetHdr
	raw     virtio.NetHdr // TX: as the guest wrote it
	iov     [][]byte      // the frame, without the net header
	len     int           // bytes in it
	front   []byte        // its first bytes, in one piece
	info    frame.Info
	payload int // TCP payload bytes

	unparsed bool // it is not TCP, and nothing else is known: info and front are another's

	scratch [frontLen]byte
}

// open reads the net header off the front of a chain of total bytes, at least
// hdrLen plus an Ethernet header, and parses the frame behind it.
func (v *frameView) open(iov [][]byte, hdrLen, total int) {
	switch first := iov[0]; {
	case len(first) > hdrLen:
		v.hdr.Decode(first[:hdrLen])
		iov[0] = first[hdrLen:]
	case len(first) == hdrLen:
		v.hdr.Decode(first)
		iov = iov[1:]
	default:
		var raw [virtio.HashNetHdrLen]byte
		iov = cut(iov, raw[:hdrLen])
		v.hdr.Decode(raw[:hdrLen])
	}
	v.parse(iov, total-hdrLen)
}

// cut moves the first bytes of iov to dst, which iov is longer than, and
// returns the rest. It changes the elements of iov.
func cut(iov [][]byte, dst []byte) [][]byte {
	for len(dst) > 0 {
		n := copy(dst, iov[0])
		dst, iov[0] = dst[n:], iov[0][n:]
		if len(iov[0]) == 0 {
			iov = iov[1:]
		}
	}
	return iov
}

// parse looks at a frame of n bytes; iov may have more. The headers are read where they are if
// the first piece has them all, as every driver known lays them out, else from
// a copy.
func (v *frameView) parse(iov [][]byte, n int) {
	v.unparsed = false
	v.iov, v.len, v.front = iov, n, iov[0]
	if len(v.front) > n {
		v.front = v.front[:n]
	}
	if !frame.Parse(v.front, &v.info) && len(v.front) < n {
		v.front = gather(v.scratch[:min(n, frontLen)], iov)
		frame.Parse(v.front, &v.info)
	}
	v.payload = 0
	if v.info.Layer == frame.LayerL4 && v.info.Proto == frame.ProtoTCP {
		v.payload = n - v.info.Payload
		if len(v.front) == n {
			v.payload = v.info.PayloadLen() // without the padding of a short frame
		}
	}
}

// skip takes a frame of n bytes that is not TCP without a look at it.
func (v *frameView) skip(iov [][]byte, n int) {
	v.iov, v.len, v.payload, v.unparsed = iov, n, 0, true
}

// l3 is where the layer-3 packet starts.
func (v *frameView) l3() int { return max(v.info.L3, ethHdrLen) }

// csumInside reports whether the checksum field lies within the frame.
func (v *frameView) csumInside() bool {
	return int(v.hdr.CSumStart)+int(v.hdr.CSumOffset)+2 <= v.len
}

// count adds the frame to the counters of what was sent or delivered, and to w.
func (v *frameView) count(s *Stats, w *Work) {
	segs := 1
	if v.hdr.GSOSize > 0 {
		n, headers := v.cuts()
		segs = n
		s.GSOPackets++
		s.GSOSegs += uint64(segs)
		s.GSOBytes += uint64(v.len)
		s.GSOSegBytes += uint64(v.len + (segs-1)*headers)
		if v.payload >= BigSegs*int(v.hdr.GSOSize) {
			s.BigBytes += uint64(v.payload)
		}
	}
	s.Packets++
	s.Bytes += uint64(v.len)
	if v.hdr.Flags&virtio.HdrNeedsCSum != 0 {
		s.NeedsCSum++
	} else if v.hdr.Flags != 0 {
		s.DataValid++
	}
	s.Segs += uint64(segs)
	if !v.unparsed {
		v.countTCP(s)
	}
	w.Packets++
	w.Bytes += v.len
	w.Payload += v.payload
	w.Segs += segs
}

func (v *frameView) countTCP(s *Stats) {
	if v.payload > 0 {
		s.DataPackets++
		s.PayloadBytes += uint64(v.payload)
		s.GSOSize.Add(uint64(v.payload))
	}
	if v.info.Flags&frame.TCPAck == 0 {
		return // Flags is 0 if the frame is not TCP
	}
	s.ACKs++
	if v.payload == 0 && v.info.Flags&(frame.TCPSyn|frame.TCPFin|frame.TCPRst) == 0 {
		s.PureACKs++
	}
}
