package tcp_test

import (
	"slices"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/tcp/cc"
	"github.com/vnetbench/vnetbench/guest/vcpu"
)

// loseNth loses the packets with these numbers, once.
func loseNth(ns ...int) func(int, *skb.SKB) bool {
	return func(n int, _ *skb.SKB) bool {
		return slices.Contains(ns, n)
	}
}

// TestLossRepaired: one lost packet in the middle of a bulk transfer is repaired
// by fast retransmission, without a timeout, on every kernel.
func TestLossRepaired(t *testing.T) {
	for _, k := range tcp.Releases() {
		w := newWorld(t, k)
		w.lose, w.mss, w.rtt = loseNth(12), 1448, 5*ms
		w.open().write(2_000_000, 65536).drain()
		i := w.s.Info()
		if i.Counters.FastRecovery != 1 || i.Counters.Timeouts != 0 || i.State != cc.Open {
			t.Errorf("%s: %d recoveries, %d timeouts, state %v", k, i.Counters.FastRecovery, i.Counters.Timeouts, i.State)
		}
		if i.Counters.RetransBytes == 0 || i.Counters.Bytes-i.Counters.RetransBytes != 2_000_000 {
			t.Errorf("%s: %d bytes sent, %d of them again", k, i.Counters.Bytes, i.Counters.RetransBytes)
		}
		if i.Ssthresh >= cc.InfiniteSsthresh {
			t.Errorf("%s: threshold untouched", k)
		}
	}
}

// TestTailLoss: a lost tail is repaired by a probe after two round trips where
// the kernel has probes, else by the timeout.
func TestTailLoss(t *testing.T) {
	for k, tlp := range map[string]bool{"3.8": false, "3.12": true, "6.1": true, "6.12": true} {
		w := newWorld(t, k, func(c *tcp.Config) { c.HZ = 1000 })
		w.rtt = 10 * ms
		w.open().write(14480, 14480).run(50 * ms)
		w.lose = loseNth(w.packets + 1)
		start := w.now
		w.write(2*1448, 2*1448).drain()
		i := w.s.Info().Counters
		if (i.TLPs > 0) != tlp || (i.Timeouts > 0) == tlp {
			t.Errorf("%s: %d probes, %d timeouts", k, i.TLPs, i.Timeouts)
		}
		again := time.Duration(0)
		for _, p := range w.sent {
			if p.re {
				again = time.Duration(p.t - start)
				break
			}
		}
		if tlp && (again < 20*ms || again > 30*ms) || !tlp && again < 200*ms {
			t.Errorf("%s: sent again after %v", k, again)
		}
	}
}

// TestTimeoutBackoff: with everything lost the timeout doubles. Since v4.8 the
// timer wheel rounds up.
func TestTimeoutBackoff(t *testing.T) {
	for kernel, want := range map[string][]int64{
		"4.1":  {0, 300, 900, 2100, 4500},
		"6.12": {0, 304, 920, 2136, 4568}, // slots of 8 and 64 ms, which begin at 1 s, the start
	} {
		w := newWorld(t, kernel, func(c *tcp.Config) { c.HZ = 1000 }, sysctl("tcp_early_retrans", "0"))
		w.rtt = 100 * ms
		w.open()
		w.lose = func(int, *skb.SKB) bool { return true }
		start := w.now
		w.send(1448, 0)
		w.run(5 * time.Second)
		var at []int64
		for _, p := range w.sent {
			at = append(at, int64(p.t-start)/1e6)
		}
		if !slices.Equal(at, want) {
			t.Errorf("%s: sent at %v ms, want %v", kernel, at, want)
		}
		if i := w.s.Info(); i.State != cc.Loss || i.Cwnd != 1 || i.InFlight != 1 {
			t.Errorf("%s: %+v", kernel, i)
		}
	}
}

// TestDuplicateSACK: a report of data that arrived twice is no loss.
func TestDuplicateSACK(t *testing.T) {
	w := scripted(t, "6.12", 10*ms, 320<<7)
	w.script([]step{
		{do: "write 10000", sends: "1:10001"},
		{wait: 10 * ms, do: "ack 5001"},
		{do: "ack 5001 sack 1:1001"}, {do: "ack 5001 sack 2001:3001"}, {do: "ack 5001 sack 1:5001"},
		{do: "ack 5001 sack 7001:8001 7001:9001"},
		{do: "ack 10001"},
	})
	if i := w.s.Info(); i.Counters.FastRecovery != 0 || i.Counters.RetransPkts != 0 {
		t.Errorf("%+v", i.Counters)
	}
}

// TestReneging: a receiver that gives up what it SACKed gets everything again.
func TestReneging(t *testing.T) {
	w := scripted(t, "6.12", 10*ms, 320<<7)
	w.noAck = true
	w.send(10000, 0)
	w.run(10 * ms)
	w.do("ack 1 sack 1001:10001")
	w.do("ack 1001") // and not 10001
	w.sent = w.sent[:0]
	w.run(2 * time.Second)
	if len(w.sent) == 0 || w.sent[0].seq != 1001 {
		t.Fatalf("sent %+v", w.sent)
	}
	w.do("ack 10001")
	if !w.s.Done() {
		t.Error("not done")
	}
}

// TestBadAcks: acknowledgements of nothing that was sent, and old ones, change
// nothing.
func TestBadAcks(t *testing.T) {
	w := scripted(t, "6.12", 10*ms, 320<<7)
	w.noAck = true
	w.send(10000, 0)
	w.do("ack 20001")
	w.do("ack 5001")
	before := w.s.Info()
	w.do("ack 1")
	w.do("ack 4294960000")
	after := w.s.Info()
	if after.Counters.BadAcks != 1 || after.Counters.OldAcks != 2 || after.Unacked != before.Unacked || after.Cwnd != before.Cwnd {
		t.Errorf("%+v", after)
	}
}

// TestLocalDrop: a packet that the layer below refuses stays at the head of the
// queue, and the window is reduced as for congestion.
func TestLocalDrop(t *testing.T) {
	w := newWorld(t, "6.12")
	w.refuse = func(n int) bool { return n == 3 }
	w.open().write(500_000, 65536).drain()
	i := w.s.Info()
	if i.Counters.Dropped != 1 || i.Ssthresh >= cc.InfiniteSsthresh || w.got != 500_000 {
		t.Errorf("%d dropped, threshold %d, %d bytes arrived", i.Counters.Dropped, i.Ssthresh, w.got)
	}
}

// TestECE: a congestion mark reduces the window once per window of data.
func TestECE(t *testing.T) {
	w := scripted(t, "6.12", 10*ms, 320<<7)
	w.noAck = true
	w.send(20000, 0)
	w.run(10 * ms)
	for _, a := range []uint32{2001, 4001, 6001} {
		w.s.Input(tcp.Ack{Ack: a, Wnd: w.window, ECE: true})
	}
	if i := w.s.Info(); i.State != cc.CWR || i.Ssthresh != 7 {
		t.Errorf("state %v, threshold %d, want cwr and 7", i.State, i.Ssthresh)
	}
}

// TestBacklog: acknowledgements and timers that come during a write wait until
// the socket is free, and are processed by the process.
func TestBacklog(t *testing.T) {
	w := newWorld(t, "6.12", func(c *tcp.Config) { c.Sndbuf = 1 << 22; c.GSOMaxSegs = 2 })
	w.rtt, w.clockNs, w.preempt = 100*us, 5000, true
	w.open()
	w.s.SetCwnd(100, 100)
	w.write(2_000_000, 500_000).drain()
	if i := w.s.Info(); i.Counters.Backlogged == 0 || w.got != 2_000_000 {
		t.Errorf("%d acknowledgements waited, %d bytes arrived", i.Counters.Backlogged, w.got)
	}
}

// TestBacklogMerge: acknowledgements that wait become one, so that what they
// allow is sent in one pass; those with other options stay apart.
func TestBacklogMerge(t *testing.T) {
	for k, want := range map[string]uint64{"4.17": 5, "6.12": 2} {
		c := &interrupting{world: newWorld(t, k)}
		rel, _ := tcp.Release(k)
		c.s, _ = tcp.NewSock(0, rel.Config(), c, &c.pool)
		c.noAck = true
		c.open()
		c.send(100_000, 0)
		before := c.s.Info().Counters
		for i := uint32(1); i <= 4; i++ {
			c.acks = append(c.acks, tcp.Ack{Ack: 1 + 1448*i, Wnd: c.window, TSVal: 7})
		}
		c.acks = append(c.acks, tcp.Ack{Ack: 1 + 1448*5, Wnd: c.window, TSVal: 8})
		c.send(1000, 0)
		after := c.s.Info().Counters
		if got := after.Acks - before.Acks; got != want || after.Backlogged != 5 || after.BytesAcked != 5*1448 {
			t.Errorf("%s: %d acknowledgements processed, want %d; %+v", k, got, want, after)
		}
	}
}

// interrupting is a world in which acknowledgements come during a write.
type interrupting struct {
	*world
	acks []tcp.Ack
}

func (c *interrupting) Charge(op vcpu.Op, n int64) {
	acks := c.acks
	c.acks = nil
	for _, a := range acks {
		c.s.Input(a)
	}
}

// TestPeerWindow: what fits in the peer's window goes, even a part of a segment
// if nothing short is in flight; less than a segment of window is not used.
func TestPeerWindow(t *testing.T) {
	for _, k := range modern {
		scripted(t, k, 10*ms, 5500).script([]step{
			{do: "write 20000", sends: "1:5501"},
			{wait: 10 * ms, do: "ack 5501 win 499"},
			{wait: ms, do: "ack 5501 win 5500", sends: "5501:11001"},
		})
	}
}
