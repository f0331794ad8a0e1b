package vswitch_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/hostnet/vswitch"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// lan is a switch with some ports of one queue each, all enabled.
type lan struct {
	*vswitch.Switch
	t   *testing.T
	now vtime.Time
}

func newLAN(t *testing.T, cfg vswitch.Config, ports int) *lan {
	t.Helper()
	s, err := vswitch.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ports {
		if p, err := s.AddPort(1); err != nil || p != i {
			t.Fatalf("port %d: %d, %v", i, p, err)
		}
		s.Enable(i, 0, true)
	}
	return &lan{s, t, 1}
}

func mac(n int) frame.MAC { return frame.MAC{2, 0, 0, byte(n >> 16), byte(n >> 8), byte(n)} }

var everybody = frame.MAC{255, 255, 255, 255, 255, 255}

func frameOf(dst, src frame.MAC, n int) []byte {
	f := make([]byte, n)
	copy(f, dst[:])
	copy(f[6:], src[:])
	f[12], f[13] = 0x88, 0xb5
	return f
}

// send sends a frame from a port and returns the ports that got it.
func (l *lan) send(from int, dst, src frame.MAC) (got []int) {
	l.t.Helper()
	f := frameOf(dst, src, 60)
	woken := l.Forward(l.now, from, &virtio.NetHdr{GSOSize: 7}, [][]byte{f[:5], f[5:]}, nil)
	for _, w := range woken {
		var h virtio.NetHdr
		var scratch []byte
		b, ok := l.Take(w.Port, w.Queue, &h, &scratch)
		if !ok || !bytes.Equal(b, f) || h.GSOSize != 7 {
			l.t.Errorf("port %d got % x with %+v", w.Port, b, h)
		}
		got = append(got, w.Port)
	}
	return got
}

func (l *lan) expect(got []int, want ...int) {
	l.t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		l.t.Errorf("ports that got the frame (-want):\n%s", d)
	}
}

func TestLearns(t *testing.T) {
	l := newLAN(t, vswitch.Config{}, 4)
	l.expect(l.send(0, mac(2), mac(1)), 1, 2, 3) // unknown: to all others
	l.expect(l.send(2, mac(1), mac(2)), 0)       // and by that it is known
	l.expect(l.send(0, mac(2), mac(1)), 2)
	l.expect(l.send(0, everybody, mac(1)), 1, 2, 3)
	l.expect(l.send(2, mac(2), mac(3)))    // behind the same port
	l.expect(l.send(3, mac(1), mac(2)), 0) // station 2 has moved
	l.expect(l.send(0, mac(2), mac(1)), 3)
	want := vswitch.Stats{Known: 4, Flooded: 2, Returned: 1, Learned: 3, Moved: 1}
	if d := cmp.Diff(want, l.Stats()); d != "" {
		t.Error(d)
	}
}

func TestForgets(t *testing.T) {
	l := newLAN(t, vswitch.Config{Age: time.Second}, 3)
	l.send(1, everybody, mac(1))
	l.now = l.now.Add(time.Second - 1)
	l.expect(l.send(0, mac(1), mac(9)), 1)
	l.now = l.now.Add(1)
	l.expect(l.send(0, mac(1), mac(9)), 1, 2)
	l.send(2, everybody, mac(1)) // new, not moved
	if got := l.Stats(); got.Learned != 3 || got.Moved != 0 {
		t.Errorf("%+v", got)
	}
}

// TestManyStations has a guest make addresses up: the table keeps its size, the
// others are found again as soon as they speak, and no group is ever learned.
func TestManyStations(t *testing.T) {
	l := newLAN(t, vswitch.Config{Stations: 64}, 3)
	for i := range 10_000 {
		l.now++
		l.send(0, everybody, mac(100+i))
		l.send(0, everybody, frame.MAC{3, 0, 0, 0, byte(i >> 8), byte(i)})
	}
	l.send(1, everybody, mac(1))
	l.expect(l.send(2, mac(1), mac(2)), 1)
	if got := l.Stats(); got.Learned != 10_002 || got.Evicted < 10_002-64 {
		t.Errorf("%+v", got)
	}
}

func TestFullAndDown(t *testing.T) {
	l := newLAN(t, vswitch.Config{QueueBytes: 128 << 10}, 3)
	l.Enable(2, 0, false)
	f := [][]byte{frameOf(everybody, mac(1), 10_000)}
	for range 20 {
		l.Forward(l.now, 0, &virtio.NetHdr{}, f, nil)
	}
	room := int64((128 << 10) / 10_016)
	if d := cmp.Diff(vswitch.PortStats{Out: room, Full: 20 - room}, l.PortStats(1)); d != "" {
		t.Errorf("full port: %s", d)
	}
	if d := cmp.Diff(vswitch.PortStats{Down: 20}, l.PortStats(2)); d != "" {
		t.Errorf("port that is down: %s", d)
	}
	l.Enable(1, 0, false)
	if l.Waiting(1, 0) != 0 || l.PortStats(1).Down != room {
		t.Errorf("%d frames wait for a port that is down; %+v", l.Waiting(1, 0), l.PortStats(1))
	}
}

// TestFlowsSpread sends flows to a port of four queues, of which three are
// enabled: each flow stays in one, and all three are used.
func TestFlowsSpread(t *testing.T) {
	l := newLAN(t, vswitch.Config{}, 1)
	to, err := l.AddPort(4)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []int{0, 2, 3} {
		l.Enable(to, q, true)
	}
	used := map[int]bool{}
	for flow := range 40 {
		f := frame.AppendTCP(nil, &frame.TCPSpec{DstMAC: mac(2), SrcMAC: mac(1), Timestamps: true,
			Src: frame.V4([4]byte{10, 0, 0, 1}), Dst: frame.V4([4]byte{10, 0, 0, 2}), SrcPort: uint16(flow), DstPort: 80})
		for range 3 {
			l.Forward(l.now, 0, &virtio.NetHdr{}, [][]byte{f}, nil)
		}
		for q := range 4 {
			n := l.Waiting(to, q)
			if n != 0 && n != 3 {
				t.Errorf("flow %d has %d frames in queue %d", flow, n, q)
			}
			used[q] = used[q] || n > 0
			for l.Waiting(to, q) > 0 {
				l.Take(to, q, &virtio.NetHdr{}, new([]byte))
			}
		}
	}
	if d := cmp.Diff(map[int]bool{0: true, 1: false, 2: true, 3: true}, used); d != "" {
		t.Errorf("queues used: %s", d)
	}
}

func TestShort(t *testing.T) {
	l := newLAN(t, vswitch.Config{}, 2)
	for _, iov := range [][][]byte{nil, {}, {{1, 2}, {3}}} {
		if woken := l.Forward(1, 0, &virtio.NetHdr{}, iov, nil); len(woken) > 0 {
			t.Errorf("%v went to %v", iov, woken)
		}
	}
	if l.Stats().Short != 3 {
		t.Errorf("%+v", l.Stats())
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []vswitch.Config{{Stations: 4}, {Stations: 100}, {Age: -1}, {QueueBytes: 1000}} {
		if _, err := vswitch.New(cfg); !errors.Is(err, vswitch.ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	l := newLAN(t, vswitch.Config{}, 1)
	for _, queues := range []int{0, vswitch.MaxQueues + 1} {
		if _, err := l.AddPort(queues); !errors.Is(err, vswitch.ErrConfig) {
			t.Errorf("port of %d queues: %v", queues, err)
		}
	}
}

func TestForwardAllocs(t *testing.T) {
	l := newLAN(t, vswitch.Config{}, 3)
	f := [][]byte{frameOf(mac(2), mac(1), 1000)}
	var woken []vswitch.Target
	var scratch []byte
	var h virtio.NetHdr
	round := func() {
		woken = l.Forward(l.now, 0, &h, f, woken[:0])
		for _, w := range woken {
			l.Take(w.Port, w.Queue, &h, &scratch)
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations for a frame", n)
	}
}
