package simguest

import (
	"fmt"
	"strconv"
	"time"

	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
)

// arenaPages is the guest's payload arena in pages of 32 KiB. All flows share
// it: payload bytes are never looked at.
const arenaPages = 64

// Addresses and ports of the two ends; a flow's client port is basePort plus its
// index.
const (
	basePort   = 20000
	serverPort = 5001
)

var (
	guestMAC  = frame.MAC{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}
	hostMAC   = frame.MAC{0x52, 0x54, 0x00, 0x12, 0x34, 0x01}
	guestAddr = map[int]frame.Addr{4: frame.V4([4]byte{192, 0, 2, 1}), 6: {0x20, 0x01, 0x0d, 0xb8, 15: 1}}
	hostAddr  = map[int]frame.Addr{4: frame.V4([4]byte{192, 0, 2, 2}), 6: {0x20, 0x01, 0x0d, 0xb8, 15: 2}}
)

// conn is one flow: the program that writes, its socket, and what the network
// below remembers of it.
type conn struct {
	w    *world
	id   int
	f    vmtest.FlowConfig
	cpu  *processor // the program's
	sock *tcp.Sock

	data  frame.TCPSpec // headers of what the socket sends
	hash  uint32        // of the direction that sends
	queue int           // transmit queue of the last packet, -1 before the first

	intro   int        // writes of the pregap's start that were made
	until   vtime.Time // when the program ends; 0 before it has looked at the clock
	left    int        // bytes of the current write that are not accepted yet
	written int64      // accepted in all
	resume  bool       // the current write goes on after a sleep
	asleep  bool       // the program sleeps for send buffer space
	space   bool       // space came up while the write was still running
	closed  bool
	timed   bool // the program has read the clock at its start

	open    bool          // the connection is established
	synAt   vtime.Time    // the last SYN left
	synWait time.Duration // until it is sent again

	ask ask // of a flow that asks or sends messages

	chance  *sim.Rand
	cwnd    cwndCount
	start   sim.Timer // the program connects
	alarm   timer     // the program's sleep is over, or the SYN was not answered
	timer   timer     // the socket's
	pace    timer     // its pacing timer, if that is one of its own
	connect connectTask
	app     appTask
	tsq     tsqTask
	expired timerTask
	slept   bool // the program's next run begins with a wake-up
}

// The tasks of a flow, each a view of it.
type (
	appTask   struct{ *conn }
	tsqTask   struct{ *conn }
	timerTask struct{ *conn }
)

// Words of the loop's events of a flow.
const (
	evStart = iota
	evAlarm
	evTimer
	evPace
)

func newConn(w *world, id int) (*conn, error) {
	k := &conn{w: w, id: id, f: w.s.Flow(id), queue: -1}
	k.cpu = w.cpus[k.f.CPU]
	cfg := w.kernel
	cfg.CC, cfg.NoDelay = k.f.CC, k.f.NoDelay
	cfg.ArenaPages, cfg.BBRPhase, cfg.Seed = arenaPages, uint8(w.s.BBRPhase), w.s.Seed
	if k.f.Pacing > 0 {
		cfg.MaxPacingRate = uint64(k.f.Pacing)
		cfg.Pacing = tcp.PacingNeeded
	}
	spec, err := qdisc.ParseSpec(w.s.Qdisc)
	if err != nil {
		return nil, fmt.Errorf("qdisc: %w", err)
	}
	if spec.Kind == qdisc.FQ {
		cfg.Pacing = tcp.PacingFQ // it has seen the SYN (fq_enqueue, v4.13)
	}
	if k.sock, err = tcp.NewSock(int32(id), cfg, w, &w.pool); err != nil {
		return nil, fmt.Errorf("flow %d: %w", id, err)
	}
	k.data = frame.TCPSpec{
		SrcMAC: guestMAC, DstMAC: hostMAC, Src: guestAddr[w.s.IP], Dst: hostAddr[w.s.IP],
		SrcPort: uint16(basePort + id), DstPort: serverPort, Window: 502, Timestamps: true, Partial: true,
	}
	key := frame.FlowKey{Src: k.data.Src, Dst: k.data.Dst, SrcPort: k.data.SrcPort, DstPort: k.data.DstPort, Proto: frame.ProtoTCP}
	k.hash = key.Hash()
	k.connect, k.app, k.tsq, k.expired = connectTask{k}, appTask{k}, tsqTask{k}, timerTask{k}
	k.start, k.alarm, k.timer = w.loop.NewTimer(k, evStart), w.newTimer(k, evAlarm), w.newTimer(k, evTimer)
	if w.soft != nil {
		k.pace = w.newTimer(k, evPace)
		k.pace.hr.late = true
	}
	k.chance = sim.NewRand(w.s.Seed, "program "+strconv.Itoa(id))
	k.start.Set(w.startOf(k))
	return k, nil
}

// startOf is when a flow's program starts.
func (w *world) startOf(k *conn) vtime.Time {
	at := vtime.Time(k.f.Start)
	if w.ce != nil {
		at += vtime.Time(w.s.ClockPhase)
	}
	return at
}

// newConns makes the flows and the network between them and their receivers.
func (w *world) newConns() error {
	for i := range w.s.Flows {
		k, err := newConn(w, i)
		if err != nil {
			return err
		}
		w.conns = append(w.conns, k)
	}
	var err error
	w.cable, err = newCable(w)
	return err
}

// Run is one of the flow's timers.
func (k *conn) Run(now vtime.Time, arg uint64) {
	switch arg {
	case evStart:
		k.w.wake(k.cpu, &k.connect)
	case evAlarm:
		if !k.open {
			k.cpu.post(now, vcpu.SoftIRQ, &k.connect)
			return
		}
		k.slept = true
		k.w.wake(k.cpu, &k.app)
	case evPace: // in the softirq of high-resolution timers
		k.sock.Timer(now)
		k.settle()
	case evTimer:
		if s := k.w.soft; s != nil {
			s.later(k)
			return
		}
		k.cpu.post(now, vcpu.SoftIRQ, &k.expired)
	}
}

// settle sets the socket's timer after anything that may have moved it, and
// looks at its window.
func (k *conn) settle() {
	if k.w.soft == nil {
		k.timer.Set(k.sock.Next())
		return
	}
	pacing, wheel := k.sock.Deadlines()
	k.pace.Set(pacing)
	k.timer.Set(wheel)
}

// expire is the socket's timer on the timer wheel.
func (k *conn) expire(now vtime.Time) {
	k.sock.Timer(now)
	k.settle()
}

// Run is the TSQ tasklet.
func (k *tsqTask) Run(c *vcpu.CPU) {
	c.Charge(vcpu.OpTSQ, 1)
	k.sock.TSQ()
	k.settle()
}

// Run is the socket's timer in softirq context.
func (k *timerTask) Run(c *vcpu.CPU) {
	k.sock.Timer(c.Now())
	k.settle()
}
