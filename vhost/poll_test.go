package vhost_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// TestPolling sends and receives with every way to wait, and holds the kicks
// against what the way promises.
func TestPolling(t *testing.T) {
	tests := []struct {
		name  string
		poll  time.Duration
		quiet bool // no kick is wanted once the rings have been looked at
	}{
		{"sleep", 0, false},
		{"adaptive", 50 * time.Microsecond, false},
		{"always", vhost.PollAlways, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 1, func(c *vhost.Config) { c.PollTime = tt.poll })
			g := w.connect()
			w.ok(g.Negotiate(everything&^virtio.FeatureEventIdx, vhost.ProtocolOffer))
			rx, tx := w.start(g, 0), w.start(g, 1)
			rx.Post()
			rx.Notify()
			w.send(tx, 1)
			first := tx.Kicks
			for range 20 {
				w.send(tx, 10)
			}
			w.ports[0].deliver(frameOf(90, 7))
			if f := w.receive(rx); len(f) != 90+virtio.NetHdrLen {
				t.Errorf("received %d bytes", len(f))
			}
			if got := w.srv.Stats().Pairs[0].TX; got.Packets != 201 || got.Kicks != tx.Kicks {
				t.Errorf("%d packets and %d kicks, guest sent 201 and %d", got.Packets, got.Kicks, tx.Kicks)
			}
			if tt.quiet && tx.Kicks != first {
				t.Errorf("a worker that polls was kicked %d times", tx.Kicks-first)
			}
		})
	}
}

// TestPollingObeys has a worker that never sleeps stop, start and end.
func TestPollingObeys(t *testing.T) {
	w := newWorld(t, 1, func(c *vhost.Config) { c.PollTime = vhost.PollAlways })
	g := w.connect()
	tx := w.start(g, 1)
	for range 50 {
		w.send(tx, 3)
		base, err := g.Stop(1)
		w.ok(err)
		w.ok(g.Start(tx, base))
	}
	if got := w.srv.Stats().Pairs[0].TX.Packets; got != 150 {
		t.Errorf("%d packets, sent 150", got)
	}
}

// affinityPort remembers on which CPUs its caller may run.
type affinityPort struct {
	*testPort
	set chan unix.CPUSet
}

func (p *affinityPort) Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, tok netdev.Token) (vtime.Time, netdev.SendResult) {
	var set unix.CPUSet
	_ = unix.SchedGetaffinity(0, &set)
	select {
	case p.set <- set:
	default:
	}
	return p.testPort.Send(now, h, iov, tok)
}

func firstCPU(t *testing.T) int {
	for cpu := range 1024 {
		if osio.HasCPU(cpu) {
			return cpu
		}
	}
	t.Fatal("the process may use no CPU")
	return 0
}

func TestPinned(t *testing.T) {
	cpu := firstCPU(t)
	p := &affinityPort{newTestPort(t), make(chan unix.CPUSet, 1)}
	w := newWorld(t, 1, func(c *vhost.Config) { c.CPUs, c.Ports[0] = []int{cpu}, p })
	g := w.connect()
	w.send(w.start(g, 1), 1)
	if set := <-p.set; set.Count() != 1 || !set.IsSet(cpu) {
		t.Errorf("worker may use %d CPUs, %d among them: %v", set.Count(), cpu, set.IsSet(cpu))
	}
}

func TestBadPolling(t *testing.T) {
	for name, change := range map[string]func(*vhost.Config){
		"negative time": func(c *vhost.Config) { c.PollTime = -1 },
		"no such CPU":   func(c *vhost.Config) { c.CPUs = []int{1023} },
		"negative CPU":  func(c *vhost.Config) { c.CPUs = []int{-1} },
	} {
		cfg := vhost.Config{SocketPath: socketDir(t) + "/s", Ports: []vhost.Port{newTestPort(t)}}
		change(&cfg)
		if _, err := vhost.Listen(cfg); !errors.Is(err, vhost.ErrConfig) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestCallsVanishWhileTheGuestPolls asks for one frame at a time. A guest that sleeps
// arms its event and is called for each; so is one that looks without having
// said that it does. One that has said so is not called, but for the first frame,
// for which a ring that has just started calls in any case.
// In that way 58,881 interrupts a second of a block device's guest became 69
// (cloud-hypervisor 0e4e27ea9df4). With a worker that polls, the kicks go as well.
func TestCallsVanishWhileTheGuestPolls(t *testing.T) {
	const n = 50
	for name, f := range ringKinds() {
		t.Run(name, func(t *testing.T) {
			flags := f &^ virtio.FeatureEventIdx
			for _, c := range []struct {
				guest    receiving
				features virtio.Features
				least    uint64
				most     uint64
			}{
				{sleeps, f, n, n}, {polls, f, 0, 1},
				{sleeps, flags, n, n}, {looks, flags, n, n}, {polls, flags, 0, 1},
			} {
				calls, kicks := requests(t, c.features, c.guest, n)
				if calls < c.least || calls > c.most || kicks > 2 {
					t.Errorf("a guest that %s, EVENT_IDX %v: %d calls and %d kicks for %d frames, want %d to %d and at most 2",
						c.guest, c.features.Has(virtio.FeatureEventIdx), calls, kicks, n, c.least, c.most)
				}
			}
		})
	}
}

// receiving is how a guest waits for frames.
type receiving string

const (
	sleeps receiving = "sleeps"
	looks  receiving = "looks"
	polls  receiving = "polls"
)

// requests receives n frames, each of which is sent when the one before was received,
// and returns the calls of the device and the kicks of the guest.
func requests(t *testing.T, f virtio.Features, how receiving, n int) (calls, kicks uint64) {
	t.Helper()
	w := newWorld(t, 1, func(c *vhost.Config) { c.PollTime = vhost.PollAlways })
	g := w.dial()
	w.ok(g.Negotiate(f, vhost.ProtocolOffer))
	w.ok(g.ShareMemory())
	rx := w.start(g, 0)
	if how == polls {
		rx.DisableCalls()
	}
	rx.Post()
	rx.Notify()
	for i := range n {
		if how == sleeps {
			rx.EnableCalls()
		}
		w.ports[0].deliver(frameOf(90, byte(i)))
		if how == sleeps && rx.WaitCall(5*time.Second) == 0 {
			t.Fatalf("not called for frame %d; %+v", i, w.lastSession())
		}
		w.receive(rx)
		rx.Post()
		rx.Notify()
	}
	w.eventually("the counters are there", func() bool { return w.srv.Stats().Pairs[0].RX.Packets == uint64(n) })
	s := w.srv.Stats().Pairs[0].RX
	return s.Calls, s.Kicks
}
