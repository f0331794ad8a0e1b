package vhost_test

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// TestRARP asks for an announcement before the guest can receive: it is sent as
// soon as it can.
func TestRARP(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	w.ok(g.Demand(wire.SendRARP, wire.U64(0x563412005452)))
	rx := w.start(g, 0)
	w.start(g, 1)
	rx.Post()
	w.eventually("the announcement is sent", func() bool { return w.ports[0].frames.Load() == 1 })
	w.ok(g.Demand(wire.SendRARP, wire.U64(0x563412005452)))
	w.eventually("another one is sent", func() bool { return w.ports[0].frames.Load() == 2 })
	want := append(bytes.Repeat([]byte{0xff}, 6), 0x52, 0x54, 0, 0x12, 0x34, 0x56, 0x80, 0x35,
		0, 1, 8, 0, 6, 4, 0, 3, 0x52, 0x54, 0, 0x12, 0x34, 0x56, 0, 0, 0, 0, 0x52, 0x54, 0, 0x12, 0x34, 0x56, 0, 0, 0, 0)
	if got := w.ports[0].lastFrame(); len(got) != 60 || !bytes.HasPrefix(got, want) {
		t.Errorf("sent %d bytes: % x", len(got), got)
	}
	if got := w.srv.Stats().Pairs[0].TX.Packets; got != 0 {
		t.Errorf("%d packets are counted as the guest's", got)
	}
}

// TestMTU changes the MTU before the rings run, and holds the guest to it.
func TestMTU(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	w.refused(g, wire.NetSetMTU, wire.U64(67))
	w.refused(g, wire.NetSetMTU, wire.U64(65536))
	w.ok(g.Demand(wire.NetSetMTU, wire.U64(200)))
	if c := w.config(g); c[10] != 200 || c[11] != 0 {
		t.Errorf("configuration % x", c)
	}
	tx := w.start(g, 1)
	w.ok(g.Demand(wire.NetSetMTU, wire.U64(200))) // for the next pair
	w.refused(g, wire.NetSetMTU, wire.U64(300))
	for _, n := range []int{214, 215} {
		if !tx.Transmit(&virtio.NetHdr{}, frameOf(n, 1)) {
			t.Fatal("ring is full")
		}
	}
	tx.Notify()
	if got := tx.Drain(2, 5*time.Second); got != 2 {
		t.Fatalf("%d frames came back", got)
	}
	if got := w.ports[0].frames.Load(); got != 1 {
		t.Errorf("%d frames were sent, want that of 200 bytes and not that of 201", got)
	}
}

// config reads the configuration space.
func (w *world) config(g *frontend.Guest) []byte {
	w.t.Helper()
	p, err := g.Ask(wire.GetConfig, wire.Config{Data: make([]byte, 12)})
	w.ok(err)
	return p.(wire.Config).Data
}

func TestSetConfig(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	mac := []byte{2, 0, 0, 0, 0, 9}
	w.refused(g, wire.SetConfig, wire.Config{Data: mac})
	w.ok(g.Demand(wire.SetConfig, wire.Config{Data: mac, Flags: 1}))
	w.refused(g, wire.SetConfig, wire.Config{Data: []byte{3}, Flags: 1})
	if c := w.config(g); !bytes.HasPrefix(c, mac) {
		t.Errorf("configuration % x", c)
	}
}

// TestLinkChange notifies the front-end of a link that goes and comes, over a
// socket and over a pipe.
func TestLinkChange(t *testing.T) {
	socket, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	for name, fds := range map[string][]int{"socket": socket[:], "pipe": pipe} {
		t.Run(name, func(t *testing.T) {
			ours := os.NewFile(uintptr(fds[0]), name)
			defer ours.Close()
			w := newWorld(t, 1)
			g := w.connect()
			w.ok(g.Demand(wire.SetBackendReqFD, wire.Empty{}, fds[1]))
			osio.Close(fds[1])
			for _, up := range []bool{false, true} {
				w.srv.SetLink(up)
				b := make([]byte, wire.HeaderLen)
				if _, err := io.ReadFull(ours, b); err != nil {
					t.Fatal(err)
				}
				h, err := wire.ParseHeader(b)
				if err != nil || h.Request != wire.Request(wire.BackendConfigChange) || h.Size != 0 {
					t.Errorf("notified by %+v, %v", h, err)
				}
				if got := w.config(g)[6]&1 == 1; got != up {
					t.Errorf("link is up: %v, want %v", got, up)
				}
			}
			w.srv.SetLink(false)
			g.Close()
			if w.config(w.connect())[6]&1 == 1 {
				t.Error("the link came up with the next front-end")
			}
		})
	}
}

// saveState asks for the device's state.
func (w *world) saveState(g *frontend.Guest) []byte {
	w.t.Helper()
	r, wr, err := os.Pipe()
	w.ok(err)
	defer r.Close()
	p, err := g.Ask(wire.SetDeviceStateFD, wire.StateTransfer{}, int(wr.Fd()))
	wr.Close()
	w.ok(err)
	if p != wire.U64(0x100) {
		w.t.Fatalf("save answered %v", p)
	}
	b, err := io.ReadAll(r)
	w.ok(err)
	n, err := g.AskNumber(wire.CheckDeviceState)
	w.ok(err)
	if n != 0 {
		w.t.Fatalf("check answered %d", n)
	}
	return b
}

// loadState hands a state over, and returns what CHECK_DEVICE_STATE answers.
func (w *world) loadState(g *frontend.Guest, b []byte) uint64 {
	w.t.Helper()
	r, wr, err := os.Pipe()
	w.ok(err)
	p, err := g.Ask(wire.SetDeviceStateFD, wire.StateTransfer{Direction: 1}, int(r.Fd()))
	r.Close()
	w.ok(err)
	if p != wire.U64(0x100) {
		w.t.Fatalf("load answered %v", p)
	}
	_, err = wr.Write(b)
	w.ok(err)
	wr.Close()
	n, err := g.AskNumber(wire.CheckDeviceState)
	w.ok(err)
	return n
}

// TestFault167DeviceState carries the state of a device to another one: only
// while no ring runs, and whole or not at all.
func TestFault167DeviceState(t *testing.T) {
	w, other := newWorld(t, 2), newWorld(t, 2)
	g := w.connect()
	mac := []byte{2, 0, 0, 0, 0, 9}
	w.ok(g.Demand(wire.SetConfig, wire.Config{Data: mac, Flags: 1}))
	w.ok(g.Demand(wire.NetSetMTU, wire.U64(1400)))
	tx := w.start(g, 1)
	r, wr, err := os.Pipe()
	w.ok(err)
	for _, fd := range []int{int(wr.Fd()), int(r.Fd())} {
		if p, err := g.Ask(wire.SetDeviceStateFD, wire.StateTransfer{}, fd); err != nil || p != wire.U64(0x101) {
			t.Errorf("while a ring runs: %v, %v", p, err)
		}
	}
	r.Close()
	wr.Close()
	if n, err := g.AskNumber(wire.CheckDeviceState); err != nil || n == 0 {
		t.Errorf("without a transfer: %d, %v", n, err)
	}
	_, err = g.Stop(tx.Index)
	w.ok(err)
	state := w.saveState(g)

	og := other.connect()
	for _, bad := range [][]byte{nil, []byte("{}"), state[:len(state)-1], bytes.Replace(state, []byte(`"pairs":1`), []byte(`"pairs":3`), 1)} {
		if n := other.loadState(og, bad); n == 0 {
			t.Errorf("%d bytes of nonsense were taken: %s", len(bad), bad)
		}
	}
	if n := other.loadState(og, state); n != 0 {
		t.Fatalf("check answered %d: %s", n, other.lastStats().LastRefusal)
	}
	if a, b := w.config(g), other.config(og); !bytes.Equal(a, b) || !bytes.HasPrefix(b, mac) {
		t.Errorf("configuration % x, was % x", b, a)
	}
	if again := other.saveState(og); !bytes.Equal(again, state) {
		t.Errorf("saved again:\n%s\nwas\n%s", again, state)
	}
}

// TestFault065CallAfterLoad and Fault 076: a guest whose device's state was loaded is
// called when its rings start, whatever used_event says, and is kicked for: the
// device asks for kicks anew.
func TestFault065CallAfterLoad(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	state := w.saveState(g)
	if n := w.loadState(g, state); n != 0 {
		t.Fatalf("check answered %d", n)
	}
	tx, rx := w.ring(g, 1), w.ring(g, 0)
	for _, r := range []*frontend.Ring{tx, rx} {
		r.Poke(r.Config.Avail+4+2*256, 0x7fff) // used_event far ahead
		r.Poke(r.Config.Used+4+8*256, 0x7fff)  // a stale avail_event
		w.ok(g.Start(r, 0))
		if r.WaitCall(5*time.Second) == 0 {
			t.Errorf("ring %d: no call after the start", r.Index)
		}
	}
	w.send(tx, 10)
}

// TestFault076CallsAfterResume is TestFault065CallAfterLoad: the same call.
func TestFault076CallsAfterResume(t *testing.T) { TestFault065CallAfterLoad(t) }

// TestStateTransferIsAbandoned leaves a transfer half done and hangs up.
func TestStateTransferIsAbandoned(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	r, wr, err := os.Pipe()
	w.ok(err)
	defer wr.Close()
	_, err = g.Ask(wire.SetDeviceStateFD, wire.StateTransfer{Direction: 1}, int(r.Fd()))
	r.Close()
	w.ok(err)
	_, err = wr.WriteString("{")
	w.ok(err)
	w.refusedState(g)
	g.Conn.Close()
	w.eventually("the session ends", func() bool { return !w.srv.Stats().Connected })
	if got := w.lastSession().Err; got == nil || got.Error() != vhost.ErrHangup.Error() {
		t.Errorf("ended with %v", got)
	}
}

// refusedState checks that a regular file is no way for a state.
func (w *world) refusedState(g *frontend.Guest) {
	w.t.Helper()
	if p, err := g.Ask(wire.SetDeviceStateFD, wire.StateTransfer{Direction: 1}, g.Memory.FD(0)); err != nil || p != wire.U64(0x101) {
		w.t.Errorf("a regular file: %v, %v", p, err)
	}
}
