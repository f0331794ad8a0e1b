package vhost_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// needUserfault skips a test that needs userfaultfd; where CI=true, not having it
// is a failure.
func needUserfault(t *testing.T) {
	t.Helper()
	fd, err := osio.Userfault()
	if err == nil {
		osio.Close(fd)
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip("SKIPPED, NOT TESTED:", err)
}

// pageServer brings the pages of a guest's memory, from a copy of it, when a
// back-end in another process misses them.
type pageServer struct {
	fd      int
	base    uint64 // of the memory in the back-end
	source  []byte
	faults  atomic.Int64
	failed  error
	stop    atomic.Bool
	stopped chan struct{}
}

func (p *pageServer) run() {
	defer close(p.stopped)
	poll := osio.NewPoller(1)
	poll.Set(0, p.fd, osio.Readable)
	for !p.stop.Load() {
		_ = poll.Wait(10 * time.Millisecond)
		for {
			addr, ok, err := osio.ReadFault(p.fd)
			if err != nil || !ok {
				break
			}
			p.faults.Add(1)
			if p.failed = p.bring(addr &^ 4095); p.failed != nil {
				return
			}
		}
	}
}

func (p *pageServer) bring(addr uint64) error {
	off := addr - p.base
	return osio.BringPage(p.fd, addr, p.source[off:off+4096])
}

// all brings every page.
func (p *pageServer) all() error {
	for off := uint64(0); off < uint64(len(p.source)); off += 4096 {
		if err := p.bring(p.base + off); err != nil {
			return err
		}
	}
	return nil
}

// TestPostcopy starts a guest's rings while none of its memory is there: each page
// that the back-end, a process of its own, touches comes when it is missed.
func TestPostcopy(t *testing.T) {
	needUserfault(t)
	k := newPostcopy(t)
	m := k.g.Memory
	for range 100 {
		k.tx.Transmit(&virtio.NetHdr{}, numbered(k.sent, k.scratch[:]))
		k.sent++
	}
	k.rx.Post()
	r := m.Region(0)
	p := &pageServer{source: append([]byte(nil), m.At(r.GPA, r.Size)...), stopped: make(chan struct{})}
	k.ok(unix.Fallocate(m.FD(0), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(r.Size)))

	// From here on this process may not touch the memory.
	k.ok(k.g.Send(wire.Message{Request: wire.PostcopyAdvise, Payload: wire.Empty{}}))
	answer, fds, err := k.g.RecvFDs()
	k.ok(err)
	if len(fds) != 1 || answer.Payload != (wire.Empty{}) {
		t.Fatalf("answer %v with %d descriptors", answer, len(fds))
	}
	p.fd = fds[0]
	t.Cleanup(func() { osio.Close(p.fd) })
	k.ok(k.g.Demand(wire.PostcopyListen, wire.Empty{}))
	table, memFDs := m.Table()
	k.ok(k.g.Send(wire.Message{Request: wire.SetMemTable, Payload: table}, memFDs...))
	reply, err := k.g.Recv()
	k.ok(err)
	theirs, ok := reply.Payload.(wire.MemTable)
	if !ok || len(theirs.Regions) != 1 || theirs.Regions[0].UVA == 0 || theirs.Regions[0].UVA == r.UVA {
		t.Fatalf("answer %v", reply)
	}
	p.base = theirs.Regions[0].UVA
	k.ok(k.g.Send(wire.Message{Request: wire.SetMemTable, Payload: wire.MemTable{}})) // it is known
	go p.run()
	k.ok(k.g.Start(k.rx, k.rx.Config.Base))
	k.ok(k.g.Start(k.tx, k.tx.Config.Base))
	for end := time.Now().Add(10 * time.Second); len(k.wires.seen) < 100; time.Sleep(time.Millisecond) {
		k.wires.take()
		if time.Now().After(end) {
			t.Fatalf("%d of 100 frames have come, after %d faults: %v", len(k.wires.seen), p.faults.Load(), p.failed)
		}
	}
	k.wires.feed()
	time.Sleep(20 * time.Millisecond)
	k.ok(p.all())
	if n, err := k.g.AskNumber(wire.PostcopyEnd); n != 0 || err != nil {
		t.Errorf("the end is answered by %d, %v", n, err)
	}
	p.stop.Store(true)
	<-p.stopped

	k.load(20 * time.Millisecond)
	k.finish(0)
	if n := p.faults.Load(); n < 100 {
		t.Errorf("%d pages were missed, and all of them were missing", n)
	}
	t.Logf("%d pages were missed", p.faults.Load())
}

// newPostcopy is newKilled for a back-end that offers post-copy, up to the rings.
func newPostcopy(t *testing.T) *killed {
	w, err := newWires()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	k := &killed{t: t, path: "postcopy:" + filepath.Join(socketDir(t), "s"), wires: w, received: make(map[uint64]int)}
	k.start()
	t.Cleanup(func() { k.kill() })
	k.g, err = frontend.NewGuestOn(k.dial(), 8<<20)
	k.ok(err)
	t.Cleanup(k.g.Close)
	k.ok(k.g.Negotiate(ringKinds()["split"], vhost.PostcopyOffer))
	if !k.g.Protocol.Has(wire.ProtocolPagefault) || k.g.Protocol.Has(wire.ProtocolConfigureMemSlots) {
		t.Fatalf("protocol %v", k.g.Protocol)
	}
	k.rx, err = k.g.AddRing(0, 256, 4096)
	k.ok(err)
	k.tx, err = k.g.AddRing(1, 256, 4096)
	k.ok(err)
	return k
}

// TestPostcopyFrontEndDies hangs up while the back-end waits for a page: it goes
// on, and serves the next one.
func TestPostcopyFrontEndDies(t *testing.T) {
	needUserfault(t)
	w := newWorld(t, 1, func(c *vhost.Config) { c.Protocol = vhost.PostcopyOffer })
	for range 3 {
		g := w.dial()
		w.ok(g.Negotiate(everything, vhost.PostcopyOffer))
		tx := w.ring(g, 1)
		addr := tx.Addr()
		r := g.Memory.Region(0)
		w.ok(unix.Fallocate(g.Memory.FD(0), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(r.Size)))
		w.ok(g.Send(wire.Message{Request: wire.PostcopyAdvise, Payload: wire.Empty{}}))
		_, fds, err := g.RecvFDs()
		w.ok(err)
		w.ok(g.Demand(wire.PostcopyListen, wire.Empty{}))
		table, memFDs := g.Memory.Table()
		w.ok(g.Send(wire.Message{Request: wire.SetMemTable, Payload: table}, memFDs...))
		_, err = g.Recv()
		w.ok(err)
		w.ok(g.Send(wire.Message{Request: wire.SetMemTable, Payload: wire.MemTable{}}))
		w.ok(g.Tell(wire.SetVringNum, wire.VringState{Index: 1, Num: 256}))
		w.ok(g.Tell(wire.SetVringAddr, addr))
		w.ok(g.Send(wire.Message{Request: wire.SetVringKick, Payload: wire.VringFD{Index: 1}}, tx.Kick))
		time.Sleep(5 * time.Millisecond) // the start of the ring waits for its first page
		osio.CloseAll(fds)
		g.Close()
	}
	w.eventually("the sessions end", func() bool { return w.srv.Stats().Generation == 3 && !w.srv.Stats().Connected })
	w.send(w.start(w.connect(), 1), 10)
}
