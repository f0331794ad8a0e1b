package simguest

import (
	"fmt"

	"github.com/vnetbench/vnetbench/guest/driver"
	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// vethLower is TopologyVeth: the sender's namespace A with its queueing
// discipline, the router R with one each way, and the receiver's namespace B,
// all on one CPU of one guest and joined by pairs of veth. There is no device
// and no host: nothing kicks and nothing calls.
type vethLower struct {
	w    *world
	a    *qdisc.TxQ
	wait timer // A's discipline holds packets back
	fwd  *hop
	rev  *hop
	tx   netdev.Stats // of what leaves A
	rx   netdev.Stats // of what reaches A

	toR     skbList // left A, and R's softirq has not run
	toA     skbList
	forward routeTask
	input   inputTask
	restart restartTask
}

// The softirqs of the guest's one CPU.
type (
	routeTask   struct{ *vethLower } // R takes what A sent
	inputTask   struct{ *vethLower } // A takes what R sent
	restartTask struct{ *vethLower } // A's discipline goes on
)

// hop is an egress of the router.
type hop struct {
	l     *vethLower
	disc  qdisc.Disc
	timer timer
	toA   bool
}

func (w *world) newVeth() error {
	if len(w.cpus) != 1 {
		return fmt.Errorf("vcpus: %d, and topology veth is one guest with one CPU; set vcpus=1", len(w.cpus))
	}
	l := &vethLower{w: w}
	l.forward, l.input, l.restart = routeTask{l}, inputTask{l}, restartTask{l}
	spec, err := qdisc.ParseSpec(w.s.Qdisc)
	if err != nil {
		return fmt.Errorf("qdisc: %w", err)
	}
	if l.a, err = qdisc.NewFrom(vethDev{l}, w, &w.pool, qdisc.Config{}, spec); err != nil {
		return fmt.Errorf("qdisc: %w", err)
	}
	l.wait = w.newTimer(l, 0)
	if l.fwd, err = l.newHop(w.s.Router.Forward, false); err != nil {
		return fmt.Errorf("router.fwd: %w", err)
	}
	if l.rev, err = l.newHop(w.s.Router.Reverse, true); err != nil {
		return fmt.Errorf("router.rev: %w", err)
	}
	w.lower = l
	return nil
}

func (l *vethLower) newHop(text string, toA bool) (*hop, error) {
	spec, err := qdisc.ParseSpec(text)
	if err != nil {
		return nil, err
	}
	h := &hop{l: l, toA: toA}
	h.disc, err = qdisc.NewDisc(spec, l.w, &l.w.pool)
	h.timer = l.w.newTimer(h, 0)
	return h, err
}

// transmit is dev_queue_xmit at A.
func (l *vethLower) transmit(_ *conn, p *skb.SKB) bool {
	cpu := l.w.cur
	o := l.a.Xmit(cpu.Now(), cpu.ID, p)
	dropped := o.Dropped
	l.carry(o)
	return !dropped
}

func (l *vethLower) carry(o qdisc.Outcome) {
	cpu := l.w.cur
	for o.More {
		o = l.a.Run(cpu.Now())
	}
	l.a.Release(cpu.Now())
	if o.Resched {
		cpu.post(cpu.Now(), vcpu.SoftIRQ, &l.restart)
	}
	l.wait.Set(l.a.Next())
}

// Run is the watchdog of A's discipline.
func (l *vethLower) Run(now vtime.Time, _ uint64) {
	l.a.Fire(now)
	l.w.cpus[0].post(now, vcpu.SoftIRQ, &l.restart)
}

// Run is the transmit softirq of A.
func (t *restartTask) Run(c *vcpu.CPU) { t.carry(t.a.Restart(c.Now(), c.ID)) }

// vethDev is A's end of its veth pair.
type vethDev struct{ *vethLower }

// Xmit passes the packet to R: at once, if the sender is in process context,
// since the softirq runs when bottom halves are enabled again; else when the
// running softirq is over.
func (d vethDev) Xmit(now vtime.Time, p *skb.SKB, _ bool) qdisc.Verdict {
	d.left(now, p)
	d.toR.push(p)
	if d.w.cur.Class() == vcpu.Process {
		d.route(now)
	} else if d.toR.n == 1 {
		d.w.cur.post(now, vcpu.SoftIRQ, &d.forward)
	}
	return qdisc.Verdict{}
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

// Run is R's receive softirq.
func (t *routeTask) Run(c *vcpu.CPU) { t.route(c.Now()) }

// route is R's forwarding. A packet is no longer its sender's once IP has taken
// it in (ip_rcv_core and ip6_rcv_core, v6.1).
func (l *vethLower) route(now vtime.Time) {
	for l.toR.n > 0 {
		p := l.toR.pop()
		p.Orphan()
		l.fwd.send(now, p)
	}
}

// send puts a packet through the hop.
func (h *hop) send(now vtime.Time, p *skb.SKB) {
	if h.disc.Bypass() && h.disc.Len() == 0 {
		h.pass(now, p)
		return
	}
	h.disc.Enqueue(now, p)
	h.drain(now)
}

func (h *hop) drain(now vtime.Time) {
	for p, ok := h.disc.Dequeue(now); ok; p, ok = h.disc.Dequeue(now) {
		h.pass(now, p)
	}
	h.timer.Set(h.disc.Next())
}

// Run is the watchdog of the hop's discipline.
func (h *hop) Run(now vtime.Time, _ uint64) {
	h.disc.Fire(now)
	h.drain(now)
}

// pass carries a packet to the namespace behind the hop.
func (h *hop) pass(now vtime.Time, p *skb.SKB) {
	if !h.toA {
		h.l.w.cable.reach(now, p)
		p.Free()
		return
	}
	h.l.toA.push(p)
	if h.l.toA.n == 1 {
		h.l.w.cpus[0].post(now, vcpu.SoftIRQ, &h.l.input)
	}
}

// Run is A's receive softirq.
func (t *inputTask) Run(c *vcpu.CPU) {
	for n := t.toA.n; n > 0; n-- {
		p := t.toA.pop()
		t.rx.Packets++
		if p.Flags == skb.ACK {
			t.rx.PureACKs++
		}
		t.w.rec.ackSKB(c.Now(), p)
		t.w.input(c.Now(), p.Hdr[:p.HdrLen])
		p.Free()
	}
	if t.toA.n > 0 {
		t.w.cur.post(c.Now(), vcpu.SoftIRQ, &t.input)
	}
}

// answer puts an ACK of the receiver on its way through R.
func (l *vethLower) answer(now vtime.Time, k *conn, ack uint32, f *frame.TCPSpec) {
	p := l.w.pool.Get()
	p.Flow, p.Ack, p.Seq, p.Flags, p.Segs = int32(k.id), ack, uint32(f.Seq), f.Flags, 1
	p.HdrLen = int32(len(frame.AppendTCP(p.Hdr[:0], f)))
	l.rev.send(now, p)
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
		c.accept(now, e.k)
		return
	}
	if p.Len == 0 && p.Flags&skb.FIN == 0 {
		return // the ACK of the handshake
	}
	s := link.Segment{
		Seq: p.Seq, Len: p.Len, MSS: p.GSOSize, TSVal: tsMillis(now),
		PSH: p.Flags&skb.PSH != 0, FIN: p.Flags&skb.FIN != 0, CWR: p.Flags&skb.CWR != 0,
	}
	e.rcv.Receive(now, &s)
	e.drain(now)
}

// skbList is a FIFO of packets, linked by Next. The zero value is empty.
type skbList struct {
	head, tail *skb.SKB
	n          int
}

func (q *skbList) push(p *skb.SKB) {
	p.Next = nil
	if q.tail == nil {
		q.head = p
	} else {
		q.tail.Next = p
	}
	q.tail = p
	q.n++
}

// pop takes the first packet of a list that has one.
func (q *skbList) pop() *skb.SKB {
	p := q.head
	if q.head = p.Next; q.head == nil {
		q.tail = nil
	}
	p.Next = nil
	q.n--
	return p
}
