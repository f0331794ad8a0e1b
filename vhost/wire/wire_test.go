package wire_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vhost/wire"
)

// golden is one block of testdata/golden.txt.
type golden struct {
	name, want string
	bytes      []byte
}

func readGoldens(t testing.TB) []golden {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []golden
	var g golden
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case strings.HasPrefix(line, "= "):
			g.want = line[2:]
			out = append(out, g)
			g = golden{}
		case g.name == "":
			g.name = line
		default:
			b, err := hex.DecodeString(strings.ReplaceAll(line, " ", ""))
			if err != nil {
				t.Fatalf("%s: %v", g.name, err)
			}
			g.bytes = append(g.bytes, b...)
		}
	}
	return out
}

func TestGoldens(t *testing.T) {
	all := readGoldens(t)
	if len(all) < 14 {
		t.Fatalf("read %d goldens", len(all))
	}
	for _, g := range all {
		t.Run(g.name, func(t *testing.T) {
			m, err := wire.Decode(g.bytes)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.String(); got != g.want {
				t.Errorf("decoded\n got %s\nwant %s", got, g.want)
			}
			out := m.Append(nil)
			again, err := wire.Decode(out)
			if err != nil || !cmp.Equal(m, again) {
				t.Errorf("encoded and decoded again: %v, %v", again, err)
			}
			if len(out) == len(g.bytes) && !bytes.Equal(out, g.bytes) {
				t.Errorf("encoded\n got % x\nwant % x", out, g.bytes)
			}
		})
	}
}

// message builds a message's bytes with a payload of any length.
func message(r wire.Request, flags uint32, payload []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(r))
	b = binary.LittleEndian.AppendUint32(b, flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

func words(vs ...uint32) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		name  string
		bytes []byte
		want  error
	}{
		{"half a header", []byte{1, 0, 0, 0, 1}, wire.ErrShort},
		{"version 0", message(wire.GetFeatures, 0, nil), wire.ErrVersion},
		{"version 2", message(wire.GetFeatures, 2, nil), wire.ErrVersion},
		{"oversize", message(wire.GetFeatures, 1, make([]byte, 5000)), wire.ErrTooLong},
		{"payload missing", message(wire.SetFeatures, 1, make([]byte, 8))[:15], wire.ErrShort},
		{"features of 4 bytes", message(wire.SetFeatures, 1, make([]byte, 4)), wire.ErrPayloadSize},
		{"get features with a payload", message(wire.GetFeatures, 1, make([]byte, 8)), wire.ErrPayloadSize},
		{"9 regions", message(wire.SetMemTable, 1, append(words(9, 0), make([]byte, 9*32)...)), wire.ErrRegions},
		{"2^32-1 regions", message(wire.SetMemTable, 1, words(0xffffffff, 0)), wire.ErrRegions},
		{"2 regions announced, 1 there", message(wire.SetMemTable, 1, append(words(2, 0), make([]byte, 32)...)), wire.ErrPayloadSize},
		{"region of 16 bytes", message(wire.AddMemReg, 1, make([]byte, 16)), wire.ErrPayloadSize},
		{"region of 38 bytes", message(wire.AddMemReg, 1, make([]byte, 38)), wire.ErrPayloadSize},
		{"region with half an offset", message(wire.AddMemReg, 1, append(make([]byte, 33), 0x10, 0, 0)), wire.ErrLostOffset},
		{"ring with high bits", message(wire.SetVringKick, 1, words(0x10000, 0)), wire.ErrReserved},
		{"config of 0 bytes", message(wire.GetConfig, 1, words(0, 0, 0)), wire.ErrConfigRange},
		{"config of 257 bytes", message(wire.GetConfig, 1, append(words(0, 257, 0), make([]byte, 256)...)), wire.ErrConfigRange},
		{"config offset wraps", message(wire.GetConfig, 1, append(words(0xffffffff, 2, 0), 0, 0)), wire.ErrConfigRange},
		{"config shorter than it says", message(wire.GetConfig, 1, append(words(0, 6, 0), 0, 0)), wire.ErrPayloadSize},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := wire.Decode(tt.bytes)
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, %v; want %v", m, err, tt.want)
			}
			if m.Payload != (wire.Empty{}) {
				t.Errorf("payload %v with an error", m.Payload)
			}
		})
	}
}

func TestFDs(t *testing.T) {
	tests := []struct {
		m           wire.Message
		least, most int
	}{
		{wire.Message{Request: wire.GetFeatures, Payload: wire.Empty{}}, 0, 0},
		{wire.Message{Request: wire.SetVringKick, Payload: wire.VringFD{Index: 1}}, 1, 1},
		{wire.Message{Request: wire.SetVringKick, Payload: wire.VringFD{Index: 1, NoFD: true}}, 0, 0},
		{wire.Message{Request: wire.SetMemTable, Payload: wire.MemTable{Regions: make([]wire.Region, 3)}}, 3, 3},
		{wire.Message{Request: wire.AddMemReg, Payload: wire.MemRegion{}}, 1, 1},
		{wire.Message{Request: wire.RemMemReg, Payload: wire.MemRegion{}}, 0, 1},
		{wire.Message{Request: 999, Payload: wire.Raw{}}, 0, 0},
	}
	for _, tt := range tests {
		if least, most := tt.m.FDs(); least != tt.least || most != tt.most {
			t.Errorf("%v: %d to %d descriptors, want %d to %d", tt.m, least, most, tt.least, tt.most)
		}
	}
}

func TestEveryRequestIsNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	for r := wire.GetFeatures; r <= wire.GetVringBaseSkipDrain; r++ {
		if !r.Known() || seen[r.String()] {
			t.Errorf("request %d is called %q", uint32(r), r)
		}
		seen[r.String()] = true
	}
	if r := wire.Request(0); r.Known() || r.String() != "request 0" {
		t.Errorf("request 0 is called %q", r)
	}
}

func TestProtocolFeaturesString(t *testing.T) {
	f := wire.ProtocolMQ | wire.ProtocolStatus | 1<<60
	if got, want := f.String(), "MQ|STATUS|bit 60"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An answer to SET_MEM_TABLE is a number, or the regions with their addresses. One
// of no regions in a payload of several was read as the second and written as the
// first (found by FuzzDecode).
func TestRegressionMemTableAnswerWithoutRegions(t *testing.T) {
	const reply = 1 | 4
	if m, err := wire.Decode(message(wire.SetMemTable, reply, make([]byte, 72))); !errors.Is(err, wire.ErrPayloadSize) {
		t.Errorf("read as %v, error %v", m, err)
	}
	if _, err := wire.Decode(message(wire.SetMemTable, reply, make([]byte, 8))); err != nil {
		t.Errorf("a number of 8 bytes: %v", err)
	}
}

// FuzzDecode checks that no bytes panic, and that what was decoded is the same
// after it has been encoded and decoded again.
func FuzzDecode(f *testing.F) {
	for _, g := range readGoldens(f) {
		f.Add(g.bytes)
	}
	f.Add(message(wire.SetMemTable, 1, words(0xffffffff, 0)))
	f.Add(message(wire.GetConfig, 9, words(0xffffffff, 2, 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := wire.Decode(b)
		if err != nil {
			return
		}
		again, err := wire.Decode(m.Append(nil))
		if err != nil || !cmp.Equal(m, again) {
			t.Fatalf("%v became %v, %v", m, again, err)
		}
	})
}
