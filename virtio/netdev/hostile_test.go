package netdev_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// The hostile suite, which is also row 131 of the list of faults, out-of-spec
// guests of every kind: what a guest may do against the specification, made from
// rules. Each case names the counter that it must raise by one, and no other,
// and is followed by proof that the device still works: other queues, another
// device beside it, and the same queue after it was started again.

// hostileCase is one thing that a guest does to pair 0, or the control queue, of
// a device of two pairs.
type hostileCase struct {
	name   string
	dir    netdev.Dir
	ring   virtio.Features // layout of the rings
	off    virtio.Features // not negotiated
	do     func(w *world)
	want   netdev.DropReason // counter of drops, DropNone for a refused command
	broken bool              // and the queue rests until it is started again
}

// hostileLeast is how many cases the suite has at least.
const hostileLeast = 200

func TestFault131Hostile(t *testing.T) {
	var all []hostileCase
	all = append(all, hostileChains()...)
	all = append(all, hostileIndices()...)
	all = append(all, hostileHeaders(t)...)
	all = append(all, hostileCommands()...)
	all = append(all, hostileBuffers()...)
	kinds := map[netdev.Dir]int{}
	beside := newWorld(t, setup{})
	for _, c := range all {
		kinds[c.dir]++
		t.Run(fmt.Sprintf("%v %s", c.dir, c.name), func(t *testing.T) { c.run(t, beside) })
	}
	t.Logf("%d cases: %d of transmit queues, %d of receive queues, %d of the control queue",
		len(all), kinds[netdev.DirTX], kinds[netdev.DirRX], kinds[netdev.DirCtrl])
	if len(all) < hostileLeast {
		t.Errorf("%d cases, want %d at least", len(all), hostileLeast)
	}
}

func (c *hostileCase) run(t *testing.T, beside *world) {
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 2}, off: c.off, ring: c.ring, ctrl: true, size: 64, mem: 2 << 20})
	beside.t = t
	c.do(w)
	err := c.poll(w)
	if c.broken != errors.Is(err, netdev.ErrBroken) || err != nil && !c.broken {
		t.Fatalf("error %v, want a broken queue: %v", err, c.broken)
	}
	s := c.stats(w)
	if c.broken && c.dir == netdev.DirRX {
		s.Drops[netdev.DropStopped] = 0 // the frame that was to be delivered
	}
	if c.want == netdev.DropNone && (s.Refused != 1 || s.Drops.Total() != 0) ||
		c.want != netdev.DropNone && (s.Drops[c.want] != 1 || s.Drops.Total() != 1) {
		t.Errorf("drops %s, refused %d; want one %v", marshal(t, s.Drops), s.Refused, c.want)
	}
	if len(w.wire.frames) != 0 {
		t.Errorf("%d frames reached the wire", len(w.wire.frames))
	}
	w.provePair(1)
	beside.provePair(0)
	if c.dir != netdev.DirCtrl {
		w.proveCommand()
	}
	c.restart(w)
}

func (c *hostileCase) stats(w *world) netdev.Stats {
	switch c.dir {
	case netdev.DirTX:
		return w.dev.Pair(0).TX.Snapshot()
	case netdev.DirRX:
		return w.dev.Pair(0).RX.Snapshot()
	}
	return w.dev.Ctrl().Snapshot()
}

// poll has the device look at the queue, for a receive queue by giving it a
// frame, until it has nothing more to do.
func (c *hostileCase) poll(w *world) (err error) {
	for range 3 {
		switch c.dir {
		case netdev.DirTX:
			_, _, err = w.dev.Pair(0).TX.Poll(w.now, netdev.Budget{})
		case netdev.DirRX:
			w.dev.Pair(0).RX.Deliver(w.now, &virtio.NetHdr{}, build(toGuest(0, 20)))
			_, _, err = w.dev.Pair(0).RX.Poll(w.now, netdev.Budget{})
			return err
		default:
			_, _, _, err = w.dev.Ctrl().Poll(w.now, netdev.Budget{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restart stops the queue, lays a new ring, and proves that it works.
func (c *hostileCase) restart(w *world) {
	switch c.dir {
	case netdev.DirTX:
		w.dev.Pair(0).DetachTX(w.now)
		w.tx[0] = w.newQueue(64)
		w.dev.Pair(0).AttachTX(w.now, w.device(w.tx[0]))
	case netdev.DirRX:
		w.dev.Pair(0).DetachRX(w.now)
		w.rx[0] = w.newQueue(64)
		w.dev.Pair(0).AttachRX(w.now, w.device(w.rx[0]))
	default:
		w.dev.Ctrl().Detach(w.now)
		w.ctrl = w.newQueue(64)
		w.dev.Ctrl().Attach(w.now, w.device(w.ctrl))
	}
	w.proveCommand()
	w.provePair(0)
}

// provePair sends a frame each way on a pair.
func (w *world) provePair(i int) {
	w.t.Helper()
	before := len(w.wire.frames)
	out := build(fromGuest(i, 77))
	w.send(i, virtio.NetHdr{}, out)
	w.pollTX(i, netdev.Budget{})
	if len(w.wire.frames) != before+1 || string(w.wire.frames[before]) != string(out) {
		w.t.Errorf("pair %d does not send", i)
	}
	w.reap(w.tx[i])
	in := build(toGuest(i, 66))
	w.offer(i, 1, 2048)
	if r := w.deliver(i, virtio.NetHdr{}, in); r != netdev.DropNone {
		w.t.Errorf("pair %d does not receive: %v", i, r)
	}
	if got := w.receive(i); len(got) < 1 || string(got[len(got)-1].frame) != string(in) {
		w.t.Errorf("pair %d receives %d frames, want that one", i, len(got))
	}
}

// proveCommand sends a command.
func (w *world) proveCommand() {
	w.t.Helper()
	cmd := cat([]byte{4, 0}, le16(2))
	if !w.dev.Acked().Has(virtio.FeatureMQ) {
		cmd = []byte{0, 0, 1}
	}
	if ack, _ := w.command(cmd); ack != ackOK {
		w.t.Errorf("a good command is answered with %d", ack)
	}
}
