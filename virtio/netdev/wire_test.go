package netdev_test

import (
	"bytes"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// wire is a port that records what it is sent and answers as it is told.
type wire struct {
	frames [][]byte
	hdrs   []virtio.NetHdr
	tokens []netdev.Token
	pieces []int
	flush  int
	now    vtime.Time

	result  netdev.SendResult
	delay   vtime.Time             // Sent is done this much later
	dones   []vtime.Time           // or at these times, in order
	room    int                    // frames until Full; 0 is no limit
	discard bool                   // record nothing
	onSend  func(tok netdev.Token) // called within Send
	sent    int
}

func (p *wire) Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, tok netdev.Token) (vtime.Time, netdev.SendResult) {
	if p.result == netdev.Full || p.room > 0 && p.sent >= p.room {
		return 0, netdev.Full
	}
	p.sent++
	if p.discard {
		return now, p.result
	}
	p.frames = append(p.frames, bytes.Join(iov, nil))
	p.hdrs = append(p.hdrs, *h)
	p.tokens = append(p.tokens, tok)
	p.pieces = append(p.pieces, len(iov))
	p.now = now
	if p.onSend != nil {
		p.onSend(tok)
	}
	done := now + p.delay
	if len(p.dones) > 0 {
		done, p.dones = p.dones[0], p.dones[1:]
	}
	return done, p.result
}

func (p *wire) Flush(vtime.Time) { p.flush++ }

// Two hosts: the guest and its peer.
var (
	guestMAC = frame.MAC{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}
	peerMAC  = frame.MAC{0x02, 0, 0, 0, 0, 1}
	guestIP  = frame.V4([4]byte{10, 0, 0, 2})
	peerIP   = frame.V4([4]byte{10, 0, 0, 1})
)

// fromGuest describes a data segment of n payload bytes of a flow.
func fromGuest(flow, n int) frame.TCPSpec {
	payload := make([]byte, n)
	for i := range payload {
		payload[i] = byte(i*7 + flow)
	}
	return frame.TCPSpec{
		SrcMAC: guestMAC, DstMAC: peerMAC, Src: guestIP, Dst: peerIP,
		SrcPort: uint16(40000 + flow), DstPort: 5001, Seq: 1000, Ack: 1,
		Flags: frame.TCPAck | frame.TCPPsh, Window: 512, Timestamps: true, Payload: payload,
	}
}

// toGuest describes the opposite direction.
func toGuest(flow, n int) frame.TCPSpec {
	s := fromGuest(flow, n)
	s.SrcMAC, s.DstMAC = s.DstMAC, s.SrcMAC
	s.Src, s.Dst = s.Dst, s.Src
	s.SrcPort, s.DstPort = s.DstPort, s.SrcPort
	return s
}

func build(s frame.TCPSpec) []byte { return frame.AppendTCP(nil, &s) }

// gso makes a frame and header of a GSO packet with partial checksum.
func gso(s frame.TCPSpec, mss int) (virtio.NetHdr, []byte) {
	s.Partial = true
	h := virtio.NetHdr{
		Flags: virtio.HdrNeedsCSum, GSOType: virtio.GSOTCPv4, GSOSize: uint16(mss),
		HdrLen: uint16(s.HeaderLen()), CSumStart: uint16(s.L4()), CSumOffset: frame.TCPCSumOffset,
	}
	if !s.Src.Is4() {
		h.GSOType = virtio.GSOTCPv6
	}
	return h, build(s)
}
