package tcp_test

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// bottomEnv is an Env with softirqs: they are packets that are freed and
// acknowledgements, and run whenever the socket lets them.
type bottomEnv struct {
	s       *tcp.Sock
	now     vtime.Time
	off     int
	turns   int // times that softirqs could run
	raised  []func()
	sent    []*skb.SKB
	tsq     int
	daemon  bool
	keep    bool // packets stay below
	reading func()
}

func (e *bottomEnv) Now() vtime.Time {
	if f := e.reading; f != nil && e.off == 0 {
		e.reading = nil
		f()
	}
	return e.now
}
func (e *bottomEnv) Local() vtime.Time      { return e.now }
func (e *bottomEnv) Charge(vcpu.Op, int64)  {}
func (e *bottomEnv) QueueTSQ(*tcp.Sock)     { e.tsq++ }
func (e *bottomEnv) WriteSpace(*tcp.Sock)   {}
func (e *bottomEnv) DisableBH()             { e.off++ }
func (e *bottomEnv) InDaemon() bool         { return e.daemon }
func (e *bottomEnv) ack(to uint32)          { e.s.Input(tcp.Ack{Ack: to, Wnd: 6 << 20}) }
func (e *bottomEnv) raise(f func())         { e.raised = append(e.raised, f) }
func (e *bottomEnv) counters() tcp.Counters { return e.s.Info().Counters }

func (e *bottomEnv) Transmit(_ *tcp.Sock, p *skb.SKB) bool {
	if e.sent = append(e.sent, p); !e.keep {
		p.Orphan()
	}
	return true
}

func (e *bottomEnv) EnableBH() {
	e.off--
	if e.off > 0 {
		return
	}
	e.turns++
	for len(e.raised) > 0 {
		f := e.raised[0]
		e.raised = e.raised[1:]
		f()
	}
}

func newBottom(t *testing.T, kernel string) *bottomEnv {
	t.Helper()
	k, err := tcp.Release(kernel)
	if err != nil {
		t.Fatal(err)
	}
	e := &bottomEnv{now: vtime.Time(time.Second)}
	cfg := k.Config()
	if e.s, err = tcp.NewSock(0, cfg, e, &skb.Pool{}); err != nil {
		t.Fatal(err)
	}
	e.s.Established(tcp.Handshake{RTTUs: 1000, Window: 6 << 20, SACK: true})
	return e
}

// Softirqs run where the socket is locked and where it is released: those of the
// lock find it in use, those of the release do not.
func TestSoftirqsAtLock(t *testing.T) {
	e := newBottom(t, "6.12")
	e.s.Write(14480, 0)
	if e.turns != 2 || e.off != 0 {
		t.Fatalf("a write let softirqs run %d times, %d levels are left; want 2 and 0", e.turns, e.off)
	}
	e.raise(func() {
		if e.ack(2897); e.counters().Backlogged != 1 {
			t.Error("an acknowledgement in lock_sock did not wait")
		}
		e.raise(func() { e.ack(5793) })
	})
	e.s.Write(1448, 0)
	if c := e.counters(); c.Backlogged != 2 || c.BytesAcked != 5792 {
		t.Errorf("%d waited, %d bytes are acknowledged", c.Backlogged, c.BytesAcked)
	}
	e.reading = func() { e.raise(func() { e.ack(8689) }) } // raised by a packet of the write
	e.s.Write(1448, 0)
	if c := e.counters(); c.Backlogged != 2 || c.BytesAcked != 8688 {
		t.Errorf("at the release %d waited, %d bytes are acknowledged", c.Backlogged, c.BytesAcked)
	}
}

// An acknowledgement that comes while the backlog is processed is processed after
// it, and not lost in one that was.
func TestBacklogWhileProcessed(t *testing.T) {
	e := newBottom(t, "6.12")
	e.s.Write(14480, 0)
	e.raise(func() { e.ack(2897) })
	e.reading = func() {
		e.reading = func() { e.ack(8689) } // the reading of the first one's processing
	}
	e.s.Write(1448, 0)
	if c := e.counters(); c.BytesAcked != 8688 {
		t.Errorf("%d bytes are acknowledged, want all 8688", c.BytesAcked)
	}
}

// In ksoftirqd a packet that is freed wakes the socket only when nothing of it is
// left below.
func TestFreedInDaemon(t *testing.T) {
	for _, daemon := range []bool{false, true} {
		e := newBottom(t, "6.12")
		e.keep = true
		e.s.Write(14480, 0)
		e.s.Write(100, 0) // waits for a completion: autocorking
		if e.counters().Autocork != 1 || len(e.sent) < 2 {
			t.Fatalf("%d packets, and no write waits", len(e.sent))
		}
		e.daemon = daemon
		for i, p := range e.sent {
			p.Orphan()
			want := 1
			if daemon && i < len(e.sent)-1 {
				want = 0
			}
			if e.tsq != want {
				t.Errorf("daemon %v: %d wake-ups after packet %d of %d, want %d", daemon, e.tsq, i+1, len(e.sent), want)
			}
		}
	}
}
