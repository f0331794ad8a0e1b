package tcp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/tcp/cc"
)

// step is one line of a scripted connection: wait, do something, and look at
// what was sent since the last step.
type step struct {
	wait time.Duration
	do   string // "write N", "more N", "eor N", "ack N", "ack N win W", "ack N sack A:B …", "close", ""
	// sends is the ranges that leave, "seq:end" each. A range may be cut into
	// several packets, but in order and adding up (packetdrill's loose mode).
	sends string
	cwnd  uint32 // expected congestion window after the step; 0: not looked at
}

const ms = time.Millisecond

func (w *world) script(steps []step) {
	w.t.Helper()
	w.noAck = true
	for i, st := range steps {
		w.run(st.wait)
		w.do(st.do)
		if st.wait > 0 || st.do != "" {
			w.run(0)
		}
		got := merged(w.sent, st.sends)
		w.sent = w.sent[:0]
		if got != st.sends {
			w.t.Fatalf("step %d (+%v %s): sent %q, want %q; %+v", i, st.wait, st.do, got, st.sends, w.s.Info())
		}
		if c := w.s.Info().Cwnd; st.cwnd != 0 && c != st.cwnd {
			w.t.Fatalf("step %d (+%v %s): cwnd %d, want %d", i, st.wait, st.do, c, st.cwnd)
		}
	}
}

func (w *world) do(cmd string) {
	f := strings.Fields(cmd)
	if len(f) == 0 {
		return
	}
	var n int
	if len(f) > 1 {
		if _, err := fmt.Sscan(f[1], &n); err != nil {
			w.t.Fatalf("%q: %v", cmd, err)
		}
	}
	switch f[0] {
	case "write", "more", "eor":
		fl := map[string]tcp.WriteFlags{"more": tcp.More, "eor": tcp.EOR}[f[0]]
		if k := w.send(n, fl); k != n {
			w.t.Fatalf("%q accepted %d", cmd, k)
		}
	case "ack":
		w.s.Input(w.parseAck(uint32(n), f[2:]))
		w.softirq()
	case "close":
		w.s.Close()
	default:
		w.t.Fatalf("what is %q?", cmd)
	}
}

func (w *world) parseAck(n uint32, f []string) tcp.Ack {
	a := tcp.Ack{Ack: n, Wnd: w.window}
	for i := 0; i+1 < len(f); i++ {
		switch f[i] {
		case "win":
			_, _ = fmt.Sscan(f[i+1], &a.Wnd)
		case "sack":
			for _, s := range f[i+1:] {
				var r tcp.Range
				if _, err := fmt.Sscanf(s, "%d:%d", &r.Start, &r.End); err != nil {
					w.t.Fatalf("sack %q: %v", s, err)
				}
				a.Sacks = append(a.Sacks, r)
			}
		}
	}
	return a
}

// merged joins packets that continue each other, unless want has a border there.
func merged(sent []sentPkt, want string) string {
	border := map[uint32]bool{}
	for f := range strings.FieldsSeq(want) {
		var a, b uint32
		_, _ = fmt.Sscanf(f, "%d:%d", &a, &b)
		border[b] = true
	}
	var out []string
	for i := 0; i < len(sent); {
		start, end := sent[i].seq, sent[i].seq+uint32(sent[i].len)
		for i++; i < len(sent) && sent[i].seq == end && !border[end] && sent[i].len > 0; i++ {
			end += uint32(sent[i].len)
		}
		out = append(out, fmt.Sprintf("%d:%d", start, end))
	}
	return strings.Join(out, " ")
}

// scripted is a passive connection as packetdrill makes it: no timestamps, so
// that a segment is what the peer's MSS option says.
func scripted(t *testing.T, kernel string, rtt time.Duration, wnd uint32, mods ...func(*tcp.Config)) *world {
	mods = append([]func(*tcp.Config){func(c *tcp.Config) {
		c.MSS, c.HZ, c.Sndbuf = 1000, 1000, 400000
	}}, mods...)
	w := newWorld(t, kernel, mods...)
	w.rtt, w.window, w.first = rtt, wnd, min(wnd, 32792)
	w.ecn = true
	return w.open()
}

func sysctl(name, value string) func(*tcp.Config) {
	return func(c *tcp.Config) {
		if err := c.Sysctl.Set(name, value); err != nil {
			panic(err)
		}
	}
}

func paceFQ(c *tcp.Config) { c.Pacing = tcp.PacingFQ }

// modern are the kernels on which packetdrill's scripts are meant to hold.
var modern = []string{"5.18", "6.1", "6.9", "6.10", "6.12", "6.18"}

// TestSlowStartScripts is A12: slow-start-ack-per-1pkt, -2pkt and -4pkt.
func TestSlowStartScripts(t *testing.T) {
	per := func(acks ...string) []step {
		s := []step{{do: "write 30000", sends: "1:10001", cwnd: 10}}
		for i := 0; i < len(acks); i += 2 {
			s = append(s, step{wait: 5 * ms, do: "ack " + acks[i], sends: acks[i+1]})
		}
		s[1].wait = 105 * ms
		s[len(s)-1].cwnd = 20
		return s
	}
	for _, k := range modern {
		for name, s := range map[string][]step{
			"1pkt": per("1001", "10001:12001", "2001", "12001:14001", "3001", "14001:16001", "4001", "16001:18001",
				"5001", "18001:20001", "6001", "20001:22001", "7001", "22001:24001", "8001", "24001:26001",
				"9001", "26001:28001", "10001", "28001:30001"),
			"2pkt": per("2001", "10001:14001", "4001", "14001:18001", "6001", "18001:22001", "8001", "22001:26001",
				"10001", "26001:30001"),
			"4pkt": per("4001", "10001:18001", "8001", "18001:26001", "10001", "26001:30001"),
		} {
			t.Run(k+"/"+name, func(t *testing.T) {
				scripted(t, k, 100*ms, 257<<7, sysctl("tcp_tso_win_divisor", "100")).script(s)
			})
		}
	}
}

// TestAppLimitedScripts: a flight of half the window does not raise it, one of
// six segments raises it to twelve (packetdrill, -send-5pkt and -send-6pkt).
func TestAppLimitedScripts(t *testing.T) {
	for _, k := range modern {
		scripted(t, k, 10*ms, 257<<7).script([]step{
			{do: "write 5000", sends: "1:5001", cwnd: 10},
			{do: "ack 2001", cwnd: 10}, {do: "ack 4001", cwnd: 10}, {do: "ack 5001", cwnd: 10},
		})
		scripted(t, k, 10*ms, 257<<7).script([]step{
			{do: "write 6000", sends: "1:6001", cwnd: 10},
			{do: "ack 2001", cwnd: 12}, {do: "ack 4001", cwnd: 12}, {do: "ack 6001", cwnd: 12},
		})
	}
}

// TestWindowUpdateScript is A12: slow-start-after-win-update, with the probes
// of a closed window.
func TestWindowUpdateScript(t *testing.T) {
	for _, k := range modern {
		t.Run(k, func(t *testing.T) {
			w := scripted(t, k, 100*ms, 511<<7, sysctl("tcp_min_tso_segs", "10"))
			w.script([]step{
				{do: "write 26000", sends: "1:5001 5001:10001", cwnd: 10},
				{wait: 100 * ms, do: "ack 10001", sends: "10001:20001 20001:26001", cwnd: 20},
				{wait: 100 * ms, do: "ack 26001 win 0", cwnd: 36},
				{do: "write 20000"},
				{wait: 299 * ms}, {wait: 11 * ms, sends: "26000:26000", cwnd: 36},
				{wait: 589 * ms}, {wait: 21 * ms, sends: "26000:26000", cwnd: 36},
				{wait: 1179 * ms}, {wait: 41 * ms, sends: "26000:26000", cwnd: 36},
				{wait: 860 * ms, do: "ack 26001", sends: "26001:31001 31001:36001", cwnd: 10},
			})
			if n := w.s.Info().Counters.ZeroProbes; n != 3 {
				t.Errorf("%d probes, want 3", n)
			}
		})
	}
}

// TestIdleScript is packetdrill's slow-start-after-idle.
func TestIdleScript(t *testing.T) {
	for _, k := range modern {
		scripted(t, k, 100*ms, 511<<7, sysctl("tcp_min_tso_segs", "10")).script([]step{
			{do: "write 26000", sends: "1:5001 5001:10001", cwnd: 10},
			{wait: 100 * ms, do: "ack 10001", sends: "10001:20001 20001:26001", cwnd: 20},
			{wait: 100 * ms, do: "ack 26001", cwnd: 36},
			{wait: 2 * time.Second, do: "write 20000", sends: "26001:31001 31001:36001", cwnd: 10},
		})
	}
}

// TestEORScript is A12: no-coalesce-large. The last write stays alone; that it
// leaves with the ACK before is within packetdrill's tolerance.
func TestEORScript(t *testing.T) {
	for _, k := range modern {
		scripted(t, k, 10*ms, 514<<10).script([]step{
			{do: "write 10400", sends: "1:10001"}, {do: "eor 10400"}, {do: "write 2000"},
			{wait: ms, do: "ack 10001", sends: "10001:20801 20801:22801"},
		})
	}
}

// TestMoreScript: MSG_MORE holds back what is short, even with TCP_NODELAY, until
// a call without it (packetdrill's sendmsg_msg_more; its 200 ms release is the
// probe timer).
func TestMoreScript(t *testing.T) {
	for _, k := range modern {
		scripted(t, k, 10*ms, 257<<7, func(c *tcp.Config) { c.NoDelay = true }).script([]step{
			{do: "more 40"}, {wait: 209 * ms}, {wait: 10 * ms, sends: "1:41"},
			{wait: 10 * ms, do: "ack 41"},
			{do: "more 100"}, {wait: 5 * ms, do: "more 160"}, {wait: 10 * ms, do: "more 495"},
			{wait: 8 * ms, do: "write 5", sends: "41:801"},
			{wait: 20 * ms, do: "ack 801"},
			{wait: 100 * ms, do: "more 3100", sends: "801:3801"},
			{wait: 3 * ms, do: "more 50"},
			{wait: 10 * ms, do: "ack 2801", sends: "3801:3951"},
		})
	}
}

// TestPRRScripts are packetdrill's prr-ss-10pkt-lost-1, prr-ss-30pkt-lost1_4 and
// limited-transmit-sack.
func TestPRRScripts(t *testing.T) {
	for _, k := range modern {
		t.Run(k, func(t *testing.T) {
			w := scripted(t, k, 100*ms, 320<<7)
			w.script([]step{
				{do: "write 10000", sends: "1:10001"},
				{wait: 110 * ms, do: "ack 1 sack 1001:2001"},
				{wait: 10 * ms, do: "ack 1 sack 1001:3001"},
				{wait: 10 * ms, do: "ack 1 sack 1001:4001", sends: "1:1001", cwnd: 7},
				{wait: 20 * ms, do: "write 7000"},
				{wait: 10 * ms, do: "ack 1 sack 1001:5001", sends: "10001:11001"},
				{wait: 10 * ms, do: "ack 1 sack 1001:6001", sends: "11001:12001"},
				{wait: 10 * ms, do: "ack 1 sack 1001:7001", sends: "12001:13001"},
				{wait: 10 * ms, do: "ack 1 sack 1001:8001", sends: "13001:14001"},
				{wait: 10 * ms, do: "ack 1 sack 1001:9001", sends: "14001:15001"},
				{wait: 10 * ms, do: "ack 1 sack 1001:10001", sends: "15001:16001"},
				{wait: 20 * ms, do: "ack 10001", sends: "16001:17001", cwnd: 7},
			})
			if i := w.s.Info(); i.State != cc.Open || i.Ssthresh != 7 {
				t.Errorf("state %v ssthresh %d, want open 7", i.State, i.Ssthresh)
			}
			scripted(t, k, 10*ms, 320<<7).script([]step{
				{do: "write 10000", sends: "1:10001"},
				{wait: 10 * ms, do: "ack 1 sack 4001:5001"},
				{wait: 2 * ms, do: "ack 1 sack 4001:6001"},
				{do: "ack 1 sack 4001:7001", sends: "1:1001"},
				{do: "ack 1 sack 4001:8001", sends: "1001:2001"},
				{do: "ack 1 sack 4001:9001", sends: "2001:3001"},
				{do: "ack 1 sack 4001:10001", sends: "3001:4001"},
				{wait: 10 * ms, do: "ack 1001 sack 4001:10001"},
				{do: "ack 2001 sack 4001:10001"}, {do: "ack 3001 sack 4001:10001"}, {do: "ack 10001"},
				{wait: 10 * ms, do: "write 10000", sends: "10001:17001"},
			})
			scripted(t, k, 100*ms, 320<<7).script([]step{
				{do: "write 15000", sends: "1:10001"},
				{wait: 110 * ms, do: "ack 1 sack 1001:2001", sends: "10001:11001"},
				{wait: 10 * ms, do: "ack 1 sack 1001:3001", sends: "11001:12001"},
				{wait: 10 * ms, do: "ack 3001", sends: "12001:14001"},
				{wait: 20 * ms, do: "ack 5001", sends: "14001:15001"},
				{wait: 20 * ms, do: "ack 15001"},
				{wait: 170 * ms, do: "close", sends: "15001:15001"},
				{wait: 100 * ms, do: "ack 15002"},
			})
		})
	}
}

// TestLowatScript is A12: notsent-lowat-default. A send buffer of 50000 bytes
// takes 58000 bytes in one call, because the last entry may exceed it. (What
// follows the 16000 bytes of the script is not looked at there.)
func TestLowatScript(t *testing.T) {
	w := scripted(t, "6.1", 20*ms, 257<<7, func(c *tcp.Config) { c.Sndbuf = 0 },
		sysctl("tcp_wmem", "4096 50000 4194304"), sysctl("tcp_min_tso_segs", "10"))
	w.noAck = true
	if n := w.send(59000, 0); n != 58000 {
		t.Fatalf("accepted %d", n)
	}
	w.script([]step{
		{sends: "1:10001"},
		{wait: 20 * ms, do: "ack 10001", sends: "10001:26001 26001:30001"},
	})
}

// TestFQPacingScript is A12: slow-start-fq-ack-per-2pkt. The times are those at
// which fq lets the packets go, in ms after the first ACK.
func TestFQPacingScript(t *testing.T) {
	w := scripted(t, "6.1", 100*ms, 500<<7, func(c *tcp.Config) { c.MSS = 1460 }, paceFQ)
	w.script([]step{
		{do: "write 40000", sends: "1:2921 2921:5841 5841:8761 8761:11681 11681:14601", cwnd: 10},
	})
	w.run(105 * ms)
	first := w.now
	for i, a := range []struct {
		wait time.Duration
		ack  uint32
	}{{0, 2921}, {3 * ms, 5841}, {2 * ms, 8761}, {9 * ms, 11681}, {ms, 14601}} {
		w.run(a.wait)
		w.ack(a.ack)
		if c := w.s.Info().Cwnd; c != uint32(12+2*i) {
			t.Errorf("cwnd %d after ack %d, want %d", c, a.ack, 12+2*i)
		}
	}
	want := []time.Duration{0, 4 * ms, 12 * ms, 19 * ms, 26 * ms}
	for i, p := range w.sent[:len(want)] {
		if d := time.Duration(p.t-first) - want[i]; p.len != 2920 || d < -1500*time.Microsecond || d > 1500*time.Microsecond {
			t.Errorf("packet %d of %d bytes leaves %v late", i, p.len, d)
		}
	}
}
