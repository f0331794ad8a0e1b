package vhost_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// TestFault080FrameWhileSignalling has a frame arrive at the host at the moment
// when the guest is called for the one before, and no kick after that: it must
// not wait for one.
func TestFault080FrameWhileSignalling(t *testing.T) {
	w := newWorld(t, 1)
	g := w.connect()
	rx := w.start(g, 0)
	rx.Post()
	rx.Notify()
	rx.EnableCalls()
	w.ports[0].deliver(frameOf(60, 0))
	for i := range 200 {
		// What was used before calls were asked for needs none.
		w.eventually("a call", func() bool { return readCount(rx.Call) > 0 || rx.HasUsed() })
		if i < 199 {
			w.ports[0].deliver(frameOf(60, byte(i+1)))
		}
		w.receive(rx)
		rx.EnableCalls()
	}
}

// limitedPort takes no segmentation.
type limitedPort struct{ *testPort }

func (limitedPort) Offloads() virtio.Features { return virtio.FeatureCSum }

// lockedBuffer is written by a server and read by a test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestFault176OffloadMismatch has a guest that leaves work to a host that does
// not do it: the log and the report say so.
func TestFault176OffloadMismatch(t *testing.T) {
	for _, limited := range []bool{false, true} {
		var log lockedBuffer
		w := newWorld(t, 1, func(c *vhost.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			if limited {
				c.Ports[0] = limitedPort{c.Ports[0].(*testPort)}
			}
		})
		w.start(w.connect(), 1)
		got := w.lastSession().Software
		if warned := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "HOST_TSO4"); warned != limited {
			t.Errorf("limited %v: warned %v", limited, warned)
		}
		if want := virtio.FeatureHostTSO4 | virtio.FeatureHostUSO; got.Has(want) != limited || got.Has(virtio.FeatureCSum) {
			t.Errorf("limited %v: the report has %v", limited, got)
		}
	}
}

// TestFault188SharedInterrupt has one interrupt for all queues, which the report
// shows.
func TestFault188SharedInterrupt(t *testing.T) {
	w := newWorld(t, 2)
	g := w.connect()
	shared := eventfds(t, 1)[0]
	for _, want := range []int{0, 2, 3} {
		tx := w.start(g, want)
		if got := w.lastSession().SharedCalls; want == 0 && got != 0 {
			t.Errorf("%d rings share a call descriptor, want none", got)
		}
		w.tellFD(g, wire.SetVringCall, tx.Index, shared)
	}
	w.ok(g.Barrier())
	w.eventually("the report says so", func() bool { return w.lastSession().SharedCalls == 3 })
	w.tellFD(g, wire.SetVringCall, 0, eventfds(t, 1)[0])
	w.eventually("one ring has its own again", func() bool { return w.lastSession().SharedCalls == 2 })
}
