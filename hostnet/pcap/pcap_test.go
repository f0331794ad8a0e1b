package pcap_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetbench/vnetbench/hostnet/pcap"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// seen is a packet as a reader of the file finds it.
type seen struct {
	Side      string
	Queue     uint32
	Direction pcapgo.NgEpbFlag
	Time      time.Time
	Length    int
	Data      []byte
	Header    virtio.NetHdr
}

func read(t *testing.T, b []byte) (all []seen) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(b), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, ci, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		h, ok := pcap.ParseHeader(opts.Comments[0])
		if !ok {
			t.Fatalf("comment %q", opts.Comments)
		}
		i, err := r.Interface(ci.InterfaceIndex)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, seen{i.Name, *opts.Queue, opts.Flags.Direction, ci.Timestamp.UTC(), ci.Length, data, h})
	}
}

func TestWriter(t *testing.T) {
	var file bytes.Buffer
	w, err := pcap.NewWriter(&file, pcap.Config{Snap: 100})
	if err != nil {
		t.Fatal(err)
	}
	h := virtio.NetHdr{Flags: 1, GSOType: 0x81, HdrLen: 66, GSOSize: 1448, CSumStart: 34, CSumOffset: 16, NumBuffers: 2}
	f := bytes.Repeat([]byte("0123456789"), 20)
	w.Frame(netdev.Sighting{Time: 1234567891, At: netdev.AtGuest, Dir: netdev.DirTX, Pair: 3}, &h, [][]byte{f[:7], f[7:50], f[50:]}, 60)
	w.Frame(netdev.Sighting{Time: 5, At: netdev.AtPort, Dir: netdev.DirRX}, &virtio.NetHdr{}, [][]byte{f}, 200)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Frame(netdev.Sighting{}, &h, [][]byte{f}, 200) // after Close: not written
	want := []seen{
		{"guest", 3, pcapgo.NgEpbFlagDirectionOutbound, time.Unix(1, 234567891).UTC(), 60, f[:60], h},
		{"port", 0, pcapgo.NgEpbFlagDirectionInbound, time.Unix(0, 5).UTC(), 200, f[:100], virtio.NetHdr{}},
	}
	if d := cmp.Diff(want, read(t, file.Bytes())); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if g, p := w.Packets(); g != 1 || p != 1 {
		t.Errorf("%d and %d packets", g, p)
	}
}

func TestStamp(t *testing.T) {
	var file bytes.Buffer
	day := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	w, err := pcap.NewWriter(&file, pcap.Config{Stamp: func(now vtime.Time) time.Time { return day.Add(time.Duration(now)) }})
	if err != nil {
		t.Fatal(err)
	}
	w.Frame(netdev.Sighting{Time: 1000}, &virtio.NetHdr{}, [][]byte{make([]byte, 60)}, 60)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, file.Bytes()); len(got) != 1 || !got[0].Time.Equal(day.Add(1000)) {
		t.Errorf("%+v", got)
	}
}

// brokenFile fails after some bytes.
type brokenFile struct{ room int }

func (b *brokenFile) Write(p []byte) (int, error) {
	if b.room -= len(p); b.room < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestErrorIsKept(t *testing.T) {
	w, err := pcap.NewWriter(&brokenFile{room: 8000}, pcap.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		w.Frame(netdev.Sighting{}, &virtio.NetHdr{}, [][]byte{make([]byte, 1500)}, 1500)
	}
	if err := w.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("error %v", err)
	}
}

func TestParseHeaderRefuses(t *testing.T) {
	for _, text := range []string{"", "hello", "virtio_net_hdr flags=0x1"} {
		if _, ok := pcap.ParseHeader(text); ok {
			t.Errorf("%q was read", text)
		}
	}
}
