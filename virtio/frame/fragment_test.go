package frame_test

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/vnetbench/vnetbench/virtio/frame"
)

// datagram builds an Ethernet frame with a UDP datagram of n payload bytes by
// another implementation.
func datagram(t testing.TB, version, n int) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, EthernetType: layers.EthernetTypeIPv4}
	udp := &layers.UDP{SrcPort: 1000, DstPort: 2000}
	var ip gopacket.SerializableLayer
	if version == 4 {
		v4 := &layers.IPv4{Version: 4, TTL: 9, Id: 77, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}, Flags: layers.IPv4DontFragment}
		_ = udp.SetNetworkLayerForChecksum(v4)
		ip = v4
	} else {
		eth.EthernetType = layers.EthernetTypeIPv6
		v6 := &layers.IPv6{Version: 6, HopLimit: 9, NextHeader: layers.IPProtocolUDP, SrcIP: net.ParseIP("2001:db8::1"), DstIP: net.ParseIP("2001:db8::2")}
		_ = udp.SetNetworkLayerForChecksum(v6)
		ip = v6
	}
	payload := make([]byte, n)
	for i := range payload {
		payload[i] = byte(i * 13)
	}
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opts, eth, ip, udp, gopacket.Payload(payload)); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestFragments puts fragments together again as another implementation reads
// them.
func TestFragments(t *testing.T) {
	for _, c := range []struct{ version, n, size, want int }{
		{4, 4000, 1480, 3}, {4, 1472, 1480, 1}, {4, 1473, 1480, 2}, {4, 60000, 1483, 41},
		{6, 4000, 1448, 3}, {6, 1440, 1448, 1}, {6, 9, 8, 3},
	} {
		f := datagram(t, c.version, c.n)
		var in frame.Info
		frame.Parse(f, &in)
		var cut frame.Fragmenter
		if err := cut.Reset(f, &in, c.size); err != nil {
			t.Fatal(err)
		}
		var whole []byte
		count := 0
		buf := make([]byte, 2000)
		for {
			n, err := cut.Next(buf)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
			whole = append(whole, fragmentOf(t, buf[:n], len(whole), c.version)...)
			count++
		}
		if count != c.want || !bytes.Equal(whole, f[in.L4:]) {
			t.Errorf("IPv%d, %d bytes in %d: %d fragments, want %d, the same bytes %v", c.version, c.n, c.size, count, c.want, bytes.Equal(whole, f[in.L4:]))
		}
	}
}

// fragmentOf returns the payload of a fragment that belongs at an offset.
func fragmentOf(t *testing.T, b []byte, offset, version int) []byte {
	t.Helper()
	p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
	if version == 4 {
		ip := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
		if int(ip.FragOffset)*8 != offset || ip.Id != 77 || ip.Flags&layers.IPv4DontFragment != 0 || frame.Sum(ip.Contents, 0) != 0xffff {
			t.Fatalf("fragment at %d: %+v", offset, ip)
		}
		return ip.Payload
	}
	fr := p.Layer(layers.LayerTypeIPv6Fragment).(*layers.IPv6Fragment)
	if int(fr.FragmentOffset)*8 != offset || fr.NextHeader != layers.IPProtocolUDP || fr.Identification == 0 {
		t.Fatalf("fragment at %d: %+v", offset, fr)
	}
	return fr.Payload
}

func TestFragmenterRefuses(t *testing.T) {
	f := datagram(t, 4, 100)
	var in, tcp frame.Info
	frame.Parse(f, &in)
	g := frame.AppendTCP(nil, &frame.TCPSpec{Src: addr("10.0.0.1"), Dst: addr("10.0.0.2")})
	frame.Parse(g, &tcp)
	var cut frame.Fragmenter
	if err := cut.Reset(g, &tcp, 1480); !errors.Is(err, frame.ErrNotSegmentable) {
		t.Errorf("TCP: %v", err)
	}
	if err := cut.Reset(f, &in, 7); !errors.Is(err, frame.ErrSegmentSize) {
		t.Errorf("7 bytes: %v", err)
	}
	if n, err := cut.Next(nil); n != 0 || err != nil {
		t.Errorf("after a refusal: %d, %v", n, err)
	}
	if err := cut.Reset(f, &in, 64); err != nil {
		t.Fatal(err)
	}
	if _, err := cut.Next(make([]byte, 20)); !errors.Is(err, frame.ErrShortBuffer) {
		t.Errorf("short buffer: %v", err)
	}
}
