package frame

// Bounds of a Toeplitz hash: two IPv6 addresses and two ports are the longest
// input, and each of its bits needs 32 bits of key.
const (
	// ToeplitzKeyMax is the longest key in bytes.
	ToeplitzKeyMax = toeplitzInput + 4
	toeplitzInput  = 2*16 + 2*2
)

// Toeplitz is the hash of receive-side scaling (virtio 1.3 §5.1.6.4.3, which
// refers to the hash that Microsoft defined) with one key: a table of what each
// value of each byte of the input adds to it. The zero value hashes everything to
// 0. A table that is set may be used from anywhere.
type Toeplitz struct {
	add [toeplitzInput][256]uint32
}

// SetKey prepares the tables for a key; one shorter than ToeplitzKeyMax is
// continued with zeros, of a longer one the rest is not used.
func (t *Toeplitz) SetKey(key []byte) {
	var k [ToeplitzKeyMax + 1]byte
	copy(k[:ToeplitzKeyMax], key)
	for i := range t.add {
		window := uint64(be.Uint32(k[i:]))<<8 | uint64(k[i+4])
		for v := range 256 {
			var sum uint32
			for bit := range 8 {
				if v&(0x80>>bit) != 0 {
					sum ^= uint32(window >> (8 - bit))
				}
			}
			t.add[i][v] = sum
		}
	}
}

// Sum returns the hash of b, of which the first 36 bytes count.
func (t *Toeplitz) Sum(b []byte) uint32 {
	var sum uint32
	for i, v := range b[:min(len(b), toeplitzInput)] {
		sum ^= t.add[i][v]
	}
	return sum
}

// Hash returns the hash of the parsed frame b, of which in is what Parse found,
// and what was hashed: one of the Report constants. types is
// what may be hashed; of the kinds that fit the frame the most specific is used
// (virtio 1.3 §5.1.6.4.3.2 and .3). Fragments have no ports.
func (t *Toeplitz) Hash(b []byte, in *Info, types HashTypes) (hash uint32, report uint16) {
	if in.Layer < LayerIP {
		return 0, ReportNone
	}
	proto := uint8(0)
	if in.Layer == LayerL4 && !in.Fragment {
		proto = in.Proto
	}
	if in.Version == 4 {
		return t.hash4(b, in, proto, types)
	}
	return t.hash6(b, in, proto, types)
}

func (t *Toeplitz) hash4(b []byte, in *Info, proto uint8, types HashTypes) (uint32, uint16) {
	var input [12]byte
	copy(input[:8], b[in.L3+12:])
	be.PutUint16(input[8:], in.SrcPort)
	be.PutUint16(input[10:], in.DstPort)
	switch {
	case proto == ProtoTCP && types&HashTCPv4 != 0:
		return t.Sum(input[:]), ReportTCPv4
	case proto == ProtoUDP && types&HashUDPv4 != 0:
		return t.Sum(input[:]), ReportUDPv4
	case types&HashIPv4 != 0:
		return t.Sum(input[:8]), ReportIPv4
	}
	return 0, ReportNone
}

func (t *Toeplitz) hash6(b []byte, in *Info, proto uint8, types HashTypes) (uint32, uint16) {
	var input [toeplitzInput]byte
	copy(input[:32], b[in.L3+8:])
	be.PutUint16(input[32:], in.SrcPort)
	be.PutUint16(input[34:], in.DstPort)
	if in.L4 > in.L3+IPv6Len {
		if report := exReport(proto, types); report != ReportNone {
			homeAddrs(b, in, &input)
			return t.Sum(input[:reportLen(report)]), report
		}
	}
	switch {
	case proto == ProtoTCP && types&HashTCPv6 != 0:
		return t.Sum(input[:]), ReportTCPv6
	case proto == ProtoUDP && types&HashUDPv6 != 0:
		return t.Sum(input[:]), ReportUDPv6
	case types&HashIPv6 != 0:
		return t.Sum(input[:32]), ReportIPv6
	}
	return 0, ReportNone
}

// exReport returns the kind of hash over home addresses that is wanted for a
// packet with extension headers.
func exReport(proto uint8, types HashTypes) uint16 {
	switch {
	case proto == ProtoTCP && types&HashTCPEx != 0:
		return ReportTCPv6Ex
	case proto == ProtoUDP && types&HashUDPEx != 0:
		return ReportUDPv6Ex
	case types&HashIPEx != 0:
		return ReportIPv6Ex
	}
	return ReportNone
}

// reportLen is the length in bytes of the input of an EX hash.
func reportLen(report uint16) int {
	if report == ReportIPv6Ex {
		return 32
	}
	return toeplitzInput
}

// Values in IPv6 extension headers (RFC 6275 §6.3 and §6.4).
const (
	optPad1        = 0
	optHomeAddress = 0xc9
	routingHome    = 2
)

// homeAddrs replaces the source by the address of a Home Address option, and
// the destination by that of a type 2 routing header, where the extension
// headers of the frame have them. Parse has found that they end before in.L4.
func homeAddrs(b []byte, in *Info, input *[toeplitzInput]byte) {
	next, at := IPv6(b[in.L3:]).NextHeader(), in.L3+IPv6Len
	for range maxExtensions {
		if at+8 > in.L4 {
			return
		}
		n := (int(b[at+1]) + 1) * 8
		switch next {
		case extFragment:
			n = 8
		case extAuth:
			n = (int(b[at+1]) + 2) * 4
		}
		if at+n > in.L4 {
			return
		}
		switch next {
		case extDest:
			homeOption(b[at+2:at+n], input)
		case extRouting:
			if b[at+2] == routingHome && n == 24 {
				copy(input[16:32], b[at+8:])
			}
		}
		next, at = b[at], at+n
	}
}

// homeOption looks for a Home Address option among destination options.
func homeOption(opts []byte, input *[toeplitzInput]byte) {
	for len(opts) > 0 {
		if opts[0] == optPad1 {
			opts = opts[1:]
			continue
		}
		if len(opts) < 2 || len(opts) < 2+int(opts[1]) {
			return
		}
		if opts[0] == optHomeAddress && opts[1] == 16 {
			copy(input[:16], opts[2:18])
		}
		opts = opts[2+int(opts[1]):]
	}
}
