package umlguest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// capture is what the guest of TopologyVeth captured, while it is read: counters of
// what left the sender's namespace and of what reached it.
type capture struct {
	w        *world
	tx, rx   netdev.Stats
	lost     int // packets that the guest had no room for
	boot     int64
	foreign  int // packets of no flow
	received []int64
}

// captured is a packet as the guest's program writes it, which ends with the first
// bytes of its frame.
const (
	capturedHead = 16
	capturedLen  = capturedHead + 128
)

// outgoingType is PACKET_OUTGOING of packet(7).
const outgoingType = 4

// readCapture reads what the guest wrote at its end, and counts it up to each mark.
func (w *world) readCapture() error {
	c := &w.capture
	c.w, c.received = w, make([]int64, len(w.flows))
	if err := c.clocks(); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(w.dir, "sender", packetsFile))
	if err != nil {
		return w.sender.fail(ErrEnded, "packets: %v", err)
	}
	for _, line := range w.sender.vm.console.said("packets") {
		_, _ = fmt.Sscanf(line, "%d lost=%d", new(int), &c.lost)
	}
	times := w.markTimes()
	for ; len(b) >= capturedLen; b = b[capturedLen:] {
		now := vtime.Time(int64(binary.LittleEndian.Uint64(b)) - c.boot)
		for len(times) > 0 && now >= times[0] {
			w.read(times[0], len(times) == 1 && w.s.Duration > 0)
			times = times[1:]
		}
		c.packet(now, b[:capturedLen])
	}
	for _, t := range times {
		w.read(t, w.s.Duration > 0 && t == times[len(times)-1])
	}
	if !w.rec.over {
		w.read(w.cal.at, false)
	}
	return nil
}

// clocks takes the time of day at which the machine was started from what the guest
// said of its clocks: a reading takes it 256 ns.
func (c *capture) clocks() error {
	var mono, day int64
	said := strings.Join(c.w.sender.vm.console.said("clocks"), " ")
	if _, err := fmt.Sscanf(said, "%d %d", &mono, &day); err != nil {
		return c.w.sender.fail(ErrProtocol, "clocks: %q, want two readings", said)
	}
	c.boot = day - mono - clockStep
	return nil
}

// clockStep is how far a reading of the clock moves it (TIMER_MULTIPLIER,
// arch/um/kernel/time.c, v6.1).
const clockStep = 256

// packet is one that left the sender's namespace or reached it.
func (c *capture) packet(now vtime.Time, b []byte) {
	n, have := int(binary.LittleEndian.Uint32(b[8:])), int(binary.LittleEndian.Uint16(b[12:]))
	out := binary.LittleEndian.Uint16(b[14:]) == outgoingType
	var in frame.Info
	if !frame.Parse(b[capturedHead:][:min(have, capturedLen-capturedHead)], &in) || in.Proto != frame.ProtoTCP {
		c.foreign++
		return
	}
	port := in.DstPort
	if out {
		port = in.SrcPort
	}
	flow := int(port) - firstPort
	if flow < 0 || flow >= len(c.w.flows) {
		c.foreign++
		return
	}
	f, length := &c.w.flows[flow], max(n-in.Payload, 0)
	if in.Flags&skb.SYN != 0 {
		if out {
			f.iss = uint32(in.Seq)
		} else {
			f.peerISS = uint32(in.Seq)
		}
	}
	p := vmtest.TracePacket{Ack: !out, Flow: flow, Len: length, Flags: in.Flags}
	if out {
		p.Seq, p.AckNo = uint32(in.Seq)-f.iss, uint32(in.Ack)-f.peerISS
		c.left(in.Payload, length)
	} else {
		p.Seq, p.AckNo = uint32(in.Seq)-f.peerISS, uint32(in.Ack)-f.iss
		c.reached(flow, p.AckNo, &in)
	}
	if in.Flags&skb.ACK == 0 {
		p.AckNo = 0
	}
	c.w.rec.captured(now, &p)
}

// left counts a packet of the sender.
func (c *capture) left(headers, length int) {
	s, mss := &c.tx, c.w.s.EffectiveMSS()
	segs := max((length+mss-1)/mss, 1)
	s.Packets++
	s.Bytes += uint64(headers + length)
	s.Segs += uint64(segs)
	if length == 0 {
		return
	}
	s.DataPackets++
	s.PayloadBytes += uint64(length)
	s.GSOSize.Add(uint64(length))
	if segs > 1 {
		s.GSOPackets++
		s.GSOSegs += uint64(segs)
	}
	if length >= netdev.BigSegs*mss {
		s.BigBytes += uint64(length)
	}
}

// reached counts a packet of the receiver.
func (c *capture) reached(flow int, ack uint32, in *frame.Info) {
	c.rx.Packets++
	if in.Flags == skb.ACK {
		c.rx.PureACKs++
		c.received[flow] = max(c.received[flow], int64(ack)-1)
	}
}

func (c *capture) snapshot(now vtime.Time) snapshot {
	return snapshot{at: now, rings: []host.Rings{{TX: []netdev.Stats{c.tx}, RX: []netdev.Stats{c.rx}}},
		received: append([]int64{}, c.received...)}
}

func (c *capture) warnings() []string {
	if c.lost == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the guest captured %d packets and had no room for %d more: what they were is not in the figures", captureFrames, c.lost)}
}
