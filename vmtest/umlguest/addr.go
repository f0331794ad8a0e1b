package umlguest

import (
	"fmt"

	"github.com/vnetbench/vnetbench/virtio/frame"
)

// Ports: that of the receivers, and that of flow 0, with the others' behind it.
const (
	peerPort  = 5001
	firstPort = 20000
)

// end is one end of the network: a guest, or the model of a receiver.
type end struct {
	mac    frame.MAC
	addr   frame.Addr
	text   string // of the address
	prefix int
}

// Numbers that tell the ends' addresses apart, by what they do: in the last byte of
// IPv4 for those behind the first, in the last two of IPv6, and in the fifth of a
// link address.
const (
	sendersV4, receiversV4   = 10, 130
	sendersV6, receiversV6   = 0x1, 0x2
	sendersMAC, receiversMAC = 0x35, 0x36
)

// senderEnd is the end of a sender.
func senderEnd(ip, i int) end {
	if i == 0 {
		return newEnd(ip, frame.MAC{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}, 1, 0, 1)
	}
	return newEnd(ip, frame.MAC{0x52, 0x54, 0x00, 0x12, sendersMAC, byte(i)}, byte(sendersV4+i), sendersV6, byte(i))
}

// receiverEnd is the end of a receiver.
func receiverEnd(ip, i int) end {
	if i == 0 {
		return newEnd(ip, frame.MAC{0x52, 0x54, 0x00, 0x12, 0x34, 0x01}, 2, 0, 2)
	}
	return newEnd(ip, frame.MAC{0x52, 0x54, 0x00, 0x12, receiversMAC, byte(i)}, byte(receiversV4+i), receiversV6, byte(i))
}

func newEnd(ip int, mac frame.MAC, v4, high, low byte) end {
	if ip == 4 {
		return end{mac, frame.V4([4]byte{192, 0, 2, v4}), fmt.Sprintf("192.0.2.%d", v4), 24}
	}
	return end{mac, frame.Addr{0x20, 0x01, 0x0d, 0xb8, 14: high, 15: low}, fmt.Sprintf("2001:db8::%x", int(high)<<8|int(low)), 64}
}

// macText is a link address as ip(8) writes it.
func (e *end) macText() string {
	m := e.mac
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}
