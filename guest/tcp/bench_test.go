package tcp_test

import (
	"fmt"
	"testing"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// loopback is the least world that keeps a sender busy: packets are freed after
// `hold` others, and acknowledged a round trip later, without a calendar.
type loopback struct {
	s       *tcp.Sock
	pool    skb.Pool
	now     vtime.Time
	tsq     bool
	hold    int // packets that stay charged to the sender
	below   [64]*skb.SKB
	head, n int
	last    uint32
	packets int
	bytes   int64
	losing  int // every so many packets one is not acknowledged at once; 0: none
	lost    tcp.Range
	sacks   [1]tcp.Range
}

func (l *loopback) Now() vtime.Time        { return l.now }
func (l *loopback) Local() vtime.Time      { return l.now }
func (l *loopback) Charge(vcpu.Op, int64)  {}
func (l *loopback) QueueTSQ(*tcp.Sock)     { l.tsq = true }
func (l *loopback) WriteSpace(s *tcp.Sock) {}

func (l *loopback) Transmit(_ *tcp.Sock, p *skb.SKB) bool {
	l.packets++
	l.bytes += int64(p.Len)
	end := p.Seq + uint32(p.Len)
	if p.Retrans && p.Seq == l.lost.Start {
		l.lost = tcp.Range{}
	} else if l.losing > 0 && l.packets%l.losing == 0 && l.lost == (tcp.Range{}) {
		l.lost = tcp.Range{Start: p.Seq, End: end}
	}
	if int32(end-l.last) > 0 {
		l.last = end
	}
	l.below[(l.head+l.n)%len(l.below)] = p
	if l.n++; l.n > l.hold {
		l.free()
	}
	return true
}

func (l *loopback) free() {
	p := l.below[l.head]
	l.head = (l.head + 1) % len(l.below)
	l.n--
	p.Free()
}

// round acknowledges everything, or SACKs what is above a loss.
func (l *loopback) round() {
	l.now += 100_000
	a := tcp.Ack{Ack: l.last, Wnd: 4 << 20}
	if l.lost != (tcp.Range{}) && int32(l.last-l.lost.End) > 0 {
		a.Ack = l.lost.Start
		l.sacks[0] = tcp.Range{Start: l.lost.End, End: l.last}
		a.Sacks = l.sacks[:]
	} else {
		l.lost = tcp.Range{} // nothing above it tells: it arrived
	}
	l.s.Input(a)
	for l.n > 0 {
		l.free()
	}
	if l.tsq {
		l.tsq = false
		l.s.TSQ()
	}
	if t := l.s.Next(); t <= l.now {
		l.s.Timer(l.now)
	}
}

func newLoopback(tb testing.TB, kernel string, mods ...func(*tcp.Config)) *loopback {
	k, err := tcp.Release(kernel)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := k.Config()
	cfg.Sndbuf = 4 << 20
	for _, m := range mods {
		m(&cfg)
	}
	l := &loopback{now: 1e9, last: 1}
	if l.s, err = tcp.NewSock(0, cfg, l, &l.pool); err != nil {
		tb.Fatal(err)
	}
	l.s.Established(tcp.Handshake{RTTUs: 100, Window: 4 << 20, SACK: true})
	l.s.SetCwnd(1000, 1000)
	return l
}

// work is one round of a workload: some writes, and the acknowledgement of what
// they sent.
func (l *loopback) work(size, count int) {
	for range count {
		l.s.Write(size, 0)
		l.now += 2000
	}
	l.round()
}

var workloads = []struct {
	name        string
	kernel      string
	size, count int
	hold        int
	losing      int
	cfg         func(*tcp.Config)
}{
	{name: "gso/6.12", kernel: "6.12", size: 65536, count: 4},
	{name: "gso/6.1", kernel: "6.1", size: 65536, count: 4},
	{name: "gso/3.8", kernel: "3.8", size: 65536, count: 4},
	{name: "small/3.8", kernel: "3.8", size: 1024, count: 16},
	{name: "small/6.12", kernel: "6.12", size: 1024, count: 16},
	{name: "small-napi/6.12", kernel: "6.12", size: 1024, count: 16, hold: 8},
	{name: "paced/6.12", kernel: "6.12", size: 65536, count: 2, cfg: func(c *tcp.Config) {
		c.MaxPacingRate, c.Pacing = 1_000_000_000, tcp.PacingNeeded
	}},
	{name: "gso-off/4.16", kernel: "4.16", size: 65536, count: 2, cfg: func(c *tcp.Config) { c.CanGSO = false }},
	{name: "bbr/6.12", kernel: "6.12", size: 65536, count: 2, cfg: func(c *tcp.Config) { c.CC = "bbr" }},
	{name: "bbr-gso-off/4.16", kernel: "4.16", size: 65536, count: 2, cfg: func(c *tcp.Config) {
		c.CC, c.CanGSO = "bbr", false
	}},
	{name: "loss/6.12", kernel: "6.12", size: 65536, count: 4, losing: 50},
}

// TestNoAllocs: in the steady state neither a write nor a packet nor an
// acknowledgement allocates, with losses neither.
func TestNoAllocs(t *testing.T) {
	for _, c := range workloads {
		t.Run(c.name, func(t *testing.T) {
			var mods []func(*tcp.Config)
			if c.cfg != nil {
				mods = append(mods, c.cfg)
			}
			l := newLoopback(t, c.kernel, mods...)
			l.hold, l.losing = c.hold, c.losing
			for range 2000 {
				l.work(c.size, c.count)
			}
			before := l.packets
			if n := testing.AllocsPerRun(200, func() { l.work(c.size, c.count) }); n != 0 {
				t.Errorf("%v allocations per round", n)
			}
			if l.packets-before < 200 {
				t.Errorf("only %d packets in 200 rounds", l.packets-before)
			}
			i := l.s.Info()
			if c.losing > 0 && i.Counters.FastRecovery == 0 {
				t.Error("no recovery although packets were lost")
			}
			if l.pool.Live > len(l.below) {
				t.Errorf("%d packets live", l.pool.Live)
			}
		})
	}
}

// BenchmarkSender measures the sender alone: nanoseconds per packet and CPU
// seconds per GB of payload.
func BenchmarkSender(b *testing.B) {
	for _, c := range workloads {
		b.Run(c.name, func(b *testing.B) {
			var mods []func(*tcp.Config)
			if c.cfg != nil {
				mods = append(mods, c.cfg)
			}
			l := newLoopback(b, c.kernel, mods...)
			l.hold, l.losing = c.hold, c.losing
			for range 500 {
				l.work(c.size, c.count)
			}
			l.packets, l.bytes = 0, 0
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				l.work(c.size, c.count)
			}
			b.StopTimer()
			ns := float64(b.Elapsed().Nanoseconds())
			b.ReportMetric(ns/float64(max(l.packets, 1)), "ns/packet")
			b.ReportMetric(ns/float64(max(l.bytes, 1)), "cpu-s/GB")
		})
	}
}

// BenchmarkSenderFlows walks over many sockets, as 200 flows on one link do.
func BenchmarkSenderFlows(b *testing.B) {
	for _, flows := range []int{1, 200, 10000} {
		b.Run(fmt.Sprint(flows), func(b *testing.B) {
			ls := make([]*loopback, flows)
			for i := range ls {
				ls[i] = newLoopback(b, "6.12")
				ls[i].work(65536, 1)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				ls[i%flows].work(65536, 1)
			}
		})
	}
}
