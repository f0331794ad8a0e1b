package netdev_test

import (
	"net"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
)

// verifySums has another implementation verify every checksum of a frame.
func verifySums(t testing.TB, f []byte) gopacket.Packet {
	t.Helper()
	p := gopacket.NewPacket(f, layers.LayerTypeEthernet, gopacket.Default)
	if p.ErrorLayer() != nil {
		t.Fatalf("%x: %v", f[:min(len(f), 60)], p.ErrorLayer().Error())
	}
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *layers.TCP:
			_ = l.SetNetworkLayerForChecksum(p.NetworkLayer())
		case *layers.UDP:
			_ = l.SetNetworkLayerForChecksum(p.NetworkLayer())
		}
	}
	err, bad := p.VerifyChecksums()
	if err != nil || len(bad) > 0 {
		t.Fatalf("%x: wrong checksums %+v, %v", f[:min(len(f), 60)], bad, err)
	}
	return p
}

// datagram builds a UDP datagram of n payload bytes of the guest's, or, if in, to
// it, by another implementation.
func datagram(t testing.TB, version, n int, in bool) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: guestMAC[:], DstMAC: peerMAC[:], EthernetType: layers.EthernetTypeIPv4}
	if in {
		eth.SrcMAC, eth.DstMAC = eth.DstMAC, eth.SrcMAC
	}
	udp := &layers.UDP{SrcPort: 40000, DstPort: 40001}
	var ip gopacket.SerializableLayer
	if version == 4 {
		v4 := &layers.IPv4{Version: 4, TTL: 9, Id: 77, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 2}, DstIP: net.IP{10, 0, 0, 1}}
		_ = udp.SetNetworkLayerForChecksum(v4)
		ip = v4
	} else {
		eth.EthernetType = layers.EthernetTypeIPv6
		v6 := &layers.IPv6{Version: 6, HopLimit: 9, NextHeader: layers.IPProtocolUDP, SrcIP: guestIP6[:], DstIP: peerIP6[:]}
		_ = udp.SetNetworkLayerForChecksum(v6)
		ip = v6
	}
	payload := make([]byte, n)
	for i := range payload {
		payload[i] = byte(i*13 + 1)
	}
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opts, eth, ip, udp, gopacket.Payload(payload)); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// partial makes the checksum of a UDP or TCP frame a partial one, as a guest
// leaves it, and returns the header that says so.
func partial(t testing.TB, f []byte) virtio.NetHdr {
	t.Helper()
	var in frame.Info
	if !frame.Parse(f, &in) {
		t.Fatal("not TCP or UDP")
	}
	k, _ := in.Key(f)
	sum := frame.PseudoSum(k.Src, k.Dst, in.Proto, uint32(len(f)-in.L4))
	h := virtio.NetHdr{Flags: virtio.HdrNeedsCSum, CSumStart: uint16(in.L4), CSumOffset: frame.TCPCSumOffset}
	if in.Proto == frame.ProtoUDP {
		h.CSumOffset = frame.UDPCSumOffset
	}
	f[in.L4+int(h.CSumOffset)], f[in.L4+int(h.CSumOffset)+1] = byte(sum>>8), byte(sum)
	return h
}

// udpGSO makes a USO (or, with virtio.GSOUDP, a UFO) packet.
func udpGSO(t testing.TB, kind uint8, version, n, size int, in bool) (virtio.NetHdr, []byte) {
	t.Helper()
	f := datagram(t, version, n, in)
	h := partial(t, f)
	h.GSOType, h.GSOSize = kind, uint16(size)
	h.HdrLen = h.CSumStart + 8
	return h, f
}
