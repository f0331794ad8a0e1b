package umlguest

import (
	"fmt"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// source is the side of the world of one guest that sends: its device, with a
// worker for each pair.
type source struct {
	w       *world
	c       *client
	index   int
	end     end
	carried []*host.Inbound // in service at its workers, by pair, with receiving guests
}

var _ host.Owner = (*source)(nil)

func (w *world) newSource(i int) error {
	x := &source{w: w, index: i, end: senderEnd(w.s.IP, i), carried: make([]*host.Inbound, w.s.QueuePairs)}
	x.c = w.newClient("guest " + host.SenderName(i, w.s.Guests.Senders))
	policy, err := netdev.ParsePolicy(w.s.Policy)
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	cfg := netdev.Config{
		QueuePairs: w.s.QueuePairs, Features: offered(&w.s), MTU: uint16(w.s.MTU), Policy: policy, MAC: x.end.mac,
		TSOMaxSize: int(max(w.s.NIC.TSOMaxSize, 65536)),
	}
	if i == 0 {
		cfg.Observer = w.observer
	}
	dev, err := netdev.New(cfg)
	if err != nil {
		return err
	}
	x.c.dev = newSession(x.c, dev)
	x.c.dev.workers = host.NewWorkers(&w.cal.loop, x, &w.model, dev)

	w.sources = append(w.sources, x)
	return nil
}

// Taken finds out what the worker took off the device. Sequence numbers become
// relative to the SYN's.
func (x *source) Taken(now vtime.Time, pair int, o *host.Outgoing, h *virtio.NetHdr, iov [][]byte) {
	w := x.w
	x.identify(pair, o, iov)
	if o.Flow >= 0 {
		w.rec.taken(now, o)
	}
	if len(w.receivers) > 0 {
		x.carried[pair] = w.out.keep(o, h, iov)
	}
}

// Sent puts a packet that the worker has finished on the link.
func (x *source) Sent(now vtime.Time, pair int, o *host.Outgoing) {
	w := x.w
	w.rec.sent(now, o)
	if len(w.receivers) > 0 {
		w.out.send(now, x.carried[pair], o)
		x.carried[pair] = nil
		return
	}
	if o.Flow >= 0 {
		w.net.Send(now, o, o.TSVal)
	}
}

// Delivered is an ACK that the device has delivered.
func (x *source) Delivered(now vtime.Time, a *host.Inbound) {
	x.w.rec.ack(now, a)
	if len(x.w.receivers) > 0 {
		x.w.back.put(a)
		return
	}
	x.w.net.Put(a)
}

// Interrupt is a call for one of the guest's rings.
func (x *source) Interrupt(_ vtime.Time, pair int, dir netdev.Dir) {
	x.w.cal.broken(x.c.call(ringOf(pair, dir)))
}

// ringOf is the index of a ring in the device.
func ringOf(pair int, dir netdev.Dir) int {
	if dir == netdev.DirTX {
		return 2*pair + 1
	}
	return 2 * pair
}

// Broken keeps the error of a queue.
func (x *source) Broken(err error) {
	if err != nil {
		x.w.cal.broken(x.c.fail(ErrProtocol, "%v", err))
	}
}
