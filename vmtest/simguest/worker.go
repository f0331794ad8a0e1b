package simguest

import (
	"time"

	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// The worker's weights: what one direction may take before the other has its
// turn (VHOST_NET_PKT_WEIGHT and VHOST_NET_WEIGHT, drivers/vhost/net.c, v4.17
// and later).
const (
	weightPackets = 256
	weightBytes   = 0x80000
)

// hdrTrailer is the net header's length, which the host model charges like the
// frame's own bytes.
const hdrTrailer = virtio.NetHdrLen

// service is what a worker's CPU is busy with.
type service uint8

const (
	serveNothing service = iota
	serveTX
	serveRX
)

// worker is the host's thread for one queue pair: a serial CPU that takes
// transmitted packets off the device and puts packets for the guest into it,
// by turns. It polls the device with a budget of one packet, so that a used
// entry appears after its cost and not before. It is the device's port too.
type worker struct {
	w     *world
	pair  *netdev.Pair
	timer sim.Timer

	awake   bool       // running, or on its way to it
	free    vtime.Time // when the CPU ends what it serves
	serving service
	turn    netdev.Dir
	packets int // taken in this turn
	bytes   int
	debt    time.Duration // spent on calls, charged to the next service
	busy    time.Duration // CPU time in all

	out outgoing   // in service, from the guest
	in  ackQueue   // waiting for their turn, to the guest
	cur *ackPacket // in service, to the guest
}

// outgoing is what the worker remembers of a packet while it serves it.
type outgoing struct {
	info    frame.Info
	flow    int32
	rule    tcp.Rule // that gave it its length; only if the trace wants it
	len     int      // frame bytes
	gso     int32    // payload of a segment; 0 if not GSO
	started vtime.Time
}

func newWorker(w *world, p *netdev.Pair) *worker {
	k := &worker{w: w, pair: p}
	k.timer = w.loop.NewTimer(k, 0)
	p.SetPort(k)
	return k
}

// kick is the arrival of a notification for one of the pair's rings.
func (k *worker) kick(now vtime.Time, dir netdev.Dir) {
	k.pair.Kick(now, dir, 1)
	k.wake(now)
}

// arrive queues a packet for the guest.
func (k *worker) arrive(now vtime.Time, a *ackPacket) {
	k.in.push(a)
	k.wake(now)
}

func (k *worker) wake(now vtime.Time) {
	if k.awake {
		return
	}
	k.awake = true
	k.timer.Set(now.Add(k.w.cost.host.of(hostWake)))
}

// Run is the worker's thread: it ends what was in service and begins the next.
func (k *worker) Run(now vtime.Time, _ uint64) {
	if !k.awake { // a held completion came due
		k.complete(now)
		k.sleep(now)
		return
	}
	k.end(now)
	for !k.begin(now) {
		if k.idle(now) {
			k.sleep(now)
			return
		}
	}
	k.timer.Set(k.free)
}

// end finishes the packet in service.
func (k *worker) end(now vtime.Time) {
	switch k.serving {
	case serveTX:
		k.w.sent(now, &k.out)
	case serveRX:
		k.deliver(now)
	}
	k.serving = serveNothing
}

// begin takes a packet of the direction whose turn it is. It returns false if
// there was none; the turn has then passed to the other direction.
func (k *worker) begin(now vtime.Time) bool {
	if k.turn == netdev.DirTX {
		return k.beginTX(now)
	}
	a := k.in.peek()
	if a == nil || k.spent() {
		k.pass(netdev.DirTX)
		return false
	}
	k.in.pop()
	k.cur, k.serving = a, serveRX
	k.packets++
	k.bytes += len(a.frame())
	k.occupy(now, k.w.cost.host.of(hostRx))
	return true
}

func (k *worker) beginTX(now vtime.Time) bool {
	tx := k.pair.TX
	budget := netdev.Budget{Packets: 1}
	if k.spent() {
		budget.Packets = -1
	}
	work, call, err := tx.Poll(now, budget)
	k.w.broken(err)
	k.call(now, netdev.DirTX, call)
	if k.serving == serveTX {
		return true
	}
	if work.Dropped > 0 && budget.Packets > 0 {
		return false
	}
	if budget.Packets > 0 && tx.Rearm() {
		return false // looked at once more by the next begin
	}
	k.pass(netdev.DirRX)
	return false
}

// spent reports whether the direction used up its weight.
func (k *worker) spent() bool { return k.packets >= weightPackets || k.bytes >= weightBytes }

func (k *worker) pass(to netdev.Dir) { k.turn, k.packets, k.bytes = to, 0, 0 }

// idle reports whether neither direction has anything to do now.
func (k *worker) idle(now vtime.Time) bool {
	return k.in.peek() == nil && k.pair.TX.Next(now) > now
}

// sleep lets the thread wait, with a timer for completions that are held.
func (k *worker) sleep(now vtime.Time) {
	k.awake = false
	k.turn, k.packets, k.bytes = netdev.DirTX, 0, 0
	k.timer.Set(min(k.pair.TX.Next(now), k.pair.RX.Next(now)))
}

// complete publishes what has come due while the thread slept.
func (k *worker) complete(now vtime.Time) {
	_, call, err := k.pair.TX.Poll(now, netdev.Budget{Packets: -1})
	k.w.broken(err)
	k.call(now, netdev.DirTX, call)
	k.poll(now)
}

// deliver puts the packet in service into the guest's ring.
func (k *worker) deliver(now vtime.Time) {
	a := k.cur
	k.cur = nil
	var h virtio.NetHdr
	h.Flags = virtio.HdrDataValid
	k.pair.RX.Deliver(now, &h, a.frame())
	k.poll(now)
	k.w.acked(now, a)
}

func (k *worker) poll(now vtime.Time) {
	_, call, err := k.pair.RX.Poll(now, netdev.Budget{})
	k.w.broken(err)
	k.call(now, netdev.DirRX, call)
}

// call interrupts the guest if the device asks for it.
func (k *worker) call(now vtime.Time, dir netdev.Dir, c netdev.Call) {
	if !c.Needed {
		return
	}
	k.debt += k.w.cost.host.of(hostCall)
	k.pair.CallResult(now, dir, nil)
	k.w.interrupt(now, k.pair.Index(), dir)
}

// occupy makes the CPU busy for d, and for what it owes.
func (k *worker) occupy(now vtime.Time, d time.Duration) {
	d += k.debt
	k.debt = 0
	k.busy += d
	k.free = now.Add(d)
}

// Send takes a packet of the guest into service: it is done, and on the wire,
// when the worker's CPU has dealt with it.
func (k *worker) Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, _ netdev.Token) (vtime.Time, netdev.SendResult) {
	o := &k.out
	o.len = 0
	for _, b := range iov {
		o.len += len(b)
	}
	o.started, o.gso = now, 0
	o.rule = k.w.rec.rule(k.pair.Index())
	k.w.identify(o, h, iov[0])
	k.serving = serveTX
	k.packets++
	k.bytes += o.len
	k.occupy(now, k.w.cost.host.tx(o.len+hdrTrailer))
	return k.free, netdev.Sent
}

// Flush does nothing: a packet leaves when its service ends.
func (k *worker) Flush(vtime.Time) {}
