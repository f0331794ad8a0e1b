package vhost_test

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// connects is how often front-ends come and go: 120 times, or as often as
// VNETBENCH_CONNECTS says.
func connects(t *testing.T) int {
	text := os.Getenv("VNETBENCH_CONNECTS")
	if text == "" {
		return 120
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("VNETBENCH_CONNECTS: %v", err)
	}
	return n
}

// states are the ways to leave a session; each goes on from the one before, but
// for those that leave it in the middle of something.
var states = []func(w *world, g *frontend.Guest){
	func(*world, *frontend.Guest) {},
	func(w *world, g *frontend.Guest) { // half a header
		w.ok(g.SendBytes([]byte{1, 0, 0, 0, 1}))
	},
	func(w *world, g *frontend.Guest) { // a header without its payload, and a descriptor
		b := wire.Message{Request: wire.SetVringCall, Payload: wire.VringFD{}}.Append(nil)
		w.ok(g.SendBytes(b[:wire.HeaderLen+3], g.Memory.FD(0)))
	},
	func(w *world, g *frontend.Guest) { // no message at all
		w.ok(g.SendBytes([]byte("this is no vhost-user message")))
	},
	negotiated,
	withMemory,
	func(w *world, g *frontend.Guest) { // a ring that lacks its kick descriptor
		withMemory(w, g)
		w.place(g, w.ring(g, 1), 0)
	},
	func(w *world, g *frontend.Guest) { // a ring that runs disabled
		withMemory(w, g)
		tx := w.start(g, 1)
		w.ok(g.Enable(1, false))
		tx.Transmit(&virtio.NetHdr{}, frameOf(100, 1))
		tx.ForceKick()
	},
	func(w *world, g *frontend.Guest) { // rings at work
		withMemory(w, g)
		rx, tx := w.start(g, 0), w.start(g, 1)
		rx.Post()
		rx.Notify()
		w.send(tx, 3)
		w.ports[0].deliver(frameOf(100, 1))
		tx.Transmit(&virtio.NetHdr{}, frameOf(100, 1))
		tx.Notify()
	},
	func(w *world, g *frontend.Guest) { // a broken ring
		withMemory(w, g)
		tx := w.start(g, 1)
		breakRing(tx)
		tx.ForceKick()
	},
	func(w *world, g *frontend.Guest) { // a log and a record
		withMemory(w, g)
		record, err := g.AskInflight(2, 256)
		w.ok(err)
		w.ok(g.ShareInflight(record))
		record.Close()
		tx := w.start(g, 1)
		log, err := frontend.NewDirtyLog(1 << 30)
		w.ok(err)
		w.ok(g.ShareLog(log))
		log.Close()
		w.ok(g.SwitchLog(true))
		w.send(tx, 3)
	},
	func(w *world, g *frontend.Guest) { // device state on its way
		negotiated(w, g)
		r, wr, err := os.Pipe()
		w.ok(err)
		defer r.Close()
		defer wr.Close()
		_, err = g.Ask(wire.SetDeviceStateFD, wire.StateTransfer{Direction: 1}, int(r.Fd()))
		w.ok(err)
	},
	func(w *world, g *frontend.Guest) { // an answer that nobody reads
		negotiated(w, g)
		w.ok(g.Send(wire.Message{Request: wire.GetInflightFD, Payload: wire.Inflight{NumQueues: 2, QueueSize: 256}}))
	},
}

func negotiated(w *world, g *frontend.Guest) { w.ok(g.Negotiate(everything, vhost.ProtocolOffer)) }

func withMemory(w *world, g *frontend.Guest) {
	negotiated(w, g)
	w.ok(g.ShareMemory())
}

// usage is what a process has.
type usage struct{ fds, maps, goroutines int }

func usageNow(t testing.TB) usage {
	return usage{fds: countFDs(t), maps: countMaps(t), goroutines: runtime.NumGoroutine()}
}

// heapNow is the bytes that are in use on the heap.
func heapNow() uint64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestFault017ConnectMany connects and hangs up in every state, and looks whether
// descriptors, mappings, goroutines and memory are back where they were.
func TestFault017ConnectMany(t *testing.T) {
	n := connects(t)
	w := newWorld(t, 1)
	ended := func() bool { return !w.srv.Stats().Connected }
	round := func(i int) {
		g, err := frontend.NewGuest(w.path, 16<<20) // not by dial, which would keep it
		w.ok(err)
		defer g.Close()
		states[i%len(states)](w, g)
	}
	for i := range 2 * len(states) {
		round(i)
		w.eventually("the session ends", ended)
	}
	before, heap := usageNow(t), heapNow()
	for i := range n {
		round(i)
	}
	w.eventually("the last session ends", func() bool { return ended() && w.srv.Stats().Generation == uint64(n+2*len(states)) })
	var after usage
	w.eventually("everything is back", func() bool {
		after = usageNow(t)
		return after == before
	})
	if now := heapNow(); now > heap+heap/4+1<<20 {
		t.Errorf("%d bytes on the heap, %d before", now, heap)
	}
	t.Logf("%d sessions in %d states: %+v, before %+v", n, len(states), after, before)
}
