package vhost_test

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// The tests that are called TestFaultNNN each send what has broken some
// back-end before: framing, replies and descriptors here.

// eventfds returns n eventfds that the test's end closes.
func eventfds(t testing.TB, n int) []int {
	t.Helper()
	fds := make([]int, n)
	for i := range fds {
		fd, err := osio.Eventfd(0)
		if err != nil {
			t.Fatal(err)
		}
		fds[i] = fd
	}
	t.Cleanup(func() { osio.CloseAll(fds) })
	return fds
}

// rawMessage is a message with any payload bytes.
func rawMessage(r wire.Request, flags uint32, payload []byte) []byte {
	return wire.Message{Request: r, Flags: flags, Payload: wire.Raw(payload)}.Append(nil)
}

// leaks runs f and checks that no more descriptors are open afterwards, once
// the session has settled.
func (w *world) leaks(f func()) {
	w.t.Helper()
	before := countFDs(w.t)
	f()
	end := time.Now().Add(2 * time.Second)
	for countFDs(w.t) > before && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
	if got := countFDs(w.t); got > before {
		w.t.Errorf("%d descriptors open, %d before", got, before)
	}
}

func le64(vs ...uint64) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func TestFault001ShortMemoryRegion(t *testing.T) {
	w := newWorld(t, 1)
	g := w.dial()
	w.ok(g.Negotiate(everything, vhost.ProtocolOffer))
	r, fd := g.Memory.Region(0), g.Memory.FD(0)
	cut := append(le64(0, r.GPA, r.Size, r.UVA), 0, 0, 0, 0)
	for _, tt := range []struct {
		payload []byte
		want    wire.U64
	}{
		{append(le64(0, r.GPA, r.Size, r.UVA), 0, 0x10, 0, 0), 1}, // half an offset that is not 0
		{cut, 0},
		{le64(0, r.GPA+r.Size, 4096, 0x1000, 0), 0},
	} {
		w.ok(g.SendBytes(rawMessage(wire.AddMemReg, wire.FlagNeedReply, tt.payload), fd))
		m, err := g.Recv()
		if err != nil || m.Payload != tt.want {
			t.Errorf("%d bytes: answer %v, %v; want %v", len(tt.payload), m, err, tt.want)
		}
	}
	w.send(w.start(g, 1), 5)
}

func TestFault002NoAnswerWithoutNeedReply(t *testing.T) {
	w := newWorld(t, 1)
	g := w.dial()
	w.ok(g.Negotiate(everything, vhost.ProtocolOffer))
	w.ok(g.Send(wire.Message{Request: wire.AddMemReg, Payload: wire.MemRegion{Region: g.Memory.Region(0)}}, g.Memory.FD(0)))
	w.ok(g.Barrier()) // fails if the next answer is not that of GET_FEATURES
}

func TestFault003OneReplyOnly(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	pipe := eventfds(t, 1)
	for _, m := range []wire.Message{
		{Request: wire.GetFeatures, Payload: wire.Empty{}},
		{Request: wire.GetVringBase, Payload: wire.VringState{}},
		{Request: wire.GetProtocolFeatures, Payload: wire.Empty{}},
		{Request: wire.GetQueueNum, Payload: wire.Empty{}},
		{Request: wire.GetConfig, Payload: wire.Config{Data: make([]byte, 6)}},
		{Request: wire.IOTLBMsg, Payload: wire.IOTLB{}},
		{Request: wire.GetInflightFD, Payload: wire.Inflight{NumQueues: 1, QueueSize: 1}},
		{Request: wire.GetMaxMemSlots, Payload: wire.Empty{}},
		{Request: wire.GetStatus, Payload: wire.Empty{}},
		{Request: wire.CheckDeviceState, Payload: wire.Empty{}},
		{Request: wire.SetDeviceStateFD, Payload: wire.StateTransfer{}},
	} {
		m.Flags = wire.FlagNeedReply
		var fds []int
		if least, _ := m.FDs(); least > 0 {
			fds = pipe
		}
		w.ok(g.Send(m, fds...))
		got, err := g.Recv()
		if err != nil || got.Request != m.Request || got.Flags != wire.FlagReply {
			t.Errorf("%v: answer %v, flags %#x, %v", m.Request, got, got.Flags, err)
		}
		w.ok(g.Barrier())
	}
}

func TestFault004EveryRequestIsAcknowledged(t *testing.T) {
	w := newWorld(t, 1)
	for r := wire.GetFeatures; r <= wire.GetVringBaseSkipDrain; r++ {
		if r.HasOwnReply() || r == wire.SetProtocolFeatures {
			continue
		}
		g := w.connect()
		g.Timeout = time.Second
		// No payload is right for most: a refusal is an answer as well.
		w.ok(g.SendBytes(rawMessage(r, wire.FlagNeedReply, nil)))
		m, err := g.Recv()
		if err != nil || m.Request != r || m.Flags != wire.FlagReply {
			t.Errorf("%v: answer %v, %v", r, m, err)
		}
		g.Close()
	}
}

func TestFault005ProtocolFeaturesWithoutAsking(t *testing.T) {
	w := newWorld(t, 1)
	g := w.dial()
	w.ok(g.Send(wire.Message{Request: wire.SetProtocolFeatures, Payload: wire.U64(wire.ProtocolReplyAck | wire.ProtocolMQ)}))
	mt, fds := g.Memory.Table()
	w.ok(g.Demand(wire.SetMemTable, mt, fds...))
}

func TestFault008OneMemoryTableForAllPairs(t *testing.T) {
	w := newWorld(t, 2)
	g := w.connect()
	for i := range 2 {
		w.send(w.start(g, 2*i+1), 5)
	}
}

func TestFault010SetVringNumManyTimes(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	b := make([]byte, 0, 1<<16)
	for i := range 1000 {
		b = wire.Message{Request: wire.SetVringNum, Payload: wire.VringState{Num: 1 << (i % 15)}}.Append(b)
	}
	for range 20 {
		w.ok(g.SendBytes(b))
	}
	w.ok(g.Barrier())
	if got := w.lastSession().Stats; got.Messages < 20000 || got.Refused != 0 {
		t.Errorf("%+v", got)
	}
}

func TestFault011CallWithoutDescriptor(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	w.ok(g.Demand(wire.SetVringCall, wire.VringFD{Index: 1, NoFD: true}))
	tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
	tx.ForceKick()
	w.eventually("the buffer comes back without a call", func() bool { _, _, ok := tx.Done(); return ok })
}

func TestFault012TooManyDescriptors(t *testing.T) {
	w := newWorld(t, 1)
	fds := eventfds(t, 16)
	w.leaks(func() {
		g := w.connect()
		b := rawMessage(wire.SetMemTable, 0, nil)
		binary.LittleEndian.PutUint32(b[8:], 0xffff)
		w.ok(g.SendBytes(b, fds[:8]...))
		w.endsWith(g, vhost.ErrFraming)
		g.Close()
	})
	w.leaks(func() {
		g := w.connect()
		w.ok(g.SendBytes(rawMessage(wire.GetFeatures, 0, nil), fds...))
		w.endsWith(g, vhost.ErrDescriptors)
		g.Close()
	})
	w.leaks(func() {
		g := w.connect()
		w.ok(g.Send(wire.Message{Request: wire.GetFeatures, Payload: wire.Empty{}}, fds[0]))
		w.endsWith(g, vhost.ErrDescriptors)
		g.Close()
	})
}

func TestFault013MessageInPieces(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	b := wire.Message{Request: wire.SetVringNum, Flags: wire.FlagNeedReply, Payload: wire.VringState{Num: 256}}.Append(nil)
	for _, piece := range [][]byte{b[:5], b[5:12], b[12:13], b[13:]} {
		w.ok(g.SendBytes(piece))
		time.Sleep(2 * time.Millisecond)
	}
	if m, err := g.Recv(); err != nil || m.Payload != wire.U64(0) {
		t.Errorf("answer %v, %v", m, err)
	}
	w.ok(g.SendBytes(b[:5]))
	w.ok(g.Conn.Close())
	w.eventually("the session ends", func() bool { return !w.srv.Stats().Connected })
	if err := w.lastSession().Err; !errors.Is(err, vhost.ErrHangup) {
		t.Errorf("session ended with %v", err)
	}
}

func TestFault014RegionWithWrongDescriptors(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	fds := eventfds(t, 3)
	w.leaks(func() {
		w.refused(g, wire.AddMemReg, wire.MemRegion{Region: wire.Region{GPA: 1 << 40, Size: 4096}}, fds...)
		w.refused(g, wire.AddMemReg, wire.Raw(make([]byte, 16)), fds[0])
		w.refused(g, wire.AddMemReg, wire.MemRegion{Region: wire.Region{GPA: 1 << 40, Size: 4096}})
	})
}

func TestFault016DescriptorsAreReplaced(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	sock, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	w.ok(err)
	t.Cleanup(func() { osio.CloseAll(sock[:]) })
	w.ok(g.Tell(wire.SetBackendReqFD, wire.Empty{}, sock[0]))
	w.ok(g.Demand(wire.SetLogFD, wire.Empty{}, tx.Err))
	w.leaks(func() {
		for range 1000 {
			for _, fd := range []struct {
				r  wire.Request
				fd int
			}{{wire.SetVringCall, tx.Call}, {wire.SetVringKick, tx.Kick}, {wire.SetVringErr, tx.Err}} {
				w.ok(g.Send(wire.Message{Request: fd.r, Payload: wire.VringFD{Index: 1}}, fd.fd))
			}
			w.ok(g.Send(wire.Message{Request: wire.SetBackendReqFD, Payload: wire.Empty{}}, sock[0]))
			w.ok(g.Send(wire.Message{Request: wire.SetLogFD, Flags: wire.FlagNeedReply, Payload: wire.Empty{}}, tx.Err))
			if m, err := g.Recv(); err != nil || m.Request != wire.SetLogFD {
				t.Fatalf("answer %v, %v", m, err)
			}
		}
	})
	w.send(tx, 10)
}

func TestFault019PortFails(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	tx := w.start(g, 1)
	gone := error(unix.EBADFD)
	w.ports[0].failed.Store(&gone)
	tx.Transmit(&virtio.NetHdr{}, frameOf(60, 1))
	tx.ForceKick()
	w.endsWith(g, vhost.ErrPort)
	if err := w.lastSession().Err; !errors.Is(err, unix.EBADFD) {
		t.Errorf("the reason %v hides the port's error", err)
	}
}

func TestFault020BackendSocketNeverBlocks(t *testing.T) {
	w := newWorld(t, 1)
	g := w.dial()
	w.ok(g.Negotiate(everything, vhost.ProtocolOffer))
	w.ok(g.ShareMemory())
	sock, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	w.ok(err)
	t.Cleanup(func() { osio.CloseAll(sock[:]) })
	w.ok(g.Tell(wire.SetBackendReqFD, wire.Empty{}, sock[0]))
	tx := w.start(g, 1)
	// A broken ring makes the back-end tell the front-end of its new status;
	// nobody answers, and the main channel goes on.
	breakRing(tx)
	tx.ForceKick()
	w.eventually("the ring is broken", func() bool { return w.lastStats().RingsBroken == 1 })
	b := make([]byte, 64)
	n, err := unix.Read(sock[1], b)
	want := wire.BackendMessage(wire.BackendConfigChange, wire.Empty{}).Append(nil)
	if err != nil || string(b[:n]) != string(want) {
		t.Errorf("back-end socket: % x, %v; want % x", b[:n], err, want)
	}
	status, err := g.AskNumber(wire.GetStatus)
	w.ok(err)
	if uint8(status)&virtio.StatusNeedsReset == 0 {
		t.Errorf("status %#x does not ask for a reset", status)
	}
	if n := readCount(tx.Err); n != 1 {
		t.Errorf("error descriptor was signalled %d times", n)
	}
}

func TestFault022UnmappableDescriptor(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	w.ok(err)
	defer null.Close()
	name := t.TempDir() + "/f"
	w.ok(os.WriteFile(name, make([]byte, 8192), 0o600))
	wronly, err := os.OpenFile(name, os.O_WRONLY, 0)
	w.ok(err)
	defer wronly.Close()
	empty, err := osio.Memfd("empty", 0)
	w.ok(err)
	defer osio.Close(empty)
	w.leaks(func() {
		for _, fd := range []int{int(null.Fd()), int(wronly.Fd()), empty} {
			w.refused(g, wire.SetMemTable, wire.MemTable{Regions: []wire.Region{{GPA: 0, Size: 4096, UVA: 4096}}}, fd)
		}
	})
	w.send(w.start(g, 1), 5) // the old table is still in force
}

func TestFault023EmptyRights(t *testing.T) {
	w := newWorld(t, 1)
	g := w.dial()
	g.EmptyRights = true
	w.ok(g.Negotiate(everything, vhost.ProtocolOffer))
	w.ok(g.ShareMemory())
	w.send(w.start(g, 1), 5)
}

func TestNonsenseEndsTheSessionOnly(t *testing.T) {
	w := newWorld(t, 1)
	tests := []struct {
		name   string
		bytes  []byte
		reason error
	}{
		{"version 2", le64(0x0000000200000001, 0)[:12], vhost.ErrFraming},
		{"a reply", rawMessage(wire.GetFeatures, wire.FlagReply, le64(0)), vhost.ErrUnexpectedReply},
		{"wrong size", rawMessage(wire.SetFeatures, 0, []byte{1}), wire.ErrPayloadSize},
		{"features", rawMessage(wire.SetFeatures, 0, le64(1<<61)), vhost.ErrFeatures},
		{"ring", rawMessage(wire.SetVringNum, 0, le64(0x10000000100)), vhost.ErrRing},
		{"text", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), vhost.ErrFraming},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := w.dial()
			w.ok(g.SendBytes(tt.bytes))
			w.endsWith(g, tt.reason)
			g.Close()
		})
	}
	g := w.connect()
	w.ok(g.SendBytes(rawMessage(999, 0, []byte("later"))))
	w.send(w.start(g, 1), 5)
	if got := w.lastSession().Stats.Ignored; got != 1 {
		t.Errorf("%d unknown requests ignored, want 1", got)
	}
}

// TestFrontEndThatDoesNotRead fills the socket with questions.
func TestFrontEndThatDoesNotRead(t *testing.T) {
	defer vhost.SetWriteTimeout(200 * time.Millisecond)()
	w := newWorld(t, 1)
	g := w.dial()
	g.Timeout = 500 * time.Millisecond
	ask := rawMessage(wire.GetFeatures, 0, nil)
	for g.SendBytes(ask) == nil {
	}
	w.eventually("the session ends", func() bool { return !w.srv.Stats().Connected })
	if err := w.lastSession().Err; !errors.Is(err, vhost.ErrStalled) {
		t.Errorf("session ended with %v", err)
	}
}
