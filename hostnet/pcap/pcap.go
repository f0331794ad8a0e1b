// Package pcap writes what passes a net device to a pcapng file that Wireshark
// and tcpdump read. It is without sockets and goroutines, and without a clock but
// the one that it is given.
//
// A file has two interfaces, "guest" and "port": the device's two sides. Each
// packet has its direction as the guest sees it (outbound is what the guest
// sends), its queue pair, and, as a comment, its virtio-net header, which
// ParseHeader reads.
package pcap

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Config describes a capture. The zero value of each field is its default.
type Config struct {
	// Stamp turns the device's time into that of the file; nil counts it from
	// the beginning of 1970, as fits virtual time.
	Stamp func(vtime.Time) time.Time
	// Snap is the most bytes of a frame that are kept; 0 keeps all.
	Snap int
}

// Writer is a netdev.Observer that writes a pcapng file. It is safe for
// concurrent use.
type Writer struct {
	mu   sync.Mutex
	ng   *pcapgo.NgWriter
	cfg  Config
	buf  []byte
	err  error
	sums [2]uint64 // packets, by side
}

var _ netdev.Observer = (*Writer)(nil)

// NewWriter starts a file in w, which stays the caller's.
func NewWriter(w io.Writer, cfg Config) (*Writer, error) {
	if cfg.Stamp == nil {
		cfg.Stamp = func(t vtime.Time) time.Time { return time.Unix(0, int64(t)).UTC() }
	}
	side := func(at netdev.Point, about string) pcapgo.NgInterface {
		return pcapgo.NgInterface{Name: at.String(), Description: about, LinkType: layers.LinkTypeEthernet, TimestampResolution: 9, SnapLength: uint32(cfg.Snap)}
	}
	ng, err := pcapgo.NewNgWriterInterface(w, side(netdev.AtGuest, "between the guest and the device"),
		pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "vnetbench"}})
	if err != nil {
		return nil, fmt.Errorf("pcapng: %w", err)
	}
	if _, err := ng.AddInterface(side(netdev.AtPort, "between the device and the host")); err != nil {
		return nil, fmt.Errorf("pcapng: %w", err)
	}
	return &Writer{ng: ng, cfg: cfg}, nil
}

// Frame writes a frame. An error of the file is kept for Close.
func (w *Writer) Frame(s netdev.Sighting, h *virtio.NetHdr, iov [][]byte, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	keep := n
	if w.cfg.Snap > 0 {
		keep = min(n, w.cfg.Snap)
	}
	w.buf = w.buf[:0]
	for _, b := range iov {
		w.buf = append(w.buf, b[:min(len(b), keep-len(w.buf))]...)
	}
	queue := uint32(s.Pair)
	flags := pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionOutbound}
	if s.Dir == netdev.DirRX {
		flags.Direction = pcapgo.NgEpbFlagDirectionInbound
	}
	ci := gopacket.CaptureInfo{Timestamp: w.cfg.Stamp(s.Time), CaptureLength: len(w.buf), Length: n, InterfaceIndex: int(s.At)}
	w.err = w.ng.WritePacketWithOptions(ci, w.buf, pcapgo.NgPacketOptions{Comments: []string{FormatHeader(h)}, Flags: &flags, Queue: &queue})
	w.sums[s.At]++
}

// Packets returns how many frames were written of each side.
func (w *Writer) Packets() (guest, port uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sums[netdev.AtGuest], w.sums[netdev.AtPort]
}

// Close writes out what is left and returns the first error. It does not close
// the file. Frames that come later are not written.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.err
	if err == nil {
		err = w.ng.Flush()
	}
	w.err = io.ErrClosedPipe
	if err != nil {
		return fmt.Errorf("pcapng: %w", err)
	}
	return nil
}

// headerForm is a net header in a comment.
const headerForm = "virtio_net_hdr flags=0x%x gso_type=0x%x hdr_len=%d gso_size=%d csum_start=%d csum_offset=%d num_buffers=%d"

// FormatHeader writes a net header as the comment of a packet.
func FormatHeader(h *virtio.NetHdr) string {
	return fmt.Sprintf(headerForm, h.Flags, h.GSOType, h.HdrLen, h.GSOSize, h.CSumStart, h.CSumOffset, h.NumBuffers)
}

// ParseHeader reads what FormatHeader wrote; false means that the text is not
// that.
func ParseHeader(text string) (h virtio.NetHdr, ok bool) {
	n, err := fmt.Sscanf(strings.TrimSpace(text), headerForm, &h.Flags, &h.GSOType, &h.HdrLen, &h.GSOSize, &h.CSumStart, &h.CSumOffset, &h.NumBuffers)
	return h, n == 7 && err == nil
}

// WallClock returns a Config.Stamp for a device in real time: the first time that
// it is given is now.
func WallClock() func(vtime.Time) time.Time {
	var begin time.Time
	var first vtime.Time
	return func(t vtime.Time) time.Time {
		if begin.IsZero() {
			begin, first = time.Now(), t
		}
		return begin.Add(t.Sub(first))
	}
}
