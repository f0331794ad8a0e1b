// Package source is the host's side of a net device that sends to the guest as
// fast as the guest takes frames, and throws away what the guest sends. It is
// without file descriptors, clock, goroutines and locks.
package source

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/hostnet/sink"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Bounds in bytes of a source's frames.
const (
	// MinBytes is the shortest frame: headers of UDP and a number of 8 bytes.
	MinBytes = udpHdr + 8
	// MaxBytes is the longest: an IPv4 packet of 64 KiB, less one byte, behind an
	// Ethernet header.
	MaxBytes = frame.EthernetLen + 65535
	// MaxPlain is the longest frame that is sent as it is; longer ones are TCP
	// and carry the request to be segmented.
	MaxPlain = frame.EthernetLen + 1500
)

// MSS is the payload in bytes of each segment of a frame that is longer than
// MaxPlain.
const MSS = 1448

const (
	udpHdr = frame.EthernetLen + frame.IPv4Len + frame.UDPLen
	tcpHdr = frame.EthernetLen + frame.IPv4Len + frame.TCPLen + 12 // timestamps
)

// ErrBytes is a length of frames that a source cannot send.
var ErrBytes = errors.New("bad frame length")

// Port sends frames that differ only in a number, and discards what it is sent,
// as its Port does. It is a netdev.Port and a vhost.Port. It is not safe for
// concurrent use.
type Port struct {
	sink.Port

	frame []byte
	few   [few][]byte // copies of it, if it is a plain one
	hdr   virtio.NetHdr
	at    int // offset of the number
	next  uint64
}

// few is how many frames are numbered at a time: a CPU reads slowly what it has
// just written in pieces of another size.
const few = 8

// New returns a source of frames of some bytes, Ethernet header included, from
// MinBytes to MaxBytes, to the station dst. Up to MaxPlain bytes they are UDP
// without a checksum and their first 8 payload bytes are a big-endian number
// that counts from 0; longer ones are GSO frames of one TCP flow, whose sequence
// number counts payload bytes. The error wraps ErrBytes.
func New(bytes int, dst frame.MAC) (*Port, error) {
	if bytes < MinBytes || bytes > MaxBytes {
		return nil, fmt.Errorf("%w: %d is not in %d..%d", ErrBytes, bytes, MinBytes, MaxBytes)
	}
	p := &Port{}
	if bytes <= MaxPlain {
		p.frame, p.at = plainFrame(bytes, dst), udpHdr
		for i := range p.few {
			p.few[i] = append([]byte(nil), p.frame...)
		}
		return p, nil
	}
	p.frame, p.at = gsoFrame(bytes, dst), frame.EthernetLen+frame.IPv4Len+4
	p.hdr = virtio.NetHdr{
		Flags: virtio.HdrNeedsCSum, GSOType: virtio.GSOTCPv4, GSOSize: MSS, HdrLen: tcpHdr,
		CSumStart: frame.EthernetLen + frame.IPv4Len, CSumOffset: frame.TCPCSumOffset,
	}
	return p, nil
}

// Addresses of the frames: from the network for benchmarks (RFC 2544).
var (
	station = frame.MAC{2, 0, 0, 0, 0, 1}
	from    = frame.V4([4]byte{198, 18, 0, 1})
	to      = frame.V4([4]byte{198, 18, 0, 2})
)

// port is the UDP and TCP port of both ends: discard (RFC 863).
const port = 9

func gsoFrame(bytes int, dst frame.MAC) []byte {
	return frame.AppendTCP(nil, &frame.TCPSpec{
		SrcMAC: station, DstMAC: dst, Src: from, Dst: to, SrcPort: port, DstPort: port,
		Flags: frame.TCPAck, Window: 0xffff, Timestamps: true, Partial: true,
		Payload: make([]byte, bytes-tcpHdr),
	})
}

// plainFrame is a frame of UDP: its IPv4 header is that of a TCP frame with
// another protocol.
func plainFrame(bytes int, dst frame.MAC) []byte {
	f := make([]byte, bytes)
	copy(f, gsoFrame(tcpHdr, dst)[:frame.EthernetLen+frame.IPv4Len])
	ip := frame.IPv4(f[frame.EthernetLen:])
	ip[9] = frame.ProtoUDP
	ip.SetTotalLen(uint16(bytes - frame.EthernetLen))
	ip.UpdateCSum()
	udp := frame.UDP(f[frame.EthernetLen+frame.IPv4Len:])
	binary.BigEndian.PutUint16(udp, port)
	binary.BigEndian.PutUint16(udp[2:], port)
	udp.SetLen(uint16(bytes - frame.EthernetLen - frame.IPv4Len))
	return f
}

// Sent is the number of frames that the guest's queue took, delivered or not.
func (p *Port) Sent() uint64 { return p.next }

// Receive fills the guest's queue, at most the budget's frames. A source always
// has more.
func (p *Port) Receive(now vtime.Time, rx *netdev.RX, budget int) (n int, more bool, err error) {
	if len(p.frame) > MaxPlain {
		return p.receiveLarge(rx, budget)
	}
	for n < budget && rx.Waiting() == 0 {
		rx.Expect(budget - n)
		some := p.few[:min(few, budget-n)]
		for i, f := range some {
			binary.BigEndian.PutUint64(f[udpHdr:], p.next+uint64(i))
		}
		for i := 0; i < len(some) && rx.Waiting() == 0; i++ {
			rx.Deliver(now, &p.hdr, some[i])
			p.next++
			n++
		}
	}
	return n, true, nil
}

// receiveLarge fills the guest's queue with GSO frames, in place.
func (p *Port) receiveLarge(rx *netdev.RX, budget int) (n int, more bool, err error) {
	for n < budget {
		iov, ok := rx.Reserve(len(p.frame))
		if !ok {
			return n, true, nil
		}
		payload := uint64(len(p.frame) - tcpHdr)
		binary.BigEndian.PutUint32(p.frame[p.at:], uint32(p.next*payload))
		for f := p.frame; len(f) > 0; iov = iov[1:] {
			f = f[copy(iov[0], f):]
		}
		rx.Commit(len(p.frame), &p.hdr)
		p.next++
		n++
	}
	return n, true, nil
}
