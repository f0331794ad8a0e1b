package simguest

import (
	"github.com/vnetbench/vnetbench/guest/driver"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// The world is the environment of all sockets: tcp.Env, and the sink of the
// driver's received frames.
var (
	_ tcp.Env     = (*world)(nil)
	_ driver.Sink = (*world)(nil)
)

// Now reads the clock of the current CPU.
func (w *world) Now() vtime.Time {
	if w.cur.Running() {
		return w.cur.ReadClock()
	}
	return w.loop.Now()
}

// Local is the time of the current CPU without a clock read.
func (w *world) Local() vtime.Time { return w.cost.cpu.Reading(w.now()) }

// DisableBH and EnableBH are tcp.BottomHalves.
func (w *world) DisableBH() { w.cur.DisableBH() }

// EnableBH lets softirqs run.
func (w *world) EnableBH() { w.cur.EnableBH() }

// InDaemon reports whether ksoftirqd runs.
func (w *world) InDaemon() bool { return w.soft != nil && w.soft.inside }

// Transmit builds a packet's headers, chooses its queue and gives it to the
// queueing discipline.
func (w *world) Transmit(_ *tcp.Sock, p *skb.SKB) bool { return w.send(w.conns[p.Flow], p) }

func (w *world) send(k *conn, p *skb.SKB) bool {
	k.options(p.Flags&skb.SYN != 0)
	k.data.Seq, k.data.Ack, k.data.Flags = frame.Seq(p.Seq), frame.Seq(p.Ack), p.Flags
	k.data.Ack = k.data.Ack.Add(k.ask.got)
	k.data.TSVal = tsMillis(w.now())
	k.data.Absent = int(p.Len)
	p.HdrLen = int32(len(frame.AppendTCP(p.Hdr[:0], &k.data)))
	p.Hash = k.hash
	return w.lower.transmit(k, p)
}

// pickQueue is the queue of the flow's next packet: fixed by the scenario, or
// the kernel's choice.
func (w *world) pickQueue(k *conn, p *skb.SKB) int {
	if k.f.Queue >= 0 {
		return k.f.Queue
	}
	return w.picker.Queue(driver.Pick{
		CPU: w.cur.ID, Hash: k.hash, Prev: k.queue, OOOOkay: k.sock.OOOOkay(p), Recorded: -1,
	})
}

// QueueTSQ puts the socket on the tasklet of the CPU that freed its packet.
func (w *world) QueueTSQ(s *tcp.Sock) {
	if w.soft != nil {
		w.soft.tasklet(w.conns[s.Flow()])
		return
	}
	w.cur.tasklet(w.conns[s.Flow()])
}

// WriteSpace wakes the socket's writer.
func (w *world) WriteSpace(s *tcp.Sock) { w.conns[s.Flow()].wakeWriter() }

// Receive is a frame that the driver took off its ring: an ACK of one of the
// flows.
func (w *world) Receive(now vtime.Time, f *driver.Frame) { w.input(now, f.Parts[0]) }

// input is TCP's input of a frame to one of the flows.
func (w *world) input(now vtime.Time, b []byte) {
	var in frame.Info
	if !frame.Parse(b, &in) || in.Proto != frame.ProtoTCP {
		return
	}
	id := int(in.DstPort) - basePort
	if id < 0 || id >= len(w.conns) {
		return
	}
	k := w.conns[id]
	if in.Flags&skb.SYN != 0 {
		k.established(b, &in)
		return
	}
	var opt frame.Options
	frame.ParseOptions(frame.TCP(b[in.L4:]).Options(), &opt)
	for i := range opt.NSACK {
		w.sacks[i] = tcp.Range{Start: uint32(opt.SACK[i].Start), End: uint32(opt.SACK[i].End)}
	}
	k.data.TSEcr = opt.TSVal
	k.sock.Input(tcp.Ack{
		Ack: uint32(in.Ack), Wnd: uint32(in.Window) << w.cable.wscale, Sacks: w.sacks[:opt.NSACK],
		TSVal: opt.TSVal, TSEcr: max(opt.TSEcr, 1) - 1, ECE: in.Flags&skb.ECE != 0,
	})
	k.cwnd.add(k.sock.Cwnd())
	k.settle()
	if n := in.PayloadLen(); n > 0 {
		k.answer(in.Seq, n)
	}
}

// tsMillis is the timestamp option's clock: milliseconds, never 0.
func tsMillis(t vtime.Time) uint32 { return uint32(t/1e6) + 1 }
