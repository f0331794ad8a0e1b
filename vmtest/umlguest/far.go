package umlguest

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// The world composes the sender's workers with the network behind them.
var (
	_ host.Owner = (*world)(nil)
	_ host.Ends  = (*world)(nil)
)

// maxHeaders is how much of a frame is looked at: Ethernet, IPv6 and TCP with all
// options.
const maxHeaders = 128

// Taken finds out what the worker took off the device. Sequence numbers become
// relative to the SYN's.
func (w *world) Taken(now vtime.Time, pair int, o *host.Outgoing, h *virtio.NetHdr, iov [][]byte) {
	w.identify(pair, o, iov)
	if o.Flow >= 0 {
		w.rec.taken(now, o)
	}
	if w.receiver != nil {
		w.receiver.carried[pair] = w.receiver.out.keep(o, h, iov)
	}
}

func (w *world) identify(pair int, o *host.Outgoing, iov [][]byte) {
	var head [maxHeaders]byte
	b := iov[0]
	if len(b) < maxHeaders && len(iov) > 1 {
		b = head[:gather(head[:], iov)]
	}
	o.TSVal = 0
	if !frame.Parse(b, &o.Info) || o.Info.Proto != frame.ProtoTCP {
		o.Info = frame.Info{Payload: o.Len}
		return
	}
	id := int(o.Info.SrcPort) - firstPort
	if id < 0 || id >= len(w.flows) || o.Info.DstPort != peerPort {
		return
	}
	f := &w.flows[id]
	if o.Info.Flags&skb.SYN != 0 {
		f.iss, f.known, f.queue = uint32(o.Info.Seq), true, pair
		w.connected()
	}
	if !f.known {
		return
	}
	f.queue = pair
	var opt frame.Options
	frame.ParseOptions(frame.TCP(b[o.Info.L4:]).Options(), &opt)
	o.Flow, o.Seq, o.Ack, o.TSVal = int32(id), uint32(o.Info.Seq)-f.iss, uint32(o.Info.Ack)-f.peerISS, opt.TSVal
	if o.Info.Flags&skb.ACK == 0 {
		o.Ack = 0
	}
}

func gather(dst []byte, iov [][]byte) (n int) {
	for _, b := range iov {
		n += copy(dst[n:], b)
	}
	return n
}

// Sent puts a packet that the worker has finished on the link.
func (w *world) Sent(now vtime.Time, pair int, o *host.Outgoing) {
	w.rec.sent(now, o)
	if r := w.receiver; r != nil {
		r.out.send(now, r.carried[pair], o)
		r.carried[pair] = nil
		return
	}
	if o.Flow >= 0 {
		w.net.Send(now, o, o.TSVal)
	}
}

// Delivered is an ACK that the device has delivered.
func (w *world) Delivered(now vtime.Time, a *host.Inbound) {
	w.rec.ack(now, a)
	if w.receiver != nil {
		w.receiver.back.put(a)
		return
	}
	w.net.Put(a)
}

// Interrupt is a call for one of the sender's rings.
func (w *world) Interrupt(_ vtime.Time, pair int, dir netdev.Dir) {
	w.cal.broken(w.sender.call(ringOf(pair, dir)))
}

// ringOf is the index of a ring in the device.
func ringOf(pair int, dir netdev.Dir) int {
	if dir == netdev.DirTX {
		return 2*pair + 1
	}
	return 2 * pair
}

// Broken keeps the error of a queue.
func (w *world) Broken(err error) {
	if err != nil {
		w.cal.broken(w.sender.fail(ErrProtocol, "%v", err))
	}
}

// Answer sends a receiver's packet back, with the sender's own sequence numbers.
func (w *world) Answer(now vtime.Time, flow int, ack uint32, f *frame.TCPSpec) {
	iss := frame.Seq(w.flows[flow].iss)
	f.Ack += iss
	for i := range f.SACK {
		f.SACK[i].Start += iss
		f.SACK[i].End += iss
	}
	w.net.Return(now, flow, ack, f)
}

// Arrive gives an ACK to the worker of the pair that its flow sends on.
func (w *world) Arrive(now vtime.Time, a *host.Inbound) {
	hash := uint32(0)
	if a.Flow >= 0 {
		hash = w.flows[a.Flow].hash
	}
	w.sender.dev.workers[w.sender.dev.dev.SteerRX(hash)].Arrive(now, a)
}
