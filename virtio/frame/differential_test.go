package frame_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"pgregory.net/rapid"
)

// drawSpec draws a TCP frame of any shape that AppendTCP can build.
func drawSpec(t *rapid.T, maxPayload int) frame.TCPSpec {
	s := spec()
	if rapid.Bool().Draw(t, "ipv6") {
		s.Src, s.Dst = addr6, addr7
	}
	s.VLAN = rapid.SampledFrom([]uint16{0, 0, 7}).Draw(t, "vlan")
	s.TOS = rapid.Byte().Draw(t, "tos")
	s.ID = rapid.Uint16().Draw(t, "id")
	s.SrcPort, s.DstPort = rapid.Uint16().Draw(t, "sport"), rapid.Uint16().Draw(t, "dport")
	s.Seq, s.Ack = frame.Seq(rapid.Uint32().Draw(t, "seq")), frame.Seq(rapid.Uint32().Draw(t, "ack"))
	s.Flags = rapid.Byte().Draw(t, "flags")
	s.Window = rapid.Uint16().Draw(t, "window")
	s.Timestamps = rapid.Bool().Draw(t, "timestamps")
	s.SACK = make([]frame.SACKBlock, rapid.IntRange(0, 3).Draw(t, "sack"))
	s.Payload = rapid.SliceOfN(rapid.Byte(), 0, maxPayload).Draw(t, "payload")
	return s
}

// decode reads a frame with the reference and returns its TCP layer.
func decode(t *rapid.T, f []byte) (gopacket.Packet, *layers.TCP) {
	p := gopacket.NewPacket(f, layers.LayerTypeEthernet, gopacket.Default)
	tcp, ok := p.Layer(layers.LayerTypeTCP).(*layers.TCP)
	if !ok {
		t.Fatalf("the reference finds no TCP in %x: %v", f, p.ErrorLayer())
	}
	return p, tcp
}

// reserialize lets the reference compute lengths and checksums anew. It pads
// frames to the least that Ethernet carries, which is cut off again.
func reserialize(t *rapid.T, p gopacket.Packet) []byte {
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *layers.TCP:
			l.SetNetworkLayerForChecksum(p.NetworkLayer())
		case *layers.UDP:
			l.SetNetworkLayerForChecksum(p.NetworkLayer())
		}
	}
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializePacket(buf, opts, p); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()[:min(len(p.Data()), len(buf.Bytes()))]
}

// TestBuildAgainstReference builds a frame and has the reference read it and
// write it again: the bytes, checksums included, must be the same.
func TestBuildAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, 200)
		f := frame.AppendTCP(nil, &s)
		p, tcp := decode(t, f)
		if uint32(s.Seq) != tcp.Seq || uint32(s.Ack) != tcp.Ack || s.Window != tcp.Window ||
			!bytes.Equal(s.Payload, tcp.Payload) {
			t.Fatalf("the reference reads %+v", tcp)
		}
		if diff := cmp.Diff(reserialize(t, p), f); diff != "" {
			t.Fatalf("-reference +ours\n%s", diff)
		}
	})
}

func TestParseAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, 100)
		f := frame.AppendTCP(nil, &s)
		var in frame.Info
		if !frame.Parse(f, &in) {
			t.Fatalf("parsed to layer %d", in.Layer)
		}
		_, tcp := decode(t, f)
		if in.SrcPort != uint16(tcp.SrcPort) || in.DstPort != uint16(tcp.DstPort) ||
			uint32(in.Seq) != tcp.Seq || uint32(in.Ack) != tcp.Ack || in.Window != tcp.Window ||
			in.Flags != s.Flags || in.TOS != s.TOS || in.PayloadLen() != len(tcp.Payload) ||
			!bytes.Equal(f[in.Payload:in.End], tcp.Payload) {
			t.Fatalf("%+v\nreference %+v", in, tcp)
		}
	})
}

// TestPartialCSum completes a partial checksum: the frame must then be the one
// with a full checksum.
func TestPartialCSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, 200)
		full := frame.AppendTCP(nil, &s)
		s.Partial = true
		f := frame.AppendTCP(nil, &s)
		if !frame.CompleteCSum(f, s.L4(), frame.TCPCSumOffset) {
			t.Fatal("refused")
		}
		// 0 and 0xffff are the same checksum, and CompleteCSum never writes 0.
		at := s.L4() + frame.TCPCSumOffset
		if full[at] == 0 && full[at+1] == 0 {
			full[at], full[at+1] = 0xff, 0xff
		}
		if !bytes.Equal(f, full) {
			t.Fatalf("completed %x\nfull      %x", f, full)
		}
	})
}

func TestSegmentTCPAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, 5000)
		s.Partial = true
		f := frame.AppendTCP(nil, &s)
		size := rapid.IntRange(1, 3000).Draw(t, "size")
		if size < 64 {
			size += len(s.Payload) / 64 // bounds the number of segments
		}
		segs := segment(t, f, size)
		var payload []byte
		for i, b := range segs {
			p, tcp := decode(t, b)
			checkSegment(t, &s, tcp, i, len(segs), len(payload))
			if ip, ok := p.NetworkLayer().(*layers.IPv4); ok && ip.Id != s.ID+uint16(i) {
				t.Fatalf("segment %d: ID %d", i, ip.Id)
			}
			if diff := cmp.Diff(reserialize(t, p), b); diff != "" {
				t.Fatalf("segment %d: -reference +ours\n%s", i, diff)
			}
			if len(tcp.Payload) > size || (i+1 < len(segs) && len(tcp.Payload) != size) {
				t.Fatalf("segment %d of %d has %d bytes, size %d", i, len(segs), len(tcp.Payload), size)
			}
			payload = append(payload, tcp.Payload...)
		}
		if !bytes.Equal(payload, s.Payload) {
			t.Fatal("the payload is not that of the frame")
		}
	})
}

// checkSegment checks sequence number and flags of segment i of n, which starts
// at offset at of the payload.
func checkSegment(t *rapid.T, s *frame.TCPSpec, tcp *layers.TCP, i, n, at int) {
	last := i == n-1
	has := func(f uint8) bool { return s.Flags&f != 0 }
	switch {
	case tcp.Seq != uint32(s.Seq)+uint32(at):
		t.Fatalf("segment %d: sequence number %d", i, tcp.Seq)
	case tcp.PSH != (has(frame.TCPPsh) && last), tcp.FIN != (has(frame.TCPFin) && last):
		t.Fatalf("segment %d of %d: PSH %v, FIN %v", i, n, tcp.PSH, tcp.FIN)
	case tcp.CWR != (has(frame.TCPCwr) && i == 0), tcp.ECE != has(frame.TCPEce), tcp.ACK != has(frame.TCPAck):
		t.Fatalf("segment %d: CWR %v, ECE %v, ACK %v", i, tcp.CWR, tcp.ECE, tcp.ACK)
	}
}

// segment cuts f, whose parse must succeed.
func segment(t *rapid.T, f []byte, size int) (segs [][]byte) {
	var in frame.Info
	if !frame.Parse(f, &in) {
		t.Fatalf("parsed to layer %d", in.Layer)
	}
	var g frame.Segmenter
	if err := g.Reset(f, &in, size); err != nil {
		t.Fatal(err)
	}
	for {
		b := make([]byte, len(f))
		n, err := g.Next(b)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		segs = append(segs, b[:n])
	}
	if len(segs) != g.Count() {
		t.Fatalf("%d segments, Count says %d", len(segs), g.Count())
	}
	return segs
}

func TestSegmentUDPAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.SliceOfN(rapid.Byte(), 1, 3000).Draw(t, "payload")
		size := rapid.IntRange(64, 3000).Draw(t, "size")
		f := udpFrame(t, rapid.Bool().Draw(t, "ipv6"), payload)
		var got []byte
		for i, b := range segment(t, f, size) {
			p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
			udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
			if !ok {
				t.Fatalf("segment %d: %v", i, p.ErrorLayer())
			}
			want := reserialize(t, p)
			if udp.Checksum == 0xffff {
				want = b // the reference writes a sum of zero as 0
			}
			if diff := cmp.Diff(want, b); diff != "" {
				t.Fatalf("segment %d: -reference +ours\n%s", i, diff)
			}
			got = append(got, udp.Payload...)
		}
		if !bytes.Equal(got, payload) {
			t.Fatal("the payload is not that of the datagram")
		}
	})
}

// udpFrame has the reference build a datagram.
func udpFrame(t *rapid.T, v6 bool, payload []byte) []byte {
	eth := &layers.Ethernet{SrcMAC: macA[:], DstMAC: macB[:], EthernetType: layers.EthernetTypeIPv4}
	udp := &layers.UDP{SrcPort: 40000, DstPort: 40001}
	var ip gopacket.SerializableLayer
	if v6 {
		eth.EthernetType = layers.EthernetTypeIPv6
		l := &layers.IPv6{Version: 6, NextHeader: layers.IPProtocolUDP, HopLimit: 64, SrcIP: addr6[:], DstIP: addr7[:]}
		udp.SetNetworkLayerForChecksum(l)
		ip = l
	} else {
		l := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: addrA[12:], DstIP: addrB[12:]}
		udp.SetNetworkLayerForChecksum(l)
		ip = l
	}
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opts, eth, ip, udp, gopacket.Payload(payload)); err != nil {
		t.Fatal(err)
	}
	n := frame.EthernetLen + frame.IPv4Len + frame.UDPLen + len(payload)
	if v6 {
		n += frame.IPv6Len - frame.IPv4Len
	}
	return buf.Bytes()[:n] // without the padding
}
