package simguest

import (
	"fmt"

	"github.com/vnetbench/vnetbench/guest/driver"
	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// vethLower is TopologyVeth: the sender's namespace A with its queueing
// discipline, the router R with one each way, and the receiver's namespace B,
// all on one CPU of one guest and joined by pairs of veth. There is no device
// and no host: nothing kicks and nothing calls. What a veth sends is received in
// a softirq of the same CPU, from one backlog for all namespaces (netif_rx and
// process_backlog, v6.1 and v6.12).
type vethLower struct {
	w    *world
	a    *qdisc.TxQ
	wait timer // A's discipline holds packets back
	fwd  *hop
	rev  *hop

	polling bool // the receive softirq runs

	tx netdev.Stats // of what leaves A
	rx netdev.Stats // of what reaches A
}

// place is a namespace's end of a veth pair, where packets arrive.
type place uint8

const (
	routerFromA place = iota
	routerFromB
	receiverB
	senderA
)

// arrivals is the backlog of packets that were received and not yet looked at
// (softnet_data, v6.1): a FIFO for each place, and the order of all.
type arrivals struct {
	skbs  skb.List
	to    []place
	first int
}

func (q *arrivals) push(p *skb.SKB, to place) {
	q.skbs.Push(p)
	q.to = append(q.to, to)
}

// pop takes the first packet of a backlog that has one.
func (q *arrivals) pop() (*skb.SKB, place) {
	to := q.to[q.first]
	q.first++
	if q.first == len(q.to) {
		q.to, q.first = q.to[:0], 0
	}
	return q.skbs.Pop(), to
}

// hop is an egress of the router.
type hop struct {
	l     *vethLower
	disc  qdisc.Disc
	timer timer
	to    place
}

func (w *world) newVeth() error {
	if len(w.cpus) != 1 {
		return fmt.Errorf("vcpus: %d, and topology veth is one guest with one CPU; set vcpus=1", len(w.cpus))
	}
	l := &vethLower{w: w}
	w.ce, w.soft, w.veth = newClockEvent(w), &softirqs{w: w}, l
	w.soft.run = runQueue{cfs: fairQueue(w.s.Kernel), resched: &w.soft.resched}
	w.sink, w.rec.clock = &sink{w: w}, w.cost.cpu
	w.softirqdRule = softirqdKeeps(w.s.Kernel)
	w.cpus[0].SetPreempter(w.soft)
	spec, err := qdisc.ParseSpec(w.s.Qdisc)
	if err != nil {
		return fmt.Errorf("qdisc: %w", err)
	}
	if l.a, err = qdisc.NewFrom(vethDev{l}, w, &w.pool, qdisc.Config{}, spec); err != nil {
		return fmt.Errorf("qdisc: %w", err)
	}
	l.wait = w.newTimer(l, 0)
	if l.fwd, err = l.newHop(w.s.Router.Forward, receiverB); err != nil {
		return fmt.Errorf("router.fwd: %w", err)
	}
	if l.rev, err = l.newHop(w.s.Router.Reverse, senderA); err != nil {
		return fmt.Errorf("router.rev: %w", err)
	}
	w.lower = l
	return nil
}

func (l *vethLower) newHop(text string, to place) (*hop, error) {
	spec, err := qdisc.ParseSpec(text)
	if err != nil {
		return nil, err
	}
	h := &hop{l: l, to: to}
	h.disc, err = qdisc.NewDisc(spec, l.w, &l.w.pool)
	h.timer = l.w.newTimer(h, 0)
	return h, err
}

// transmit is dev_queue_xmit at A, with bottom halves off.
func (l *vethLower) transmit(_ *conn, p *skb.SKB) bool {
	cpu := l.w.cur
	cpu.DisableBH()
	o := l.a.Xmit(l.reading(), cpu.ID, p)
	dropped := o.Dropped
	l.carry(o)
	cpu.EnableBH()
	return !dropped
}

// reading is what the clock shows.
func (l *vethLower) reading() vtime.Time { return l.w.Local() }

func (l *vethLower) carry(o qdisc.Outcome) {
	now := l.reading()
	for o.More {
		o = l.a.Run(now)
	}
	l.a.Release(now)
	if o.Resched {
		l.w.soft.schedule(l)
	}
	// The watchdog is never taken back (qdisc_watchdog, v6.1).
	if from, to := l.a.Disc().Window(); to != vtime.Never {
		l.wait.Window(from, to)
	}
}

// Run is the watchdog of A's discipline.
func (l *vethLower) Run(now vtime.Time, _ uint64) {
	l.a.Fire(now)
	l.w.soft.schedule(l)
}

// output is the transmit softirq of A.
func (l *vethLower) output(now vtime.Time) { l.carry(l.a.Restart(now, l.w.cur.ID)) }

// vethDev is A's end of its veth pair.
type vethDev struct{ *vethLower }

// Xmit passes the packet to R.
func (d vethDev) Xmit(now vtime.Time, p *skb.SKB, _ bool) qdisc.Verdict {
	d.left(now, p)
	d.netifRx(p, routerFromA)
	return qdisc.Verdict{}
}

// netifRx puts a packet into the backlog of the CPU, whose softirq need not be
// raised while it runs (enqueue_to_backlog).
func (l *vethLower) netifRx(p *skb.SKB, to place) {
	l.w.soft.backlog.push(p, to)
	if !l.polling {
		l.w.soft.raise(vecNetRx)
	}
}

// Stopped is false: a veth takes everything.
func (vethDev) Stopped() bool { return false }

// BulkBytes is 0: a veth has no byte limit.
func (vethDev) BulkBytes() int64 { return 0 }

// left counts and records a packet that leaves A's discipline.
func (l *vethLower) left(now vtime.Time, p *skb.SKB) {
	l.w.rec.dataSKB(now, p)
	s := &l.tx
	s.Packets++
	s.Bytes += uint64(p.HdrLen + p.Len)
	s.Segs += uint64(p.Segs)
	if p.Len == 0 {
		return
	}
	s.DataPackets++
	s.PayloadBytes += uint64(p.Len)
	s.GSOSize.Add(uint64(p.Len))
	if p.GSOSize > 0 {
		s.GSOPackets++
		s.GSOSegs += uint64(p.Segs)
		if p.Len >= netdev.BigSegs*p.GSOSize {
			s.BigBytes += uint64(p.Len)
		}
	}
}

// rxBudget is how many packets one round of the receive softirq takes at least
// before it looks whether others want the CPU: whole polls of 64 until 300 are
// reached (netdev_budget and weight_p, v6.1 and v6.12).
const rxBudget = 320

// receive is the receive softirq.
func (l *vethLower) receive(now vtime.Time) {
	l.polling = true
	q := &l.w.soft.backlog
	for n := 0; q.skbs.Len() > 0 && n < rxBudget; n++ {
		p, to := q.pop()
		l.arrive(now, p, to)
	}
	l.polling = false
	if q.skbs.Len() > 0 {
		l.w.soft.raise(vecNetRx)
	}
}

// arrive is a packet that reaches a namespace.
func (l *vethLower) arrive(now vtime.Time, p *skb.SKB, to place) {
	switch to {
	case routerFromA:
		p.Orphan() // a packet is its sender's until IP takes it in (ip_rcv_core, v6.1)
		l.fwd.send(now, p)
	case routerFromB:
		l.rev.send(now, p)
	case receiverB:
		l.w.cable.reach(now, p)
		p.Free()
	case senderA:
		l.input(now, p)
	}
}

// input is a packet that reaches A.
func (l *vethLower) input(now vtime.Time, p *skb.SKB) {
	l.rx.Packets++
	if p.Flags == skb.ACK {
		l.rx.PureACKs++
	}
	l.w.rec.ackSKB(now, p)
	l.w.input(now, p.Hdr[:p.HdrLen])
	p.Free()
}

// send puts a packet through the hop.
func (h *hop) send(now vtime.Time, p *skb.SKB) {
	if h.disc.Bypass() && h.disc.Len() == 0 {
		h.l.netifRx(p, h.to)
		return
	}
	h.disc.Enqueue(now, p)
	h.output(now)
}

// output sends what may leave, as far as the quota of a run goes (__qdisc_run,
// v6.1).
func (h *hop) output(now vtime.Time) {
	quota := qdisc.DefaultQuota
	for p, ok := h.disc.Dequeue(now); ok; p, ok = h.disc.Dequeue(now) {
		h.l.netifRx(p, h.to)
		if quota--; quota == 0 {
			h.l.w.soft.schedule(h)
			break
		}
	}
	if from, to := h.disc.Window(); to != vtime.Never {
		h.timer.Window(from, to)
	}
}

// Run is the watchdog of the hop's discipline.
func (h *hop) Run(now vtime.Time, _ uint64) {
	h.disc.Fire(now)
	h.l.w.soft.schedule(h)
}

// answer puts an ACK of the receiver on its way to R.
func (l *vethLower) answer(_ vtime.Time, k *conn, ack uint32, f *frame.TCPSpec) {
	p := l.w.pool.Get()
	p.Flow, p.Ack, p.Seq, p.Flags, p.Segs = int32(k.id), ack, uint32(f.Seq), f.Flags, 1
	p.HdrLen = int32(len(frame.AppendTCP(p.Hdr[:0], f)))
	l.w.cur.DisableBH()
	l.netifRx(p, routerFromB)
	l.w.cur.EnableBH()
}

func (l *vethLower) release() string { return "" }

func (l *vethLower) count(s *snapshot) {
	s.tx, s.rx = append(s.tx, l.tx), append(s.rx, l.rx)
	s.stats = []driver.Stat{}
}

// reach hands a packet that crossed the router to its receiver.
func (c *cable) reach(now vtime.Time, p *skb.SKB) {
	e := c.ends[p.Flow]
	if p.Flags&skb.SYN != 0 {
		e.asked = now
		c.accept(now, e.k)
		return
	}
	if p.Len == 0 && p.Flags&skb.FIN == 0 {
		e.rcv.SetRTT(now.Sub(e.asked))
		c.w.sink.wake(e) // the ACK of the handshake: there is one to accept
		return
	}
	s := link.Segment{
		Seq: p.Seq, Len: p.Len, MSS: p.GSOSize, TSVal: tsMillis(p.Born),
		PSH: p.Flags&skb.PSH != 0, FIN: p.Flags&skb.FIN != 0, CWR: p.Flags&skb.CWR != 0,
		TrueSize: p.TrueSize, Frags: int32(p.NFrags),
	}
	e.rcv.Receive(now, &s)
	e.drain(now)
	if e.readable() {
		c.w.sink.wake(e)
	}
}
