package umlguest

import (
	"fmt"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// receiver is the side of the world of one guest that receives: a device whose
// host costs nothing, and what goes back from it.
type receiver struct {
	w        *world
	c        *client
	index    int
	end      end
	model    host.Model
	answered *host.Inbound // in service at its worker
}

var _ host.Owner = (*receiver)(nil)

// newReceivers makes the guests that receive, and the link that all packets share.
func (w *world) newReceivers() (err error) {
	if w.out, w.back, err = newLanes(&w.s, &w.cal.loop); err != nil {
		return fmt.Errorf("link: %w", err)
	}
	w.out.arrive, w.back.arrive = w.reach, w.Arrive
	for i := range w.s.Guests.Receivers {
		if err := w.newReceiver(i); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) newReceiver(i int) error {
	r := &receiver{w: w, index: i, end: receiverEnd(w.s.IP, i)}
	r.c = w.newClient("guest " + host.ReceiverName(i, w.s.Guests.Receivers))
	r.c.serves = true
	dev, err := netdev.New(netdev.Config{QueuePairs: 1, Features: netdev.BaseFeatures &^ (virtio.FeatureMTU | virtio.FeatureMQ),
		MTU: uint16(w.s.MTU), MAC: r.end.mac})
	if err != nil {
		return err
	}
	r.c.dev = newSession(r.c, dev)
	r.c.dev.workers = []*host.Worker{host.NewWorker(&w.cal.loop, r, &r.model, dev.Pair(0))}
	w.receivers = append(w.receivers, r)
	return nil
}

// reach gives a packet that crossed the link to its receiver.
func (w *world) reach(now vtime.Time, a *host.Inbound) {
	to := 0
	if a.Flow >= 0 {
		to = w.flows[a.Flow].receiver
	} else if to = w.receiverAt(a.Frame()); to < 0 {
		w.out.put(a)
		return
	}
	w.receivers[to].c.dev.workers[0].Arrive(now, a)
}

// receiverAt is the number of the receiver that a frame is for, or -1.
func (w *world) receiverAt(b []byte) int {
	if len(w.receivers) == 1 {
		return 0
	}
	for i, r := range w.receivers {
		if addressed(b, &r.end) {
			return i
		}
	}
	return -1
}

// Taken copies an answer of the receiver's and finds out whose it is.
func (r *receiver) Taken(_ vtime.Time, _ int, o *host.Outgoing, h *virtio.NetHdr, iov [][]byte) {
	a := r.w.back.keep(o, h, iov)
	r.answered = a
	if !frame.Parse(a.Big, &o.Info) || o.Info.Proto != frame.ProtoTCP {
		o.Info = frame.Info{Payload: o.Len}
		return
	}
	id := int(o.Info.DstPort) - firstPort
	if id < 0 || id >= len(r.w.flows) || o.Info.SrcPort != peerPort || r.w.flows[id].receiver != r.index {
		return
	}
	f := &r.w.flows[id]
	a.Flow, a.Ack, a.SYN = int32(id), uint32(o.Info.Ack)-f.iss, o.Info.Flags&skb.SYN != 0
	if a.SYN {
		f.peerISS = uint32(o.Info.Seq)
	}
	if a.Ack > f.acked && a.Ack-f.acked < 1<<31 {
		f.acked = a.Ack
	}
}

// Sent puts the answer on the link back.
func (r *receiver) Sent(now vtime.Time, _ int, o *host.Outgoing) {
	r.w.back.send(now, r.answered, o)
	r.answered = nil
}

// Delivered is a packet in the receiving guest's ring.
func (r *receiver) Delivered(_ vtime.Time, a *host.Inbound) { r.w.out.put(a) }

// Interrupt is a call for one of the receiving guest's rings.
func (r *receiver) Interrupt(_ vtime.Time, pair int, dir netdev.Dir) {
	r.w.cal.broken(r.c.call(ringOf(pair, dir)))
}

// Broken keeps the error of a queue.
func (r *receiver) Broken(err error) {
	if err != nil {
		r.w.cal.broken(r.c.fail(ErrProtocol, "%v", err))
	}
}
