package umlguest

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// The world composes the senders' workers with the network behind them.
var _ host.Ends = (*world)(nil)

// maxHeaders is how much of a frame is looked at: Ethernet, IPv6 and TCP with all
// options.
const maxHeaders = 128

// identify fills in what the headers say of a packet that a sender's device took.
func (x *source) identify(pair int, o *host.Outgoing, iov [][]byte) {
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
	if id < 0 || id >= len(x.w.flows) || o.Info.DstPort != peerPort || x.w.flows[id].sender != x.index {
		return
	}
	f := &x.w.flows[id]
	if o.Info.Flags&skb.SYN != 0 {
		f.iss, f.known, f.queue = uint32(o.Info.Seq), true, pair
		x.w.connected()
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

// Answer sends a modelled receiver's packet back to its sender, with that one's
// own sequence numbers.
func (w *world) Answer(now vtime.Time, flow int, ack uint32, f *frame.TCPSpec) {
	to := w.sources[w.flows[flow].sender]
	f.DstMAC, f.Dst = to.end.mac, to.end.addr
	iss := frame.Seq(w.flows[flow].iss)
	f.Ack += iss
	for i := range f.SACK {
		f.SACK[i].Start += iss
		f.SACK[i].End += iss
	}
	w.net.Return(now, flow, ack, f)
}

// Arrive gives a packet that has come back to the worker of the pair that its flow
// sends on. What belongs to no flow goes where its link address says.
func (w *world) Arrive(now vtime.Time, a *host.Inbound) {
	hash, to := uint32(0), 0
	if a.Flow >= 0 {
		hash, to = w.flows[a.Flow].hash, w.flows[a.Flow].sender
	} else if to = w.senderAt(a.Frame()); to < 0 {
		w.back.put(a) // from a guest that receives: the model answers flows only
		return
	}
	dev := w.sources[to].c.dev
	dev.workers[dev.dev.SteerRX(hash)].Arrive(now, a)
}

// senderAt is the number of the sender that a frame is for: the only one, or that
// with its link address, or -1.
func (w *world) senderAt(b []byte) int {
	if len(w.sources) == 1 {
		return 0
	}
	for i, x := range w.sources {
		if addressed(b, &x.end) {
			return i
		}
	}
	return -1
}

// addressed reports whether a frame is for the end's link address.
func addressed(b []byte, e *end) bool {
	return len(b) >= len(e.mac) && frame.MAC(b[:len(e.mac)]) == e.mac
}
