package simguest

import (
	"time"

	"github.com/vnetbench/vnetbench/guest/driver"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// lower is what lies below TCP on the sender's side: the scenario's topology.
type lower interface {
	// transmit takes a packet whose headers are complete. False means that it
	// was dropped before any queue took it.
	transmit(k *conn, p *skb.SKB) bool
	// answer takes a packet of a receiver, with the headers f, on its way to the
	// sender.
	answer(now vtime.Time, k *conn, ack uint32, f *frame.TCPSpec)
	// release is what happens to packets below, in the scenario's words.
	release() string
	// count adds what happened so far to a snapshot.
	count(s *snapshot)
}

// virtioLower is TopologyVirtio: transmit queues, driver, device and workers.
type virtioLower struct{ w *world }

func (l virtioLower) transmit(k *conn, p *skb.SKB) bool {
	k.queue = l.w.pickQueue(k, p)
	p.Queue = int32(k.queue)
	l.w.rec.qdisc(l.w.now(), p)
	return l.w.txqs[k.queue].xmit(p)
}

func (l virtioLower) answer(now vtime.Time, k *conn, ack uint32, f *frame.TCPSpec) {
	c := l.w.cable
	p := c.take()
	p.Flow, p.Ack, p.SYN = int32(k.id), ack, f.Flags&skb.SYN != 0
	p.Build(f)
	_, at, fate := c.back.Send(now, int64(len(p.Frame()))+wireExtra)
	if fate != link.Arrives {
		c.put(p)
		return
	}
	p.At = at
	c.acks.Push(p)
	l.w.loop.At(at, c, 1) // its place among events of that time is that of its sending
}

func (l virtioLower) release() string { return releaseName(l.w.net.Config()) }

func (l virtioLower) count(s *snapshot) {
	s.ctrl, s.stats = l.w.dev.Ctrl().Snapshot(), l.w.net.Stats()
	for i, k := range l.w.workers {
		p := l.w.dev.Pair(i)
		s.tx, s.rx = append(s.tx, p.TX.Snapshot()), append(s.rx, p.RX.Snapshot())
		s.busy += k.Busy
	}
}

// snapshot is every counter of a world at one time.
type snapshot struct {
	at    vtime.Time
	tx    []netdev.Stats
	rx    []netdev.Stats
	ctrl  netdev.Stats
	stats []driver.Stat
	busy  time.Duration // of the workers
	guest guestCount
}
