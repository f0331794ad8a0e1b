package frame_test

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/vnetbench/vnetbench/virtio/frame"
)

// msKey is the key of the examples that Microsoft publishes for the verification
// of RSS hashes; the expected values of TestToeplitzExamples are theirs too.
const msKey = "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa"

func toeplitz(t *testing.T) *frame.Toeplitz {
	t.Helper()
	key, err := hex.DecodeString(msKey)
	if err != nil {
		t.Fatal(err)
	}
	var h frame.Toeplitz
	h.SetKey(key)
	return &h
}

func addr(s string) frame.Addr { return netip.MustParseAddr(s).As16() }

func TestToeplitzExamples(t *testing.T) {
	h := toeplitz(t)
	for _, c := range []struct {
		src, dst         string
		srcPort, dstPort uint16
		ip, tcp          uint32
	}{
		{"66.9.149.187", "161.142.100.80", 2794, 1766, 0x323e8fc2, 0x51ccc178},
		{"199.92.111.2", "65.69.140.83", 14230, 4739, 0xd718262a, 0xc626b0ea},
		{"24.19.198.95", "12.22.207.184", 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
		{"38.27.205.30", "209.142.163.6", 48228, 2217, 0x82989176, 0xafc7327f},
		{"153.39.163.191", "202.188.127.2", 44251, 1303, 0x5d1809c5, 0x10e828a2},
		{"3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x2cc18cd5, 0x40207d3d},
		{"3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 14230, 4739, 0x0f0c461c, 0xdde51bbf},
		{"3ffe:1900:4545:3:200:f8ff:fe21:67cf", "fe80::200:f8ff:fe21:67cf", 44251, 38024, 0x4b61e985, 0x02d1feef},
	} {
		f := frame.AppendTCP(nil, &frame.TCPSpec{Src: addr(c.src), Dst: addr(c.dst), SrcPort: c.srcPort, DstPort: c.dstPort})
		var in frame.Info
		frame.Parse(f, &in)
		wantIP, wantTCP := frame.ReportIPv4, frame.ReportTCPv4
		if in.Version == 6 {
			wantIP, wantTCP = frame.ReportIPv6, frame.ReportTCPv6
		}
		if got, report := h.Hash(f, &in, frame.HashAll); got != c.tcp || report != wantTCP {
			t.Errorf("%s: hash %#x, report %d, want %#x, %d", c.src, got, report, c.tcp, wantTCP)
		}
		if got, report := h.Hash(f, &in, frame.HashIPv4|frame.HashIPv6); got != c.ip || report != wantIP {
			t.Errorf("%s: hash of the addresses %#x, report %d, want %#x, %d", c.src, got, report, c.ip, wantIP)
		}
		if got, report := h.Hash(f, &in, frame.HashUDPv4|frame.HashUDPv6); got != 0 || report != frame.ReportNone {
			t.Errorf("%s: hash %#x, report %d of a kind that does not fit", c.src, got, report)
		}
	}
}

// TestToeplitzBitByBit holds the tables against the definition: for each bit that
// is set in the input, 32 bits of the key from there on.
func TestToeplitzBitByBit(t *testing.T) {
	key, _ := hex.DecodeString(msKey)
	slow := func(in []byte) (sum uint32) {
		for i := range len(in) * 8 {
			if in[i/8]&(0x80>>(i%8)) == 0 {
				continue
			}
			for j := range 32 {
				bit := i + j
				if key[bit/8]&(0x80>>(bit%8)) != 0 {
					sum ^= 1 << (31 - j)
				}
			}
		}
		return sum
	}
	h := toeplitz(t)
	in := make([]byte, 36)
	for round := range 200 {
		for i := range in {
			in[i] = byte(i*37 + round*round*11 + round>>3)
		}
		n := round % 37
		if got, want := h.Sum(in[:n]), slow(in[:n]); got != want {
			t.Fatalf("%x: %#x, want %#x", in[:n], got, want)
		}
	}
}

// extended builds an IPv6 packet with the extension headers given before a UDP
// header.
func extended(first uint8, ext []byte, proto uint8) []byte {
	src, dst := addr("2001:db8::1"), addr("2001:db8::2")
	b := make([]byte, frame.EthernetLen+frame.IPv6Len)
	binary.BigEndian.PutUint16(b[12:], frame.EtherTypeIPv6)
	b[14] = 0x60
	b[20] = first
	copy(b[22:], src[:])
	copy(b[38:], dst[:])
	b = append(b, ext...)
	l4 := make([]byte, 20)
	binary.BigEndian.PutUint16(l4, 1000)
	binary.BigEndian.PutUint16(l4[2:], 2000)
	l4[12] = 0x50
	b = append(b, l4...)
	binary.BigEndian.PutUint16(b[18:], uint16(len(b)-54))
	b[20] = first
	return b
}

// TestToeplitzHomeAddresses: the kinds with EX take the addresses of extension
// headers, the others skip the headers.
func TestToeplitzHomeAddresses(t *testing.T) {
	h := toeplitz(t)
	home, via := addr("2001:db8:1::9"), addr("2001:db8:2::9")
	dest := append([]byte{frame.ProtoUDP, 2, 1, 0, 0xc9, 16}, home[:]...)
	dest = append(dest, 1, 0)
	routing := append([]byte{frame.ProtoUDP, 2, 2, 1, 0, 0, 0, 0}, via[:]...)
	sum := func(src, dst frame.Addr, ports bool) uint32 {
		in := append(append([]byte{}, src[:]...), dst[:]...)
		if ports {
			in = append(in, 1000>>8, 1000&255, 2000>>8, 2000&255)
		}
		return h.Sum(in)
	}
	src, dst := addr("2001:db8::1"), addr("2001:db8::2")
	for _, c := range []struct {
		name   string
		f      []byte
		types  frame.HashTypes
		want   uint32
		report uint16
	}{
		{"home address", extended(60, dest, 17), frame.HashAll, sum(home, dst, true), frame.ReportUDPv6Ex},
		{"routing header", extended(43, routing, 17), frame.HashAll, sum(src, via, true), frame.ReportUDPv6Ex},
		{"addresses only", extended(43, routing, 17), frame.HashIPEx, sum(src, via, false), frame.ReportIPv6Ex},
		{"skipped", extended(43, routing, 17), frame.HashUDPv6, sum(src, dst, true), frame.ReportUDPv6},
		{"skipped, addresses only", extended(60, dest, 17), frame.HashIPv6, sum(src, dst, false), frame.ReportIPv6},
		{"no extension", extended(17, nil, 17), frame.HashAll, sum(src, dst, true), frame.ReportUDPv6},
	} {
		var in frame.Info
		frame.Parse(c.f, &in)
		if got, report := h.Hash(c.f, &in, c.types); got != c.want || report != c.report {
			t.Errorf("%s: %#x, report %d, want %#x, %d", c.name, got, report, c.want, c.report)
		}
	}
}

// FuzzToeplitz: nothing in a frame makes the hash read beyond it.
func FuzzToeplitz(f *testing.F) {
	f.Add([]byte{}, uint32(frame.HashAll))
	f.Add(extended(60, []byte{frame.ProtoUDP, 0, 0xc9, 16, 0, 0, 0, 0}, 17), uint32(frame.HashAll))
	f.Add(extended(43, make([]byte, 24), 6), uint32(frame.HashIPEx))
	var h frame.Toeplitz
	h.SetKey([]byte(msKey))
	f.Fuzz(func(t *testing.T, b []byte, types uint32) {
		var in frame.Info
		frame.Parse(b, &in)
		hash, report := h.Hash(b, &in, frame.HashTypes(types))
		if report == frame.ReportNone && hash != 0 || report > frame.ReportUDPv6Ex {
			t.Errorf("hash %#x, report %d", hash, report)
		}
	})
}

func TestRARP(t *testing.T) {
	mac := frame.MAC{0x52, 0x54, 0, 1, 2, 3}
	f := frame.AppendRARP([]byte{7}, mac)[1:]
	want := "ffffffffffff" + "525400010203" + "8035" + "0001" + "0800" + "06" + "04" + "0003" +
		"525400010203" + "00000000" + "525400010203" + "00000000"
	if got := hex.EncodeToString(f); len(f) != 60 || got[:84] != want {
		t.Errorf("%s, want %s and padding", got, want)
	}
}
