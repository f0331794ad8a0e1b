package tcp_test

import (
	"container/heap"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// sentPkt is one packet as the sender handed it down.
type sentPkt struct {
	t      vtime.Time // when it left for the wire: its departure time if it has one
	seq    uint32
	len    int32
	segs   int32
	flags  uint8
	rule   tcp.Rule
	re     bool
	nfrags int32
	fragSz int64
}

// event kinds of the world's calendar.
const (
	evArrive = iota // a packet reaches the receiver
	evAck           // an acknowledgement reaches the sender
	evFree          // the driver completes a packet
	evCall          // the test wants to do something
)

type event struct {
	t    vtime.Time
	n    int
	kind int
	p    *skb.SKB
	ack  tcp.Ack
	sack []tcp.Range
	call func()
}

type calendar []event

func (c calendar) Len() int { return len(c) }
func (c calendar) Less(i, j int) bool {
	return c[i].t < c[j].t || (c[i].t == c[j].t && c[i].n < c[j].n)
}
func (c calendar) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *calendar) Push(x any)   { *c = append(*c, x.(event)) }
func (c *calendar) Pop() any {
	e := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return e
}

// world is a little world around one sender: a wire with a fixed delay, and a
// receiver that acknowledges every packet. Options change that.
type world struct {
	t    testing.TB
	s    *tcp.Sock
	pool skb.Pool
	now  vtime.Time
	cal  calendar
	n    int

	// options
	rtt      time.Duration
	clockNs  vtime.Time    // cost of a clock read in process context
	napi     time.Duration // completion comes this long after the packet left; 0: orphaned at once
	window   uint32        // what the receiver offers
	first    uint32        // what it offers in the handshake; 0: the same
	rate     int64         // wire speed, bytes/s of payload; 0: infinite
	lose     func(n int, p *skb.SKB) bool
	refuse   func(n int) bool  // the layer below refuses the n-th packet
	ackEvery int               // segments per acknowledgement; 0: one for every packet
	noAck    bool              // the test sends the acknowledgements itself
	quiet    bool              // keep no record of packets
	mss      int32             // the wire cuts packets into segments of this size; 0: it does not
	noSack   bool              // the receiver sends no SACKs
	preempt  bool              // interrupts come during a write, as its clock reads pass their time
	loseAck  func() bool       // an acknowledgement is lost
	ecn      bool              // congestion marks were agreed on
	dsack    bool              // the receiver reports data that arrives twice
	stamps   bool              // acknowledgements echo timestamps
	late     func() vtime.Time // a packet takes so much longer on the wire
	wnd      func() uint32     // what the receiver would offer with each acknowledgement
	period   vtime.Time        // timers run no sooner than this after the last packet: timer and stack take so long

	process  bool
	tsq      int
	writer   int // bytes that the writer still has to write
	writeSz  int // bytes of a call
	left     int // bytes of the present call still to be accepted
	blocked  bool
	sent     []sentPkt
	packets  int
	wireFree vtime.Time
	lastSent vtime.Time

	rcvNxt  uint32
	ooo     []tcp.Range
	unacked int
	got     int64
	again   tcp.Range // what arrived twice with the last packet
	echo    uint32    // timestamp to echo, ms; 0: none
	edge    uint32    // right edge of the window that was offered
}

func newWorld(t testing.TB, kernel string, mods ...func(*tcp.Config)) *world {
	t.Helper()
	k, err := tcp.Release(kernel)
	if err != nil {
		t.Fatal(err)
	}
	cfg := k.Config()
	for _, m := range mods {
		m(&cfg)
	}
	w := &world{t: t, rtt: time.Millisecond, window: 6 << 20, rcvNxt: cfg.ISS, now: vtime.Time(time.Second)}
	w.s, err = tcp.NewSock(7, cfg, w, &w.pool)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// open completes the handshake.
func (w *world) open() *world {
	if w.first == 0 {
		w.first = w.window
	}
	w.s.Established(tcp.Handshake{RTTUs: w.rtt.Microseconds(), Window: w.first, SACK: !w.noSack, ECN: w.ecn})
	w.edge = w.rcvNxt + w.first
	return w
}

func (w *world) Now() vtime.Time {
	if w.process {
		w.now += w.clockNs
		for w.preempt && len(w.cal) > 0 && w.cal[0].t <= w.now {
			e := heap.Pop(&w.cal).(event)
			w.process = false // an interrupt
			w.handle(&e)
			w.softirq()
			if w.s.Next() <= w.now {
				w.s.Timer(w.now)
			}
			w.process = true
		}
	}
	return w.now
}
func (w *world) Local() vtime.Time             { return w.now }
func (w *world) Charge(vcpu.Op, int64)         {}
func (w *world) QueueTSQ(*tcp.Sock)            { w.tsq++ }
func (w *world) WriteSpace(*tcp.Sock)          { w.blocked = false }
func (w *world) at(t vtime.Time, e event)      { e.t, e.n = t, w.n; w.n++; heap.Push(&w.cal, e) }
func (w *world) in(d time.Duration) vtime.Time { return w.now + vtime.Time(d) }

func (w *world) Transmit(_ *tcp.Sock, p *skb.SKB) bool {
	w.packets++
	if w.refuse != nil && w.refuse(w.packets) {
		p.Free()
		return false
	}
	depart := max(w.now, p.Tstamp)
	w.lastSent = depart
	if w.rate > 0 {
		depart = max(depart, w.wireFree)
		w.wireFree = depart + vtime.Time(int64(p.Len)*1e9/w.rate)
		depart = w.wireFree
	}
	w.record(p, max(w.now, p.Tstamp))
	switch {
	case w.napi > 0:
		w.at(depart+vtime.Time(w.napi), event{kind: evFree, p: p})
	case p.Tstamp > w.now:
		w.at(p.Tstamp, event{kind: evFree, p: p}) // held by the queueing discipline
	default:
		p.Orphan()
	}
	w.wire(p, depart)
	if w.napi == 0 && p.Tstamp <= w.now {
		p.Free()
	}
	return true
}

// wire carries a copy of a packet, or of each of its segments, to the receiver.
func (w *world) wire(p *skb.SKB, depart vtime.Time) {
	step := p.Len
	if w.mss > 0 {
		step = min(w.mss, max(p.Len, 1))
	}
	for off := int32(0); off == 0 || off < p.Len; off += max(step, 1) {
		if w.lose != nil && w.lose(w.packets, p) {
			continue
		}
		cp := *p
		cp.Owner, cp.Seq, cp.Len = nil, p.Seq+uint32(off), min(step, p.Len-off)
		if step > 0 {
			cp.Segs = max(1, (cp.Len*p.Segs+p.Len-1)/max(p.Len, 1))
		}
		if off+step < p.Len {
			cp.Flags &^= skb.FIN
		}
		cp.Born = depart
		if w.late != nil {
			depart += w.late()
		}
		w.at(depart+vtime.Time(w.rtt/2), event{kind: evArrive, p: &cp})
	}
}

func (w *world) record(p *skb.SKB, t vtime.Time) {
	if w.quiet {
		return
	}
	r := sentPkt{t: t, seq: p.Seq, len: p.Len, segs: p.Segs, flags: p.Flags, rule: tcp.Rule(p.Rule),
		re: p.Retrans, nfrags: p.NFrags}
	for _, f := range p.Frags[:p.NFrags] {
		r.fragSz += int64(f.Len)
	}
	w.sent = append(w.sent, r)
}

// write starts a writer of total bytes in calls of size bytes each.
func (w *world) write(total, size int) *world {
	w.writer, w.writeSz = total, size
	w.blocked, w.left = false, 0
	w.runWriter()
	return w
}

// send is one write call with flags, and the softirqs that follow.
func (w *world) send(n int, fl tcp.WriteFlags) int {
	w.process = true
	k := w.s.Write(n, fl)
	w.process = false
	w.softirq()
	return k
}

// runWriter lets the writer run until it has to wait for space or is done.
func (w *world) runWriter() {
	for w.writer > 0 && !w.blocked {
		var fl tcp.WriteFlags
		if w.left > 0 {
			fl = tcp.Continue
		} else {
			w.left = min(w.writeSz, w.writer)
		}
		w.blocked = true // until WriteSpace, unless the call accepts all
		k := w.send(w.left, fl)
		w.writer -= k
		if w.left -= k; w.left == 0 {
			w.blocked = false
		}
	}
}

// softirq runs the TSQ tasklet as often as it was queued.
func (w *world) softirq() {
	for w.tsq > 0 {
		w.tsq--
		w.s.TSQ()
	}
}

// run advances the world for a time, or until nothing happens any more.
func (w *world) run(d time.Duration) *world {
	end := w.in(d)
	for steps := 0; ; steps++ {
		if steps > 5_000_000 {
			w.t.Fatal("the world does not come to an end")
		}
		next := w.s.Next()
		if w.period > 0 {
			next = max(next, w.lastSent+w.period)
		}
		if len(w.cal) > 0 && w.cal[0].t <= next {
			next = w.cal[0].t
			if next > end {
				break
			}
			e := heap.Pop(&w.cal).(event)
			w.now = max(w.now, next)
			w.handle(&e)
		} else {
			if next > end {
				break
			}
			w.now = max(w.now, next)
			w.s.Timer(w.now)
		}
		w.softirq()
		w.runWriter()
	}
	if d < 1<<60 {
		w.now = max(w.now, end)
	}
	return w
}

// drain runs until everything written is acknowledged.
func (w *world) drain() *world {
	for i := 0; i < 4000 && !(w.writer == 0 && w.s.Done()); i++ {
		w.run(250 * time.Millisecond)
	}
	if !w.s.Done() {
		w.t.Fatalf("not done: %+v", w.s.Info())
	}
	return w
}

func (w *world) handle(e *event) {
	switch e.kind {
	case evArrive:
		w.arrive(e.p)
	case evAck:
		e.ack.Sacks = e.sack
		w.s.Input(e.ack)
	case evFree:
		e.p.Free()
	case evCall:
		e.call()
	}
}

// ack gives the sender one acknowledgement now.
func (w *world) ack(seq uint32) *world {
	w.s.Input(tcp.Ack{Ack: seq, Wnd: w.window})
	w.softirq()
	return w
}

// lens is the lengths of the packets since the last call.
func (w *world) lens() []int32 {
	var l []int32
	for _, p := range w.sent {
		l = append(l, p.len)
	}
	w.sent = w.sent[:0]
	return l
}

// pass advances time by d and lets nothing happen.
func (w *world) pass(d time.Duration) *world {
	w.now = w.in(d)
	return w
}

func vt(ns int64) vtime.Time { return vtime.Time(ns) }
