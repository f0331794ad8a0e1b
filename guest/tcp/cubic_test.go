package tcp_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/tcp/cc"
)

// lateHystart puts back the HyStart rounds that packetdrill's scripts were
// written for (v5.16 to v6.13).
func lateHystart(c *tcp.Config) { c.Switches.Hystart = tcp.HystartLate }

// bulk166k acknowledges two segments every 100 ms and compares the window after
// given amounts of acknowledged data.
func bulk166k(t *testing.T, w *world, from, to uint32, want map[uint32]uint32) {
	t.Helper()
	for a := from; a <= to; a += 2000 {
		w.run(100 * ms)
		w.ack(a + 1)
		if c := w.s.Info().Cwnd; want[a] != 0 && c != want[a] {
			t.Errorf("cwnd %d after %d bytes, want %d", c, a, want[a])
		}
	}
}

func bulkWorld(t *testing.T, kernel string) *world {
	w := scripted(t, kernel, 100*ms, 514<<10, paceFQ, sysctl("tcp_min_tso_segs", "4"),
		sysctl("tcp_early_retrans", "0"), sysctl("tcp_slow_start_after_idle", "0"), lateHystart, func(c *tcp.Config) { c.Sndbuf = 4000000 })
	w.noAck = true
	return w
}

// TestCubicBulk is A12: cubic-bulk-166k. HyStart ends slow start at 48; later the
// window grows by one for every two segments acknowledged.
func TestCubicBulk(t *testing.T) {
	for _, k := range modern {
		t.Run(k, func(t *testing.T) {
			w := bulkWorld(t, k)
			w.do("write 400000")
			want := map[uint32]uint32{10000: 20, 20000: 30, 30000: 40, 38000: 48, 60000: 49, 80000: 50,
				100000: 52, 120000: 58}
			for i := uint32(1); i <= 10; i++ {
				want[120000+2000*i] = 58 + i
			}
			for a, c := uint32(160000), uint32(78); a <= 400000; a, c = a+20000, c+10 {
				want[a] = c
			}
			bulk166k(t, w, 2000, 400000, want)
		})
	}
}

// TestCubicIdle is A12: cubic-bulk-166k-idle-restart. Four idle seconds give no
// credit for growth.
func TestCubicIdle(t *testing.T) {
	for _, k := range modern {
		t.Run(k, func(t *testing.T) {
			w := bulkWorld(t, k)
			w.do("write 40000")
			bulk166k(t, w, 2000, 40000, map[uint32]uint32{10000: 20, 20000: 30, 30000: 40, 38000: 48})
			w.run(4 * time.Second)
			w.do("write 160000")
			bulk166k(t, w, 42000, 120000, map[uint32]uint32{60000: 48, 80000: 49, 100000: 52, 120000: 58})
		})
	}
}

// TestHystartDelayJumpsDown is A12: cubic-hystart-delay-min-rtt-jumps-downward.
func TestHystartDelayJumpsDown(t *testing.T) {
	for _, k := range modern {
		w := scripted(t, k, 200*ms, 257<<7)
		s := []step{
			{do: "write 28000", sends: "1:10001", cwnd: 10},
			{wait: 200 * ms, do: "ack 10001", sends: "10001:28001", cwnd: 20},
			{wait: 180 * ms, do: "write 2000", sends: "28001:30001"},
			{wait: 20 * ms, do: "ack 12001", cwnd: 22},
		}
		for i := uint32(1); i <= 9; i++ {
			s = append(s, step{wait: ms, do: fmt.Sprintf("ack %d", 12001+2000*i), cwnd: 22 + 2*i})
		}
		w.script(s)
		if got := w.s.Info().Ssthresh; got != cc.InfiniteSsthresh {
			t.Errorf("%s: ssthresh %d", k, got)
		}
	}
}
