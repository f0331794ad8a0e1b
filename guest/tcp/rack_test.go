package tcp_test

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/tcp/cc"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// TestRACKScripts: what is retransmitted, and when, for acknowledgements of ten
// segments of 1000 bytes that left together, at a round trip of 10 ms and 1000
// ticks per second.
func TestRACKScripts(t *testing.T) {
	start := []step{{do: "write 10000", sends: "1:10001"}}
	for _, c := range []struct {
		name   string
		kernel string
		steps  []step
	}{
		// one SACK above a hole: a quarter of the least round trip and 2 ms of margin make 5 ticks, the
		// wheel one more
		{"window", "6.12", []step{{wait: 10 * ms, do: "ack 1 sack 1001:2001"}, {wait: 5 * ms}, {wait: ms, sends: "1:1001"}}},
		{"window", "6.1", []step{{wait: 10 * ms, do: "ack 1 sack 1001:2001"}, {wait: 5 * ms}, {wait: ms, sends: "1:1001"}}},
		// before, the margin was two ticks after rounding up
		{"window", "5.18", []step{{wait: 10 * ms, do: "ack 1 sack 1001:2001"}, {wait: 5 * ms}, {wait: ms, sends: "1:1001"}}},
		// kernels that count wait for two more
		{"window", "4.15", []step{{wait: 10 * ms, do: "ack 1 sack 1001:2001"}, {wait: 8 * ms},
			{do: "ack 1 sack 1001:4001", sends: "1:1001"}}},
		// three SACKed segments need no time
		{"threshold", "6.12", []step{{wait: 10 * ms, do: "ack 1 sack 1001:4001", sends: "1:1001"}}},
		{"threshold", "5.0", []step{{wait: 10 * ms, do: "ack 1 sack 1001:4001", sends: "1:1001"}}},
		// everything sent before what was SACKed is lost, whatever is above it
		{"all before", "6.12", []step{{wait: 10 * ms, do: "ack 1 sack 7001:10001", sends: "1:3001"},
			{wait: ms, do: "ack 1001 sack 7001:10001", sends: "3001:5001"}}},
		{"all before", "4.15", []step{{wait: 10 * ms, do: "ack 1 sack 7001:10001", sends: "1:3001"}}},
		// a retransmission is lost when something that was sent after it arrives
		{"lost again", "6.12", []step{{wait: 10 * ms, do: "ack 1 sack 4001:10001", sends: "1:4001"},
			{wait: 10 * ms, do: "ack 1 sack 2001:10001", sends: "1:2001"}}},
		{"lost again", "4.15", []step{{wait: 10 * ms, do: "ack 1 sack 4001:10001", sends: "1:4001"},
			{wait: 10 * ms, do: "ack 1 sack 2001:10001"}}},
	} {
		t.Run(c.name+"/"+c.kernel, func(t *testing.T) {
			scripted(t, c.kernel, 10*ms, 320<<7, sysctl("tcp_early_retrans", "0")).script(append(start, c.steps...))
		})
	}
}

// TestRetransmissionLost: the loss of a retransmission is seen by the time of
// what was sent after it, where the kernel has RACK; else a timeout repairs it.
func TestRetransmissionLost(t *testing.T) {
	for k, rack := range map[string]bool{"4.1": false, "4.15": false, "5.0": true, "6.1": true, "6.12": true} {
		w := newWorld(t, k, func(c *tcp.Config) { c.HZ = 1000 })
		w.rtt, w.mss = 20*ms, 1448
		lost, seq := 0, uint32(0)
		w.lose = func(n int, p *skb.SKB) bool {
			if (lost == 0 && n == 30) || (lost == 1 && p.Retrans && p.Seq == seq) {
				lost, seq = lost+1, p.Seq
				return true
			}
			return false
		}
		w.open().write(3_000_000, 65536).drain()
		if i := w.s.Info().Counters; lost == 2 && (i.Timeouts == 0) != rack {
			t.Errorf("%s: %d timeouts, %d recoveries", k, i.Timeouts, i.FastRecovery)
		} else if lost < 2 {
			t.Errorf("%s: lost %d packets", k, lost)
		}
	}
}

// TestReordering: packets that overtake each other by a millisecond. When that
// was seen once, the sender waits for them, and does not take them for lost.
func TestReordering(t *testing.T) {
	w := newWorld(t, "6.12", func(c *tcp.Config) { c.HZ, c.Sndbuf = 1000, 4<<20 })
	w.rtt, w.rate, w.mss, w.dsack, w.stamps = 20*ms, 12_500_000, 1448, true, true
	n := 0
	w.late = func() vtime.Time {
		if n++; n%100 == 99 {
			return vtime.Time(2 * ms)
		}
		return 0
	}
	w.open().write(20_000_000, 65536).run(400 * ms)
	early := w.s.Info().Counters
	w.drain()
	i := w.s.Info().Counters
	if early.RetransPkts == 0 || early.Undos == 0 {
		t.Errorf("at first %d packets sent again, %d reductions undone", early.RetransPkts, early.Undos)
	}
	if late := i.RetransPkts - early.RetransPkts; late > early.RetransPkts || i.Timeouts > 0 {
		t.Errorf("%d packets sent again at first, then %d; %d timeouts", early.RetransPkts, late, i.Timeouts)
	}
}

// TestUndoDSACK: a report that the only retransmission was needless takes the
// reduction back.
func TestUndoDSACK(t *testing.T) {
	for _, k := range []string{"4.15", "6.1", "6.12"} {
		w := scripted(t, k, 10*ms, 320<<7, sysctl("tcp_early_retrans", "0"))
		w.script([]step{
			{do: "write 20000", sends: "1:10001"},
			{wait: 10 * ms, do: "ack 1 sack 1001:5001", sends: "1:1001 10001:11001"},
		})
		if i := w.s.Info(); i.State != cc.Recovery || i.Ssthresh != 7 {
			t.Fatalf("%s: %v, threshold %d", k, i.State, i.Ssthresh)
		}
		w.do("ack 10001")
		w.do("ack 10001 sack 1:1001")
		if i := w.s.Info(); i.State != cc.Open || i.Ssthresh != cc.InfiniteSsthresh || i.Cwnd < 10 || i.Counters.Undos != 1 {
			t.Errorf("%s: %v, window %d, threshold %d, %d undone", k, i.State, i.Cwnd, i.Ssthresh, i.Counters.Undos)
		}
	}
}

// TestUndoTimestamp: an acknowledgement that echoes a time before the
// retransmission was caused by the original.
func TestUndoTimestamp(t *testing.T) {
	w := scripted(t, "6.12", 10*ms, 320<<7)
	w.script([]step{{do: "write 10000", sends: "1:10001"}, {wait: 10 * ms, do: "ack 1 sack 1001:5001", sends: "1:1001"}})
	w.s.Input(tcp.Ack{Ack: 10001, Wnd: w.window, TSEcr: 1000})
	if i := w.s.Info(); i.State != cc.Open || i.Counters.Undos != 1 || i.Ssthresh != cc.InfiniteSsthresh {
		t.Errorf("%v, threshold %d, %d undone", i.State, i.Ssthresh, i.Counters.Undos)
	}
}

// TestFRTO: after a timeout a partial acknowledgement lets new data go, and if
// data that was sent once is acknowledged then, the timeout was a mistake.
func TestFRTO(t *testing.T) {
	for spurious, steps := range map[bool][]step{
		true:  {{do: "ack 1001", sends: "10001:12001"}, {wait: ms, do: "ack 2001"}},
		false: {{do: "ack 1001", sends: "10001:12001"}, {wait: ms, do: "ack 1001 sack 10001:11001", sends: "1001:2001"}},
	} {
		w := scripted(t, "6.12", 10*ms, 320<<7, sysctl("tcp_early_retrans", "0"))
		w.script([]step{{do: "write 10000", sends: "1:10001"}, {wait: 220 * ms, sends: "1:1001"}})
		w.send(10000, 0)
		w.script(steps)
		i := w.s.Info()
		if (i.Counters.Undos == 1) != spurious || (i.State == cc.Open) != spurious || (i.Ssthresh == cc.InfiniteSsthresh) != spurious {
			t.Errorf("spurious %v: %v, %d undone, threshold %d", spurious, i.State, i.Counters.Undos, i.Ssthresh)
		}
	}
}

// TestTLPDuplicate: a tail loss probe that was needless, which the peer reports,
// does not reduce the window.
func TestTLPDuplicate(t *testing.T) {
	for report, threshold := range map[string]uint32{"ack 11001 sack 9001:10001": cc.InfiniteSsthresh, "ack 11001": 13} {
		w := scripted(t, "6.12", 10*ms, 320<<7)
		w.script([]step{{do: "write 10000", sends: "1:10001"}, {wait: 25 * ms, sends: "9001:10001"},
			{do: "ack 9001"}, {do: "write 1000", sends: "10001:11001"}, {wait: ms, do: report}})
		if i := w.s.Info(); i.Ssthresh != threshold || i.Counters.TLPs != 1 || i.State != cc.Open {
			t.Errorf("%s: threshold %d, %d probes, %v", report, i.Ssthresh, i.Counters.TLPs, i.State)
		}
	}
}

// TestCWRFlag: the first new packet after a reduction says so to a peer that
// marks congestion, and only that one.
func TestCWRFlag(t *testing.T) {
	w := scripted(t, "6.12", 10*ms, 320<<7)
	w.noAck = true
	w.send(30000, 0)
	w.run(10 * ms)
	w.sent = w.sent[:0]
	w.s.Input(tcp.Ack{Ack: 4001, Wnd: w.window, ECE: true})
	w.s.Input(tcp.Ack{Ack: 10001, Wnd: w.window})
	for i, p := range w.sent {
		if got := p.flags&skb.CWR != 0; got != (i == 0) {
			t.Errorf("packet %d: CWR %v", i, got)
		}
	}
	if len(w.sent) < 2 {
		t.Errorf("%d packets", len(w.sent))
	}
}

// TestDCTCP: without marks for some round trips, a mark costs little of the
// window; without an agreement on marks it is Reno.
func TestDCTCP(t *testing.T) {
	cut := func(ecn bool) (before, after uint32) {
		w := newWorld(t, "6.12", func(c *tcp.Config) { c.CC = "dctcp" })
		w.ecn, w.rtt, w.rate, w.window = ecn, 10*ms, 12_500_000, 200_000
		w.open().write(20_000_000, 65536).run(time.Second)
		before = w.s.Info().Cwnd
		a := w.ackNow()
		a.ECE = true
		w.s.Input(a)
		return before, w.s.Info().Ssthresh
	}
	if before, after := cut(true); after < before*97/100 || after >= before {
		t.Errorf("window %d, threshold %d", before, after)
	}
	if before, after := cut(false); after != cc.InfiniteSsthresh {
		t.Errorf("window %d, threshold %d without an agreement", before, after)
	}
}
